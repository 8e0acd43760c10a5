"""Nonnegative tables with the moments of noisy ones. Public side of the wall.

No set has a negative count. In a table with many nearly empty cells, setting negative counts to
zero increases the tails and decreases the rest, which biases estimates that depend on the tails,
such as slopes and group means. So noisy tables are replaced here by the nearest nonnegative tables
(in squares) that keep:

- for each numeric column, the total, mean, variance and number of missing values;
- for each numeric column and level of another column, the mean of the number in that level;
- for each pair of numeric columns, the sum of products.

These are the sufficient statistics of a linear, logistic or Poisson regression with one predictor,
and of a linear regression with any number. So the estimating equations have the same solution as
with the negative counts, which differs from the true one by noise only.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import Measurement, Released, Table, tables_of
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.methods.reconstruction.estimates.consistency import (
    Estimate,
    estimate_total,
    estimates,
    norm_sub,
    reconcile,
    shared,
)
from dp_core.methods.replicates.dual_newton import Floats, with_sums
from dp_core.schema.bin_values import BinValues
from dp_core.schema.definition import Column, Schema
from dp_core.schema.structure.households_with_members import codes_with_members
from dp_core.schema.structure.structural_zeros import StructuralZeros

MOST_ENTRIES = 1 << 23
"""Largest number of coefficients in a table's equations; larger ones are only made nonnegative."""
_CLEAR = 2.0  # smallest count of a level, in standard errors of its noise, for its mean to be kept
_SLACK = 1e-6  # slack of the equations, for those that contradict each other
_TOLERANCE = 1e-7


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """Numeric values of the codes of a column.

    Attributes:
        numbers: Value of each code, NaN for missing; None for levels, which have no values.
    """

    numbers: Floats | None

    @property
    def known(self) -> NDArray[np.bool_]:
        """Whether each code of a numeric column has a value (is not missing)."""
        assert self.numbers is not None
        return ~np.isnan(self.numbers)


def points_of(schema: Schema) -> Mapping[str, Points]:
    """Return the values of each column's codes; for a number, the mean of the bin's values."""
    return {column.name: _points(column) for column in schema.columns}


def scores_of(schema: Schema) -> Mapping[str, Floats]:
    """Return the value of each code of numeric and ordinal columns, NaN for missing.

    The values of an ordinal column are the ranks of its levels. The code of `members` for a
    household without members is NaN, too, because such a household is not just a small one.
    """
    found = {}
    for column in schema.columns:
        points = _points(column)
        if points.numbers is not None:
            found[column.name] = points.numbers
        elif column.type.ordered:
            ranks = np.arange(column.size, dtype=np.float64)
            ranks[column.bins :] = math.nan
            found[column.name] = ranks
    for name, kept in codes_with_members(schema.domain).items():
        if name in found:
            found[name][: kept.start] = math.nan
    return found


def has_numbers(released: Sequence[Released], points: Mapping[str, Points]) -> bool:
    """Return whether a noisy table contains a numeric column; only these have moments."""
    tables = tables_of(released)
    return any(points[name].numbers is not None for table in tables for name in table.clique)


def keep_moments(
    domain: Domain,
    released: Sequence[Released],
    points: Mapping[str, Points],
    *,
    zeros: StructuralZeros,
) -> tuple[Released, ...]:
    """Return nonnegative tables that agree with each other and keep the noisy tables' moments.

    If no table contains a numeric column, everything is returned unchanged.

    Args:
        domain: All columns.
        released: Noisy tables; results of other kinds are returned unchanged.
        points: Values of the codes of every column.
        zeros: Impossible cells; they are 0 in the results.

    Returns:
        The results in the order of `released`. Tables of the same columns are equal.
    """
    if not has_numbers(released, points):
        return tuple(released)
    tables = estimates(domain, tables_of(released), zeros=zeros)
    held = [table for table in tables if table.clique]
    total = max(estimate_total(tables), 0.0)
    reconcile(held, shared([table.clique for table in held], domain), total=total)
    columns = {name: _column(name, held, points[name], total) for name in _names(held)}
    settled = {table.clique: _settle(table, columns, points) for table in held}
    return tuple(_replaced(domain, item, settled) for item in released)


