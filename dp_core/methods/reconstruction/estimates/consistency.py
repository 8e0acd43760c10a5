"""Consistent and nonnegative tables from noisy ones. Public side of the wall.

Noise is independent from cell to cell, so a table splits into orthogonal parts (total, main
effects, interactions) whose errors are independent. Averaging each part over the tables that
contain it, from the empty set of columns to larger ones, with weights inverse to its variance,
therefore gives the generalised least-squares estimate without bounds at zero. Then negative cells
are set to zero, and both steps repeat (Qardaji et al. 2014; Zhang et al., PrivSyn, 2021, Section
4.4).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import Measurement, Table
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.methods.reconstruction.estimates.raking import others
from dp_core.schema.structure.structural_zeros import StructuralZeros


@dataclass(slots=True, eq=False)
class Estimate:
    """A table that is being made consistent.

    Attributes:
        domain: The clique's domain, columns in the order of the whole domain.
        values: Shape `domain.sizes`, records; may be negative.
        variance: Variance of each possible cell, records squared.
        possible: Whether each cell can occur, shape `domain.sizes`; the others are exactly 0.
    """

    domain: Domain
    values: NDArray[np.float64]
    variance: float
    possible: NDArray[np.bool_]

    @property
    def clique(self) -> Clique:
        """Columns, in the order of the axes."""
        return self.domain.columns

    def project(self, clique: Clique) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return the sums over the other columns, and the number of possible cells in each sum."""
        summed = others(self.clique, clique)
        return (
            np.asarray(self.values.sum(axis=summed)),
            np.asarray(self.possible.sum(axis=summed, dtype=np.int64)),
        )

    def spread(self, clique: Clique, difference: NDArray[np.float64]) -> None:
        """Add a difference to each sum over `clique`, divided equally among its cells, in place."""
        _, cells = self.project(clique)
        each = difference / np.maximum(cells, 1)
        shape = tuple(
            size if name in clique else 1
            for name, size in zip(self.clique, self.domain.sizes, strict=True)
        )
        self.values += each.reshape(shape) * self.possible


def estimates(
    domain: Domain, measurements: Sequence[Measurement], *, zeros: StructuralZeros
) -> list[Estimate]:
    """Return one estimate for each clique, the average of its measurements.

    Args:
        domain: All columns.
        measurements: Noisy tables; the empty clique is a noisy number of rows.
        zeros: Impossible cells; measured values there are pure noise and are ignored.

    Returns:
        Averages weighted by inverse variance, in the order in which the cliques first appear.
    """
    merged: dict[Clique, Estimate] = {}
    for measurement in measurements:
        clique = tuple(name for name in domain.columns if name in measurement.clique)
        values = measurement.values.astype(np.float64)
        values = values.transpose(measurement.domain.axes(clique))
        other = merged.get(clique)
        if other is None:
            project = domain.project(clique)
            possible = ~zeros.mask(project)
            merged[clique] = Estimate(project, values * possible, measurement.variance, possible)
        else:
            weight = other.variance / (other.variance + measurement.variance)
            other.values += weight * (values * other.possible - other.values)
            other.variance *= 1 - weight
    return list(merged.values())


def estimate_total(tables: Sequence[Estimate]) -> float:
    """Return the number of records estimated from all tables, weighted by precision.

    Raises:
        ValueError: if there is no table.
    """
    if not tables:
        raise ValueError("No measurement gives the number of records.")
    weights = [1 / (table.variance * max(int(table.possible.sum()), 1)) for table in tables]
    sums = [float(table.values.sum()) for table in tables]
    return sum(w * s for w, s in zip(weights, sums, strict=True)) / sum(weights)


def whole_rows(tables: Sequence[Estimate], rows: int | None) -> int:
    """Return the number of records, at least 1: `rows` if it is public, otherwise an estimate."""
    return max(1, round(estimate_total(tables)) if rows is None else rows)


def shared(cliques: Sequence[Clique], domain: Domain) -> list[Clique]:
    """Return the sets of columns on which tables must agree, smaller ones first.

    These are the nonempty intersections of two or more cliques, including cliques that are subsets
    of others.
    """
    found: set[frozenset[str]] = set()
    fresh = {frozenset(a) & frozenset(b) for a, b in itertools.combinations(cliques, 2)}
    while fresh:
        found |= fresh
        fresh = {a & b for a, b in itertools.product(fresh, found)} - found
    order = {name: position for position, name in enumerate(domain.columns)}
    subsets = [tuple(sorted(subset, key=order.__getitem__)) for subset in found if subset]
    return sorted(subsets, key=lambda subset: (len(subset), [order[name] for name in subset]))


def agree(tables: Sequence[Estimate], clique: Clique) -> None:
    """Give every table that contains `clique` the same sums over it, in place.

    The common value is the average weighted by `1 / (variance * cells summed)`; each table's
    difference to it is shared evenly by the cells that are summed.
    """
    holders = [table for table in tables if set(clique) <= set(table.clique)]
    if len(holders) < 2:
        return
    sums, weights = [], []
    certain = np.zeros(holders[0].domain.project(clique).sizes, dtype=bool)
    for table in holders:
        values, cells = table.project(clique)
        certain |= cells == 0  # no possible cell: the sum is 0 without any noise
        sums.append(values)
        weights.append(1.0 / (table.variance * np.maximum(cells, 1)))
    common = np.sum([w * s for w, s in zip(weights, sums, strict=True)], axis=0)
    common = np.where(certain, 0.0, common / np.sum(weights, axis=0))
    for table, values in zip(holders, sums, strict=True):
        table.spread(clique, common - values)


