"""The error of a regression whose terms separate the outcomes, so that an estimate is infinite."""

from __future__ import annotations

from dp_core.errors import BadInput


class Separated(BadInput):
    """The terms separate the outcomes of a set perfectly, so that an estimate is infinite.

    Albert, A. and Anderson, J. A. (1984). On the existence of maximum likelihood estimates in
    logistic regression models. Biometrika 71(1), 1-10.

    Attributes:
        column: Position of the column of the design that separates most; None if it is unknown.
        fittable: A formula that was fitted to every set instead; empty if none was found.
    """

    column: int | None = None
    fittable: str = ""


def separated(where: str, outcome: str, name: str, column: int | None) -> Separated:
    """Return the error for one set.

    Args:
        where: Name of the set.
        outcome: Left side of the formula.
        name: Name of the column of the design that separates most; empty if it is unknown.
        column: Its position; None if it is unknown.
    """
    what = f"{name} separates" if name else "the terms separate"
    error = Separated(
        f"In {where} {what} the values of {outcome} perfectly, so the estimate is infinite."
    )
    error.column = column
    return error
