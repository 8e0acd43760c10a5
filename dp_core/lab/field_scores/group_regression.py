"""Regression lines of two columns within each group of records, in both files.

SDNist fits the income decile on education within groups of sex and race, by least squares, and
prints slope and intercept of both files (SDNist 2.4, `sdnist/metrics/regression.py`). Columns and
groups are the caller's here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.lab.field_scores.code_values import CodeValues
from dp_core.metrics.marginal_error import Tally
from dp_core.tables.dataset import Dataset
from dp_core.tables.domain import Clique


@dataclass(frozen=True, slots=True)
class Line:
    """A least-squares line.

    Attributes:
        slope, intercept: Its coefficients; NaN if the predictor is constant.
        records: Number of records with both values.
    """

    slope: float
    intercept: float
    records: int


@dataclass(frozen=True, slots=True)
class GroupLines:
    """The lines of one group.

    Attributes:
        group: Code of each grouping column; empty for all records.
        real: Line of the real file.
        synthetic: Line of the synthetic file.
    """

    group: tuple[int, ...]
    real: Line
    synthetic: Line


def group_regression(
    real: Dataset,
    synthetic: Dataset,
    values: CodeValues,
    *,
    outcome: str,
    predictor: str,
    by: Clique = (),
) -> tuple[GroupLines, ...]:
    """Return the lines of all records, and of each group that the real file has.

    Args:
        real: The real file.
        synthetic: The synthetic file of the same domain.
        values: The ordered columns and their numbers.
        outcome: An ordered column.
        predictor: Another one.
        by: Grouping columns, none of these two; none by default.

    Raises:
        ValueError: if a column has no order, or is named twice.
    """
    names = (*by, predictor, outcome)
    if len({*names}) < len(names):
        raise ValueError("Outcome, predictor and groups must be different columns.")
    if missing := [name for name in (outcome, predictor) if name not in values.values]:
        raise ValueError(f"Column {missing[0]!r} has no order, so it has no line.")
    sides = values.values[predictor], values.values[outcome]
    tables = [Tally(data.domain, [names]).add(data).count(names) for data in (real, synthetic)]
    whole = [table.sum(axis=tuple(range(len(by)))) for table in tables]
    found = [GroupLines((), *(_line(table, *sides) for table in whole))]
    if by:
        for group in np.ndindex(tables[0].shape[: len(by)]):
            if tables[0][group].any():
                lines = [_line(table[group], *sides) for table in tables]
                found.append(GroupLines(tuple(int(code) for code in group), *lines))
    return tuple(found)


def strongest_pair(correlations: dict[Clique, float]) -> Clique | None:
    """Return the pair with the largest absolute correlation; None if no pair has one.

    >>> strongest_pair({("a", "b"): 0.1, ("a", "c"): -0.4})
    ('a', 'c')
    """
    known = {pair: abs(value) for pair, value in correlations.items() if not math.isnan(value)}
    return max(known, key=lambda pair: known[pair]) if known else None


def slope_errors(lines: Sequence[GroupLines]) -> dict[tuple[int, ...], float]:
    """Return the difference of slopes, synthetic - real, of each group that has both."""
    gaps = {one.group: one.synthetic.slope - one.real.slope for one in lines}
    return {group: gap for group, gap in gaps.items() if not math.isnan(gap)}


def _line(table: NDArray[np.int64], x: NDArray[np.float64], y: NDArray[np.float64]) -> Line:
    counts = table[np.ix_(~np.isnan(x), ~np.isnan(y))].astype(np.float64)
    x, y = x[~np.isnan(x)], y[~np.isnan(y)]
    total = counts.sum()
    if total <= 0:
        return Line(math.nan, math.nan, 0)
    mean_x, mean_y = counts.sum(axis=1) @ x / total, counts.sum(axis=0) @ y / total
    spread = float(counts.sum(axis=1) @ (x - mean_x) ** 2)
    if spread <= 1e-12:
        return Line(math.nan, math.nan, int(total))
    slope = float((x - mean_x) @ counts @ (y - mean_y)) / spread
    return Line(slope, float(mean_y - slope * mean_x), int(total))