def norm_sub(
    values: NDArray[np.float64],
    *,
    total: float | None = None,
    possible: NDArray[np.bool_] | None = None,
) -> NDArray[np.float64]:
    """Return the nonnegative table nearest in squares that sums to `total`.

    This is the projection onto a simplex, computed in closed form. It equals the limit of setting
    negative cells to 0 and subtracting the added mass equally from the positive cells.

    Args:
        values: Noisy counts, in records, any shape.
        total: Sum of the result, in records; by default the sum of `values`. A negative total is
            treated as 0.
        possible: Cells that may have records, same shape; all by default.

    >>> norm_sub(np.array([5.0, -1.0, -2.0, 0.5]))
    array([2.5, 0. , 0. , 0. ])
    """
    kept = values.ravel() if possible is None else values[possible]
    total = float(kept.sum()) if total is None else total
    result = np.zeros_like(values, dtype=np.float64)
    if total <= 0 or kept.size == 0:
        return result
    ordered = np.sort(kept)[::-1]
    excess = (np.cumsum(ordered) - total) / np.arange(1, kept.size + 1)
    cut = excess[max(int(np.count_nonzero(ordered > excess)), 1) - 1]
    result[... if possible is None else possible] = np.maximum(kept - cut, 0.0).reshape(
        values.shape if possible is None else -1
    )
    return result


def reconcile(
    tables: Sequence[Estimate], subsets: Sequence[Clique], *, total: float | None
) -> None:
    """Make all tables agree on every subset, in place, by least squares without bounds at zero.

    Args:
        tables: Estimates of different cliques.
        subsets: Result of `shared`, smaller ones first, so that later steps preserve earlier ones.
        total: Number of records that every table sums to; None for their precision-weighted
            average.
    """
    total = estimate_total(tables) if total is None else total
    for table in tables:
        if table.possible.any():
            table.spread((), np.asarray(total - table.values.sum()))
    for subset in subsets:
        agree(tables, subset)


def overlapping(
    domain: Domain,
    measurements: Sequence[Measurement],
    *,
    rows: int | None,
    zeros: StructuralZeros,
) -> tuple[list[Estimate], list[Clique], int]:
    """Return the estimates of all nonempty cliques, their shared subsets, and the total."""
    tables = estimates(domain, measurements, zeros=zeros)
    total = whole_rows(tables, rows)
    tables = [table for table in tables if table.clique]
    return tables, shared([table.clique for table in tables], domain), total


def consistent(
    domain: Domain,
    measurements: Sequence[Measurement],
    *,
    rows: int | None,
    zeros: StructuralZeros,
    rounds: int = 3,
) -> tuple[tuple[Table, ...], int]:
    """Return nonnegative tables that (nearly) agree with each other, and the number of records.

    Args:
        domain: All columns.
        measurements: Noisy tables, at least one.
        rows: Number of records if it is public, otherwise None.
        zeros: Impossible cells; they are exactly 0 in the results.
        rounds: How often the steps for agreement and for nonnegativity alternate, 3 by default;
            the last step makes tables nonnegative.

    Returns:
        One table per measured nonempty clique, and the number of records, which every table sums
        to.
    """
    tables, subsets, total = overlapping(domain, measurements, rows=rows, zeros=zeros)
    for _ in range(max(rounds, 1)):
        reconcile(tables, subsets, total=float(total))
        for table in tables:
            table.values = norm_sub(table.values, total=float(total), possible=table.possible)
    return tuple(Table(table.domain, table.values) for table in tables), total


def column_tables(
    domain: Domain,
    measurements: Sequence[Measurement],
    *,
    rows: int | None,
    zeros: StructuralZeros,
) -> tuple[tuple[Table, ...], int]:
    """Return one table for each column, estimated from all tables that cover it.

    Every measurement that contains a column is summed over its other columns, and the sums are
    averaged by precision. An unmeasured column is uniform over its possible levels.

    Args:
        domain: All columns.
        measurements: Noisy tables, at least one.
        rows: Number of records if it is public, otherwise None.
        zeros: Impossible cells.

    Returns:
        One-way tables in the order of the domain, nonnegative, and the number of records, which
        each of them sums to.
    """
    tables = estimates(domain, measurements, zeros=zeros)
    total = whole_rows(tables, rows)
    found = []
    for column, size in zip(domain.columns, domain.sizes, strict=True):
        one = domain.project((column,))
        possible = ~zeros.mask(one)
        precision, weighted = np.zeros(size), np.zeros(size)
        for table in tables:
            if column in table.clique:
                # Scale each sum to the common total first, because most of its error is that of its
                # total.
                slack = total - float(table.values.sum())
                values, cells = table.project((column,))
                cells_in_all = max(int(cells.sum()), 1)
                weight = 1.0 / (table.variance * np.maximum(cells, 1))
                weighted += weight * (values + slack * cells / cells_in_all)
                precision += weight
                possible &= cells > 0
        values = np.divide(weighted, precision, out=np.zeros(size), where=precision > 0)
        values = norm_sub(values, total=float(total), possible=possible)
        found.append(Table(one, values))
    return tuple(found), total
