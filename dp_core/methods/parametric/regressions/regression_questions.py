"""The questions of a chain of regressions, and their parts of the budget. Public."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from dp_core.kernel.codes import Codes
from dp_core.kernel.counting.domain import Clique
from dp_core.kernel.extensions.minimisers import ClassMinimiser
from dp_core.kernel.questions.regressions.features import Features, Levels, Number
from dp_core.kernel.questions.regressions.gradients import ClassGradient, NumberGradient
from dp_core.kernel.questions.statistic import Sum
from dp_core.methods.parametric.synthesizer import Ask
from dp_core.schema.variables import Variable

Minimiser = Literal["gradient", "functional", "functional-zero", "output"]
Part = Literal["rows", "table", "missing", "number", "levels"]

REACH = 3.0
"""Numeric predictors are cut off at this many noisy standard deviations from their noisy mean; this
concerns .3 % of a normal column. With `functional` they are scaled by their range and not cut."""
RIDGE = Fraction(1, 20)
"""With `output`, weight of the penalty per record of the file. A larger one biases coefficients
more than its smaller noise is worth, and a smaller one has more noise (simulation 4)."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the chain: a regression, the table of the first column, or the number of records.

    Attributes:
        column: Position of the column in the order, from 0.
        part: Which part of the column's model it is.
        share: Its part of the budget.
    """

    column: int
    part: Part
    share: Fraction


def pieces(order: Sequence[Variable], *, count: bool) -> tuple[Piece, ...]:
    """Return the pieces of a chain in the order in which they are asked. Public.

    Args:
        order: Columns in the order in which they are drawn.
        count: Whether the number of records is asked for if no table gives it.
    """
    found: list[tuple[int, Part, float]] = []
    width = 1
    for column, variable in enumerate(order):
        if column == 0 and (count or not variable.numeric):
            # The table of a categorical first column gives the number of records too.
            cells = 1 if variable.numeric else variable.size
            found.append((column, "rows" if variable.numeric else "table", float(cells)))
        if variable.numeric:
            if variable.missing:
                found.append((column, "missing", float(width * (column + 1))))
            found.append((column, "number", float((width + 1) * (column + 2))))
        elif column and variable.size > 1:
            entries = (variable.size - 1) * width
            found.append((column, "levels", float(entries * (column + 1))))
        width += predictor(variable, None).width
    # For e entries and squared sensitivity s, (e s)^(1/3) nearly minimises the sum of variances.
    sizes = [Fraction(max(1, round(16 * weight ** (1 / 3)))) for *_, weight in found]
    whole = sum(sizes)
    return tuple(
        Piece(column, part, size / whole)
        for (column, part, _), size in zip(found, sizes, strict=True)
    )


def planned_questions(order: Sequence[Variable], minimiser: Minimiser) -> tuple[Ask, ...]:
    """Return the planned questions; only scales are not known beforehand."""
    features = of_ranges(order)
    asks = []
    for piece in pieces(order, count=True):
        variable = order[piece.column]
        what: Sum | Clique = () if piece.part == "rows" else (variable.name,)
        if piece.part not in ("rows", "table"):
            own = Features(features[: piece.column])
            what = question(piece, variable, own, minimiser, rows=1)
        asks.append(Ask(step_name(piece), what, piece.share))
    return tuple(asks)


def question(
    piece: Piece, variable: Variable, features: Features, minimiser: Minimiser, rows: float
) -> Sum:
    """Return the question of a regression: its gradient at coefficients 0, or its minimiser."""
    if piece.part == "number":
        target = Number(
            name=variable.name,
            positions=variable.positions,
            centre=0,
            reach=max(1, variable.positions - 1),
        )
        return NumberGradient(target=target, features=features, at=(0,) * features.width)
    classes = 2 if piece.part == "missing" else variable.size
    missing = variable.positions if piece.part == "missing" else 0
    if minimiser == "output" and piece.part == "levels":
        return ClassMinimiser(
            column=variable.name,
            classes=classes,
            missing_from=missing,
            features=features,
            ridge=max(1, round(float(RIDGE) * rows)),
        )
    return ClassGradient(
        column=variable.name,
        classes=classes,
        missing_from=missing,
        features=features,
        at=(0,) * ((classes - 1) * features.width),
    )


def part_of(asked: Sum) -> Part:
    """Return the part of a column's model that a question belongs to."""
    if isinstance(asked, NumberGradient):
        return "number"
    return "missing" if isinstance(asked, ClassGradient) and asked.missing_from else "levels"


def step_name(piece: Piece) -> str:
    """Return the name of a question, unique within the method."""
    return f"column-{piece.column + 1}-{piece.part}"


def predictor(variable: Variable, codes: Codes | None) -> Number | Levels:
    """Return a column's features, scaled by the model records' codes if given, else its range."""
    if not variable.numeric:
        return Levels(name=variable.name, size=variable.size)
    widest = max(1, variable.positions - 1)
    centre, scale = 0, widest
    there = None if codes is None else codes[codes < variable.positions].astype(np.float64)
    if there is not None and there.size:
        centre = round(2 * float(there.mean()) - (variable.positions - 1))
        scale = min(widest, max(1, round(2 * REACH * float(there.std()))))
    return Number(
        name=variable.name,
        positions=variable.positions,
        centre=centre,
        reach=scale,
        missing=variable.missing,
    )


def of_ranges(order: Sequence[Variable]) -> tuple[Number | Levels, ...]:
    """Return the features of columns, scaled by their ranges."""
    return tuple(predictor(variable, None) for variable in order)


def asked_in_all(order: Sequence[Variable], minimiser: Minimiser) -> Iterator[int]:
    """Yield the number of entries of every question."""
    for ask in planned_questions(order, minimiser):
        yield ask.what.length if isinstance(ask.what, Sum) else 1


def number_of_features(order: Sequence[Variable]) -> int:
    """Return the number of predictors of the last regression, including the intercept."""
    return 1 + sum(predictor(variable, None).width for variable in order[:-1])
