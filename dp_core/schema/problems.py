"""Why a value is not in the schema, and which of these problems stop a release."""

from __future__ import annotations

from enum import StrEnum

from dp_core.schema.definition import Column


class Problem(StrEnum):
    """Why a value is not in the schema."""

    MISSING = "missing"
    LEVEL = "level"
    RANGE = "range"
    TYPE = "type"


def refused_problems(column: Column) -> frozenset[Problem]:
    """Return the problems that stop a release; the column's policy settles the others.

    `out_of_range` applies to values of the column's type. What is none of them always stops it.
    """
    # privacy: a program that reads `1,5` as a number writes all of a column in that form, unless
    # one row is no number. If a text that cannot be read became missing, one row would change other
    # rows' codes.
    if column.missing == "reject":
        settled = {Problem.RANGE} if column.out_of_range == "clip" else set()
    else:
        settled = {Problem.MISSING}
        if column.out_of_range == "missing":
            settled |= {Problem.LEVEL, Problem.RANGE}
        elif column.out_of_range == "clip":
            settled |= {Problem.RANGE}
    return frozenset(Problem) - settled


def applies(problem: Problem, column: Column) -> bool:
    """Return whether values of a column can have a problem of this kind."""
    if problem is Problem.MISSING:
        return True
    return (problem is Problem.LEVEL) == bool(column.levels)