def nearest(
    values: Floats,
    equations: Floats,
    sums: Floats,
) -> Floats:
    """Return the nonnegative numbers nearest to `values` in squares that have the given sums.

    They are `max(0, values + equations' u)` for some u, which Newton's method finds on the dual. If
    no nonnegative numbers satisfy all equations, the equations hold in the least-squares sense.

    Args:
        values: Noisy counts, shape (cells,).
        equations: Coefficients of the sums, shape (equations, cells).
        sums: Required sums, shape (equations,).
    """
    scale = max(1.0, float(np.abs(sums).max(initial=0.0)))

    def primal(shift: Floats) -> tuple[Floats, float, Floats]:
        found = np.maximum(values + shift, 0.0)
        return found, 0.5 * float(found @ found), (found > 0).astype(float)

    slack = _SLACK * (equations**2).sum(axis=1)
    return with_sums(equations, sums, slack, primal, tolerance=_TOLERANCE * scale)


def _names(tables: Sequence[Estimate]) -> list[str]:
    return list(dict.fromkeys(name for table in tables for name in table.clique))


def _column(name: str, tables: Sequence[Estimate], points: Points, total: float) -> Floats:
    """Return a column's nonnegative table with its total and, for a number, mean and variance."""
    holder = next(table for table in tables if name in table.clique)
    noisy, cells = holder.project((name,))
    possible = cells > 0
    if points.numbers is None:
        return norm_sub(noisy, total=total, possible=possible)
    known = points.known & possible
    rows, sums = [possible.astype(float)], [total]
    if not known.all() and (~known & possible).any():
        missing = min(max(float(noisy[~known].sum()), 0.0), total)
        rows.append((~known & possible).astype(float))
        sums.append(missing)
    count = float(noisy[known].sum())
    if count > 0:
        centred = _centred(points, float(noisy[known] @ points.numbers[known]) / count) * known
        second = float(noisy @ centred**2)
        # Relative to the known records; the noisy number of missing values may be negative.
        part = (sums[0] - (sums[1] if len(sums) > 1 else 0.0)) / count
        rows.append(centred)
        sums.append(0.0)
        if second > 0:
            rows.append(centred**2)
            sums.append(second * part)
    found = nearest(noisy * possible, np.array(rows), np.array(sums))
    return norm_sub(found * possible, total=total, possible=possible)


def _settle(table: Estimate, columns: Mapping[str, Floats], points: Mapping[str, Points]) -> Floats:
    """Return a nonnegative table with the given one-way tables and the moments of each pair."""
    if len(table.clique) == 1:
        return columns[table.clique[0]]
    total = float(columns[table.clique[0]].sum())
    if not has_few_cells(table.domain):
        return norm_sub(table.values, total=total, possible=table.possible)
    noisy = Table(table.domain, table.values)
    rows: list[Floats] = []
    sums: list[float] = []
    for axis, name in enumerate(table.clique):
        for code, count in enumerate(columns[name]):
            rows.append(_row(noisy, {axis: np.eye(table.domain.sizes[axis])[code]}))
            sums.append(float(count))
    for row, wanted in moments_of(noisy, columns, points, variance=table.variance):
        rows.append(row)
        sums.append(wanted)
    kept = np.flatnonzero(table.possible.ravel())
    found = np.zeros(table.values.size)
    found[kept] = nearest(table.values.ravel()[kept], np.array(rows)[:, kept], np.array(sums))
    return found.reshape(table.domain.sizes)


def has_few_cells(domain: Domain) -> bool:
    """Return whether a table's equations, about one per level, fit within the size limit."""
    return domain.size() * sum(domain.sizes) * 2 <= MOST_ENTRIES


def moments_of_column(points: Points, counts: Floats) -> Floats:
    """Return the kept moments of a numeric column as equations over its codes.

    Args:
        points: Values of the codes of the column.
        counts: Counts of the codes, shape (codes,).

    Returns:
        Coefficients, shape (equations, codes): of the number of records, the number of missing
        values (if there can be any), the deviations from the mean, and their squares.
    """
    centred = _about_mean(points, counts)
    assert centred is not None
    missing = [(~points.known).astype(float)] if not points.known.all() else []
    return np.array([np.ones(counts.size), *missing, centred, centred**2])


