"""Why a value is not in the schema, and which of these problems stop a release."""

from __future__ import annotations

from enum import StrEnum


class Problem(StrEnum):
    """Why a value is not in the schema."""

    MISSING = "missing"
    LEVEL = "level"
    RANGE = "range"
    TYPE = "type"


def refused_problems(missing: str, out_of_range: str) -> frozenset[Problem]:
    """Return the problems that stop a release; the column's policy settles the others.

    `out_of_range` applies to values of the column's type. What is none of them always stops it.

    Args:
        missing: `reject`, or `level` if missing values have a code.
        out_of_range: `reject`, `clip` or `missing`.
    """
    # privacy: a program that reads `1,5` as a number writes all of a column in that form, unless
    # one row is no number. If a text that cannot be read became missing, one row would change other
    # rows' codes.
    if missing == "reject":
        settled = {Problem.RANGE} if out_of_range == "clip" else set()
    else:
        settled = {Problem.MISSING}
        if out_of_range == "missing":
            settled |= {Problem.LEVEL, Problem.RANGE}
        elif out_of_range == "clip":
            settled |= {Problem.RANGE}
    return frozenset(Problem) - settled
