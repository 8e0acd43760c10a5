"""Relations of columns in both files: correlations, regression lines, and principal components.

Correlations are computed from the table of each pair of ordered columns, so that a file of any
length costs one count. Source: SDNist 2.4, `sdnist/metrics/pearson_correlation.py`, and its report,
which has both; it takes the difference synthetic - real of each pair. Kendall's is tau-b: Kendall
(1945), Biometrika 33(3).

SDNist fits the income decile on education within groups of sex and race, by least squares, and
prints slope and intercept of both files (SDNist 2.4, `sdnist/metrics/regression.py`). Columns and
groups are the caller's here.

SDNist shows scatter plots of the first five components: the axes are those of the real file, and
each file is standardised by its own means and deviations (SDNist 2.4, `sdnist/metrics/pca.py`). It
has no figure; here each axis has two: the variance along it in both files, and the distance of
Kolmogorov and Smirnov between the two distributions of scores.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Clique
from dp_core.lab.field_scores.code_values import CodeValues
from dp_core.lab.measures.table_errors import full_tables
from dp_core.metrics.marginal_error import small_cliques, within_limit

MOST_PAIRS = 500
"""Largest number of pairs; of more, a sample with a fixed seed is used."""


def pearson(table: ArrayLike, rows: ArrayLike, columns: ArrayLike) -> float:
    """Return Pearson's correlation of a table; NaN if one of its sides is constant.

    Args:
        table: Numbers of records, shape (a, b).
        rows: Number that each row stands for, shape (a,).
        columns: Number that each column stands for, shape (b,).

    >>> round(pearson([[2, 1], [1, 2]], [0, 1], [0, 1]), 4)
    0.3333
    """
    counts = np.asarray(table, dtype=np.float64)
    x, y = np.asarray(rows, dtype=np.float64), np.asarray(columns, dtype=np.float64)
    total = counts.sum()
    if total <= 0:
        return math.nan
    mass = counts / total
    x, y = x - mass.sum(axis=1) @ x, y - mass.sum(axis=0) @ y
    squares = float((mass.sum(axis=1) @ x**2) * (mass.sum(axis=0) @ y**2))
    return float(x @ mass @ y) / math.sqrt(squares) if squares > 1e-300 else math.nan


def kendall(table: ArrayLike) -> float:
    """Return Kendall's tau-b of a table whose sides are in order; NaN if one of them is constant.

    >>> round(kendall([[2, 1], [1, 2]]), 4)
    0.3333
    """
    counts = np.asarray(table, dtype=np.float64)
    after = counts[::-1, ::-1].cumsum(axis=0).cumsum(axis=1)[::-1, ::-1]
    beside = counts[::-1].cumsum(axis=0).cumsum(axis=1)[::-1]
    agree = float((counts[:-1, :-1] * after[1:, 1:]).sum())
    differ = float((counts[:-1, 1:] * beside[1:, :-1]).sum())
    total = counts.sum()
    pairs = total * (total - 1) / 2
    tied = [
        float((side * (side - 1)).sum() / 2) for side in (counts.sum(axis=1), counts.sum(axis=0))
    ]
    scale = (pairs - tied[0]) * (pairs - tied[1])
    return (agree - differ) / math.sqrt(scale) if scale > 0 else math.nan


def correlation_errors(real: Dataset, synthetic: Dataset, values: CodeValues) -> dict[str, float]:
    """Return the mean absolute difference of both correlations, by their names.

    It is empty for fewer than two columns. Records with a missing value in a pair are left out of
    that pair.

    Args:
        real: The real file.
        synthetic: The synthetic file of the same domain.
        values: The ordered columns and their numbers; for Kendall's only the order matters.
    """
    files = [pairwise_correlations(data, values) for data in (real, synthetic)]
    found = {}
    for name in ("pearson", "kendall"):
        true, drawn = (each[name] for each in files)
        gaps = [abs(drawn[pair] - true[pair]) for pair in true]
        if gaps := [gap for gap in gaps if not math.isnan(gap)]:
            found[name] = math.fsum(gaps) / len(gaps)
    return found


def pairwise_correlations(
    data: Dataset, values: CodeValues
) -> Mapping[str, Mapping[Clique, float]]:
    """Return the correlations of each pair of ordered columns, by name and pair.

    Args:
        data: A file.
        values: The ordered columns and their numbers.
    """
    domain = data.domain
    found: dict[str, dict[Clique, float]] = {"pearson": {}, "kendall": {}}
    if len(values.ordered) < 2:
        return found
    wanted, _ = within_limit(
        domain, small_cliques(domain.project(values.ordered), 2, most=MOST_PAIRS)
    )
    numbers = {name: values.values[name] for name in values.ordered}
    order = {name: _in_order(each) for name, each in numbers.items()}
    for (one, two), (counts,) in full_tables(wanted, [data]):
        table = counts[np.ix_(order[one], order[two])]
        sides = numbers[one][order[one]], numbers[two][order[two]]
        found["pearson"][one, two] = pearson(table, *sides)
        found["kendall"][one, two] = kendall(table)
    return found


def _in_order(numbers: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the codes that stand for a number, ascending by it."""
    order = np.argsort(numbers, kind="stable")
    return order[~np.isnan(numbers[order])]


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
    ((_, tables),) = full_tables([names], (real, synthetic))
    whole = [table.sum(axis=tuple(range(len(by)))) for table in tables]
    found = [GroupLines((), *(_line(table, *sides) for table in whole))]
    if by:
        for group in np.ndindex(tables[0].shape[: len(by)]):
            if tables[0][group].any():
                lines = [_line(table[group], *sides) for table in tables]
                found.append(GroupLines(tuple(int(code) for code in group), *lines))
    return tuple(found)


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


