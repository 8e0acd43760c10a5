"""A question as it was asked (a regression or a table), and the release spec that answers it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from dp_core.errors import BadInput
from dp_core.inference.formulas.declared_analysis import declared_analysis
from dp_core.inference.questions.between_waves import read_any_question
from dp_core.plan.data_location import DatabaseTable
from dp_core.plan.plan import Plan
from dp_core.plan.question_desk import QuestionDesk
from dp_core.plan.reading.spec_file import read_plan
from dp_core.schema.definition import Schema
from dp_core.schema.dependencies import origin
from dp_core.schema.reading.restricted_schema import restricted_schema
from dp_core.text.documents.node import from_plain
from dp_core.text.documents.typed_text import printable

Kind = Literal["regression", "table"]

HOW = (
    'A question is a regression such as "income ~ age + sex", or a table such as "share by sex" or'
    ' "mean of income by region".'
)
MOST_CHARACTERS = 2_000
REGRESSION_SHARE = "0.8"
"""Share of a regression's budget for its own sums; the rest is for the tables of the sets."""
SETS = "5"
_QUOTES = {"“": "”", "„": "“", "‘": "’", "«": "»", "'": "'", '"': '"', "`": "`"}


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A question that can be answered.

    Attributes:
        kind: `regression` or `table`.
        text: The question as it was understood.
        columns: Released columns that it names, in the order of the schema.
        table: Columns of the table that is measured, in the order of the schema; () for a
            regression.
        model: The regression without spelling and reference levels; empty for a table.
    """

    kind: Kind
    text: str
    columns: tuple[str, ...]
    table: tuple[str, ...] = ()
    model: str = ""

    @property
    def measured(self) -> tuple[str, ...]:
        """Key of what is measured: equal for questions that the same release answers."""
        return (self.kind, *(self.table or (self.model,)))


def read_asked(text: str, schema: Schema) -> AskedQuestion:
    """Return the question that a text asks about a file.

    Args:
        text: The question, a formula or in the language of `query`.
        schema: Schema of the whole file.

    Raises:
        BadInput: if it is neither, or a regression that cannot be measured directly.
    """
    asked = _without_quotes(text)
    if not asked:
        raise BadInput(f"The question is empty. {HOW}")
    if len(asked) > MOST_CHARACTERS:
        raise BadInput(f"The question is longer than {MOST_CHARACTERS:,} characters.")
    if asked != printable(asked):
        raise BadInput("The question has characters that cannot be printed; type it again.")
    if "~" in asked:
        return _about_the_schema(_regression, asked, schema)
    home = os.path.expanduser("~")
    if home != "~" and f" {home} " in f" {asked} ":
        raise BadInput(
            "The shell replaced ~ by the path of the home folder; put the question in quotes."
        )
    return _about_the_schema(_table, asked, schema)


def _about_the_schema(
    read: Callable[[str, Schema], AskedQuestion], text: str, schema: Schema
) -> AskedQuestion:
    """Return what `read` reads; its errors then speak of the schema instead of a release."""
    try:
        return read(text, schema)
    except BadInput as error:
        said = error.message
        for other in ("The release has no column", "There is no column"):
            said = said.replace(other, f"The schema ({schema.title}) has no column")
        said = said.replace("no column of the release", f"no column of the schema ({schema.title})")
        raise BadInput(said) from None


def _without_quotes(text: str) -> str:
    """Return a question without the quotes that a shell or a word processor left around it."""
    found = " ".join(text.split())
    while len(found) > 1 and _QUOTES.get(found[0]) == found[-1] and found.count(found[0]) < 3:
        found = found[1:-1].strip()
    return found


def _regression(text: str, schema: Schema) -> AskedQuestion:
    try:
        found = declared_analysis(text, schema)
    except BadInput as error:
        said = error.message.replace("a declared analysis", "a regression that a desk answers")
        raise BadInput(said) from None
    columns = tuple(name for name in schema.names if name in found.columns)
    return AskedQuestion("regression", found.formula, columns, model=found.model)


def _table(text: str, schema: Schema) -> AskedQuestion:
    # Whoever only asks for help imports none of this.
    from dp_core.analysis.query.answering import read_informative

    try:
        question = read_any_question(text, schema)
    except BadInput as error:
        hint = f" {HOW}" if set(text) & {"=", "+"} else ""  # perhaps a formula
        raise BadInput(f"{error.message}{hint}") from None
    if not schema.private:
        read_informative(text, schema)  # nobody pays for what every file answers alike
    columns = tuple(name for name in schema.names if name in question.columns)
    table = {origin(schema, name)[0] for name in columns}
    if schema.nested is not None:
        areas = [name for name in schema.nested.columns if name in table]
        table -= {*areas[:-1]}  # the smallest areas decide the larger ones
    if not table:
        # The number of records is the sum of any table; a table of few cells has the least noise.
        table = {min(schema.columns, key=lambda column: column.size).name}
        columns = tuple(table)
    words = question.in_words
    return AskedQuestion(
        kind="table",
        text=words if _means(words, schema, words) else text,
        columns=columns,
        table=tuple(name for name in schema.names if name in table),
    )


def _means(text: str, schema: Schema, words: str) -> bool:
    """Return whether a text is read as the question that these words describe."""
    try:
        return read_any_question(text, schema).in_words == words
    except BadInput:
        return False


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
