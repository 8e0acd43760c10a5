"""Writes the release spec that answers one question, with the columns that it needs."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from dp_core.errors import BadInput
from dp_core.plan.data_location import DatabaseTable
from dp_core.plan.plan import Plan
from dp_core.plan.question_desk import QuestionDesk
from dp_core.plan.reading.spec_file import read_plan
from dp_core.schema.definition import Schema
from dp_core.schema.reading.restricted_schema import restricted_schema
from dp_core.text.documents.node import from_plain
from flows.desk.asked_question import AskedQuestion

REGRESSION_SHARE = "0.8"
"""Share of a regression's budget for its own sums; the rest is for the tables of the sets."""
SETS = "5"


def question_schema(asked: AskedQuestion, schema: Schema) -> Schema:
    """Return the schema of the columns that a question needs."""
    return restricted_schema(schema, {*asked.columns, *asked.table})


def answering_keys(asked: AskedQuestion, *, gaussian: bool = False) -> dict[str, Any]:
    """Return the keys of a spec that say what is measured, as plain values.

    Args:
        asked: The question.
        gaussian: Whether the noise of counts must be Gaussian; by default (False) the smaller of
            Laplace and Gaussian noise is used.
    """
    if asked.kind == "table":
        keys: dict[str, Any] = {
            "method": "fixed",
            "tables": [[*asked.table]],
            "synthesize": {"sets": "0"},
        }
    else:
        keys = {
            "method": "auto",
            "analyses": {"formulas": [asked.text], "share": REGRESSION_SHARE},
            "synthesize": {"sets": SETS, "mode": "posterior"},
        }
    return keys | ({"measure": {"noise": "gaussian"}} if gaussian else {})


def question_document(
    desk: QuestionDesk,
    asked: AskedQuestion,
    *,
    release: str,
    account: str,
    epsilon: Fraction,
    schema: str,
    gaussian: bool,
) -> dict[str, Any]:
    """Return the spec of a question as plain values.

    Args:
        desk: The desk.
        asked: The question.
        release: Name of its release.
        account: Account that pays.
        epsilon: Its epsilon.
        schema: File of its schema.
        gaussian: Whether the noise must be Gaussian.
    """
    place = desk.data.document() if isinstance(desk.data, DatabaseTable) else desk.data
    return {
        "version": "1",
        "release": release,
        "data": place,
        "schema": schema,
        "account": account,
        "privacy": {
            "epsilon": str(epsilon),
            "delta": str(desk.delta),
            "neighbours": desk.neighbours,
        },
        **answering_keys(asked, gaussian=gaussian),
        **({} if desk.answers == "at-once" else {"publish": desk.answers}),
    }


def plan_of(document: Mapping[str, Any], schema: Schema, folder: Path) -> Plan:
    """Return the plan of a question's spec.

    Raises:
        BadInput: if the question cannot be measured, for example because its table has too many
            cells. The message names no key of the spec, because the asker did not write the spec.
    """
    try:
        return read_plan(from_plain(document, source="question"), folder, schema=schema)
    except BadInput as error:
        said = error.faults[0].text if error.faults else error.message
        raise BadInput(f"The question cannot be answered: {said}", row=error.row) from None