COMPONENTS = 5
"""Number of components, as in SDNist."""


@dataclass(frozen=True, slots=True)
class ComponentError:
    """One principal component of the real file.

    Attributes:
        real_variance: Share of the variance along it, real file.
        synthetic_variance: The same share of the synthetic file, along the same axis.
        distance: Largest difference of the two distribution functions of scores, 0 to 1.
        columns: The columns with the largest weights, at most five: `column` and `weight`.
    """

    real_variance: float
    synthetic_variance: float
    distance: float
    columns: tuple[Mapping[str, str | float], ...]


def component_errors(
    real: Dataset, synthetic: Dataset, values: CodeValues
) -> tuple[ComponentError, ...]:
    """Return the components in the order of their variance; empty for fewer than two columns.

    Ordered columns and columns of two levels are used, except constant ones. A missing value stands
    for the mean.

    Args:
        real: The real file, not empty.
        synthetic: The synthetic file of the same domain, not empty.
        values: The ordered columns and their numbers.
    """
    names, files = [], []
    for name in real.domain.columns:
        one, other = (_standardise(data, name, values) for data in (real, synthetic))
        if one is not None and other is not None:
            names.append(name)
            files.append((one, other))
    if len(names) < 2:
        return ()
    true, drawn = (np.stack([pair[side] for pair in files], axis=1) for side in (0, 1))
    variances, axes = np.linalg.eigh(true.T @ true / true.shape[0])
    found = []
    for axis in np.argsort(-variances, kind="stable")[:COMPONENTS]:
        weights = axes[:, axis]
        weights = weights * (np.sign(weights[np.abs(weights).argmax()]) or 1.0)
        scores = drawn @ weights
        heaviest = np.argsort(-np.abs(weights), kind="stable")[:5]
        found.append(
            ComponentError(
                real_variance=float(variances[axis]) / len(names),
                synthetic_variance=float(scores @ scores) / scores.size / len(names),
                distance=distribution_distance(true @ weights, scores),
                columns=tuple(
                    {"column": names[place], "weight": float(weights[place])} for place in heaviest
                ),
            )
        )
    return tuple(found)


def distribution_distance(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Return the largest difference of two empirical distribution functions.

    Values that differ by less than 1e-9 of the range are equal.

    >>> distribution_distance(np.array([1.0, 2.0]), np.array([2.0, 3.0]))
    0.5
    """
    both = np.concatenate([first, second])
    span = float(both.max() - both.min())
    if span <= 0:
        return 0.0
    # Equal records get scores that differ in their last digits.
    grid = span * 1e-9
    first, second = (np.sort(np.round(part / grid)) for part in (first, second))
    places = np.unique(np.concatenate([first, second]))
    below = [np.searchsorted(part, places, side="right") / part.size for part in (first, second)]
    return float(np.abs(below[0] - below[1]).max())


def _standardise(data: Dataset, name: str, values: CodeValues) -> NDArray[np.float64] | None:
    """Return a column with mean 0 and deviation 1; None if it has no order or is constant."""
    (size,) = data.domain.project((name,)).sizes
    if name in values.values:
        numbers = values.values[name]
    elif size == 2:
        numbers = np.arange(2.0)
    else:
        return None
    column = numbers[data.column(name)]
    known = ~np.isnan(column)
    if not known.any():
        return None
    mean = float(column[known].mean())
    centred = np.where(known, column - mean, 0.0)
    deviation = float(np.sqrt(np.mean(centred**2)))
    return centred / deviation if deviation > 1e-12 else None