def moments_of(
    table: Table,
    columns: Mapping[str, Floats],
    points: Mapping[str, Points],
    *,
    variance: float,
) -> list[tuple[Floats, float]]:
    """Return the kept moments of every pair of a table's columns as equations over its cells.

    Args:
        table: Counts of records.
        columns: One-way tables of its columns, with which it must agree.
        points: Values of the codes of every column.
        variance: Noise variance of each cell, in records squared. The mean in a level is left out
            if the level's count does not exceed its noise.

    Returns:
        For each equation its coefficients, shape (cells,), and the required sum.
    """
    pairs = itertools.combinations(range(len(table.clique)), 2)
    return [
        each for pair in pairs for each in _pair_moments(table, pair, columns, points, variance)
    ]


def _pair_moments(
    table: Table,
    pair: tuple[int, int],
    columns: Mapping[str, Floats],
    points: Mapping[str, Points],
    variance: float,
) -> list[tuple[Floats, float]]:
    one, other = pair
    found: list[tuple[Floats, float]] = []
    centred = {
        axis: _about_mean(points[table.clique[axis]], columns[table.clique[axis]])
        for axis in (one, other)
    }
    for number, level in ((one, other), (other, one)):
        values = centred[number]
        if values is None:
            continue
        known = points[table.clique[number]].known.astype(float)
        rest = tuple(axis for axis in range(table.values.ndim) if axis != level)
        own, noisy = columns[table.clique[level]], table.values.sum(axis=rest)
        # Standard error of the number of known values in a level.
        error = math.sqrt(variance * table.values.size / table.domain.sizes[level])
        for mask in _levels(points[table.clique[level]], table.domain.sizes[level]):
            count = float(_row(table, {number: known, level: mask}) @ table.values.ravel())
            row = _row(table, {number: values, level: mask})
            sum_ = float(row @ table.values.ravel())
            if count <= max(_CLEAR * error, 1.0) or not values.min() < sum_ / count < values.max():
                continue
            found.append((row, sum_ * float(own @ mask) / max(float(noisy @ mask), 1.0)))
    first, second = centred[one], centred[other]
    if first is not None and second is not None:
        row = _row(table, {one: first, other: second})
        found.append((row, float(row @ table.values.ravel())))
    return found


def _levels(points: Points, size: int) -> list[Floats]:
    """Return an indicator of each level; for a numeric column, of missing values."""
    if points.numbers is None:
        return list(np.eye(size))
    missing = ~points.known
    return [missing.astype(float)] if missing.any() else []


def _about_mean(points: Points, counts: Floats) -> Floats | None:
    """Return a column's deviations from its mean, scaled to at most 1 in size; 0 if missing."""
    if points.numbers is None:
        return None
    known = points.known
    total = float(counts[known].sum())
    mean = float(counts[known] @ points.numbers[known]) / total if total > 0 else 0.0
    return _centred(points, mean)


def _centred(points: Points, mean: float) -> Floats:
    assert points.numbers is not None
    found = np.where(points.known, np.nan_to_num(points.numbers) - mean, 0.0)
    return np.asarray(found / (np.abs(found).max() or 1.0))


def _row(table: Table, factors: Mapping[int, Floats]) -> Floats:
    """Return the product of factors along some axes, for every cell of a table."""
    product = np.ones(table.domain.sizes)
    for axis, factor in factors.items():
        shape = [1] * product.ndim
        shape[axis] = factor.size
        product = product * factor.reshape(shape)
    return product.ravel()


def _replaced(domain: Domain, item: Released, settled: Mapping[Clique, Floats]) -> Released:
    """Return a measurement with the adjusted values of its clique, axes in its own order."""
    if not isinstance(item, Measurement) or not item.clique:
        return item
    clique = tuple(name for name in domain.columns if name in item.clique)
    order = [clique.index(name) for name in item.clique]
    values = np.rint(settled[clique].transpose(order)).astype(np.int64)
    return dataclasses.replace(item, values=values)


def _points(column: Column) -> Points:
    if column.levels:
        return Points(None)
    values = BinValues.of(column)
    means = values.mean() / values.steps
    return Points(np.array([*means, *[math.nan] * (column.size - column.bins)]))
