"""A trial of a team's own expectations on a row of public legal values.

It finds what the library cannot build or judge before the confidential data are opened, so that a
mistake in the schema is no attempt to use them.
"""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np

from dp_core.errors import BadInput
from dp_core.schema.definition import Column, Schema
from dp_core.schema.expectations.suite import Rule, rules_of
from tasks.validation.profile_frame import FileProfile, legal_value
from tasks.validation.suite_judge import SuiteJudge


def try_expectations(schema: Schema) -> None:
    """Let the library judge a row of legal values by a team's own expectations. Public.

    Whether the row meets them does not matter. Without own expectations nothing is imported.

    Args:
        schema: The schema whose file will be validated.

    Raises:
        BadInput: if the library cannot build or judge one of them; it names the expectation.
    """
    rules = rules_of(schema)
    own = [number for number, rule in enumerate(rules) if rule.kind == "own"]
    if not own or _judged(schema, rules, own) is None:
        return
    for number in own:
        error = _judged(schema, rules, [number])
        if error is not None:
            about = rules[number]
            raise BadInput(
                f"{schema.title}: Great Expectations cannot judge {about.about} with the arguments"
                f" {dict(about.kwargs)!r} ({type(error).__name__}); correct or remove it under"
                " `expectations` of the schema. The data were not opened."
            )
    raise BadInput(
        f"{schema.title}: Great Expectations cannot judge the schema's `expectations` together;"
        " remove some of them. The data were not opened."
    )


def _judged(schema: Schema, rules: tuple[Rule, ...], only: list[int]) -> Exception | None:
    """Return the library's error, if it cannot judge these rules."""
    row = {column.name: _cells(column) for column in schema.released}
    try:
        judge = SuiteJudge(schema.title, rules, only=only)
        judge.judge("rows", row, 1)
        judge.judge("profile", *FileProfile(schema, rules).frame({}))
        judge.judge("table", {}, 1)
    except Exception as error:  # the library raises what its parts raise
        return error
    return None


def _cells(column: Column) -> np.ndarray[Any, Any]:
    value = legal_value(column)
    plain = isinstance(value, (str, datetime.date))
    return np.array([value], dtype=object if plain else None)
