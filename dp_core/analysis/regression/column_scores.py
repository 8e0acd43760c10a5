"""What each code of a column means in a regression: its value in the design, or in the outcome.

A coefficient compares codes of one column: the values of a number, or a level with the reference
level. With the codes' values, a noisy table of outcome and predictor tells what to expect of it
(`dp_core.bundle.quality.pair_errors`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_core.analysis.regression.design import Design, Floats
from dp_core.analysis.regression.fitting import coefficient_names
from dp_core.analysis.regression.frames import Frame
from dp_core.inference.formulas.formula import Formula
from dp_core.schema.definition import Column, Schema


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """What a coefficient compares.

    Attributes:
        name: Name of the coefficient.
        place: Its position in the combined result.
        columns: Columns of its term, none for the intercept.
        x: Value of each code of its only column, NaN where it is not compared; None for an
            interaction, the intercept, or a column that follows from others.
        y: Value of each code of the outcome's only column, NaN likewise; None for several columns.
        counts: Mean number of records of the sets by codes of the predictor and of the outcome;
            None without `x` or `y`.
        by_bin: By how much the coefficient is larger if the outcome is one unit larger in all
            records of a bin, in the first set, shape (bins,): for the mean of a group, its shares.
            None unless the outcome of a linear regression is a number of the schema.
        constant: What the coefficient would be if all records had the mean outcome; 0 without
            `by_bin`.
    """

    name: str
    place: int
    columns: tuple[str, ...]
    x: Floats | None
    y: Floats | None
    counts: Floats | None
    by_bin: Floats | None
    constant: float


def compared(
    formula: Formula, design: Design, frames: Sequence[Frame], schema: Schema
) -> tuple[Compared, ...]:
    """Return what each coefficient compares, in their order; the first set tells the values.

    Args:
        formula: Formula of the regression.
        design: Its design.
        frames: Complete rows of each set.
        schema: Schema of the release.
    """
    names, own = coefficient_names(design), {column.name for column in schema.columns}
    width, x = len(design.names), design.x[0]
    every = {
        name: [_codes(schema.column(name), frame.data[name]) for frame in frames]
        for name in formula.columns
        if name in own
    }
    codes = {name: first for name, (first, *_) in every.items()}
    tables: dict[str, Floats] = {}
    by_bin, mean = None, 0.0
    if design.outcome.family == "linear" and formula.outcome in codes:
        number = schema.column(formula.outcome)
        mean = float(np.mean([np.mean(each) for each in design.y]))
        by_bin = None if number.levels else _by_bin(design, codes[number.name], number.bins)
    found = []
    for place, name in enumerate(names):
        column, term = place % width, design.terms[place % width]
        columns = formula.terms[term]
        scores = None
        if len(columns) == 1 and columns[0] in codes:
            together = [other for other in range(width) if design.terms[other] == term]
            scores = _predictor(schema.column(columns[0]), codes[columns[0]], x, column, together)
        outcome = None
        if len(formula.outcome_columns) == 1 and formula.outcome_columns[0] in codes:
            outcome = _outcome(design, codes[formula.outcome_columns[0]], schema, formula, place)
        if scores is not None and outcome is not None and columns[0] not in tables:
            both = (columns[0], formula.outcome_columns[0])
            tables[columns[0]] = _table(
                [schema.column(each).size for each in both], [every[each] for each in both]
            )
        given = None if scores is None or outcome is None else tables[columns[0]]
        shares = None if by_bin is None else by_bin[place]
        constant = 0.0 if shares is None else float(shares.sum()) * mean
        found.append(Compared(name, place, columns, scores, outcome, given, shares, constant))
    return tuple(found)


def _by_bin(design: Design, codes: NDArray[np.intp], bins: int) -> Floats:
    """Return what each bin of the outcome contributes to least squares coefficients, for a unit."""
    x = design.x[0]
    weighted = x * design.weights[0][:, None] if design.weights else x
    sums = [np.bincount(codes, each, minlength=bins)[:bins] for each in weighted.T]
    return np.asarray(np.linalg.lstsq(weighted.T @ x, np.array(sums), rcond=None)[0])


def _table(sizes: Sequence[int], codes: Sequence[Sequence[NDArray[np.intp]]]) -> Floats:
    """Return the mean counts of the sets over two columns."""
    found = np.zeros(sizes[0] * sizes[1])
    for first, second in zip(*codes, strict=True):
        found += np.bincount(first * sizes[1] + second, minlength=found.size)
    return (found / len(codes[0])).reshape(sizes[0], sizes[1])


def _predictor(
    column: Column, codes: NDArray[np.intp], x: Floats, place: int, together: Sequence[int]
) -> Floats | None:
    values = _means(codes, x[:, place], column.size)
    if not column.levels:
        return values
    # A level is compared with the reference, whose row is 0 in all columns of the term.
    known = np.vstack([_means(codes, x[:, other], column.size) for other in together])
    reference = (known == 0).all(axis=0)
    if not reference.any() or len(np.unique(values[~np.isnan(values)])) != 2:
        return values if len(together) == 1 else None
    return np.where(reference | (values != 0), values, np.nan)


def _outcome(
    design: Design, codes: NDArray[np.intp], schema: Schema, formula: Formula, place: int
) -> Floats:
    values = _means(codes, design.y[0], schema.column(formula.outcome_columns[0]).size)
    if design.outcome.family != "multinomial":
        return values
    level = 1 + place // len(design.names)
    return np.where(values == level, 1.0, np.where(values == 0, 0.0, np.nan))


def _means(codes: NDArray[np.intp], values: Floats, size: int) -> Floats:
    """Return the mean of some values for each code; NaN for a code that does not occur."""
    counts = np.bincount(codes, minlength=size).astype(np.float64)
    sums = np.bincount(codes, values, minlength=size)
    return np.asarray(np.divide(sums, counts, out=np.full(size, np.nan), where=counts > 0))


def _codes(column: Column, values: Any) -> NDArray[np.intp]:
    """Return the codes of a frame's column without missing values."""
    if not column.levels:
        edges = np.array([float(edge) for edge in column.edges[1:-1]])
        numbers = np.asarray(values, dtype=np.float64) + column.scale.zero
        return np.asarray(np.searchsorted(edges, numbers, side="right"), dtype=np.intp)
    code_of = column.label_codes()
    places = np.array([code_of[label] for label in values.cat.categories], dtype=np.intp)
    found: NDArray[np.intp] = places[values.cat.codes.to_numpy()]
    return found
