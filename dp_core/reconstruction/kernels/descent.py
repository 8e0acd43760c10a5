"""Records brought nearer to tables by changing one value of one record at a time, compiled.

GUM moves many records at once for one table, and what it mends there it breaks a little elsewhere:
it stops at an error of its own. Here every record is visited in turn, and each of its values
becomes the one with which the records are nearest to all tables together, the other values given
(iterated conditional modes: Besag, JRSS B 1986). Every change lowers one sum, so there is no such
error, and few records change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

from dp_core.domain import Domain
from dp_core.marginals import Table

_LEAST_GAIN = 1e-6  # rounding does not count as one


@dataclass(frozen=True, slots=True, eq=False)
class Gaps:
    """What one more record in a cell costs, of all tables, each held once for each of its columns.

    The sum that falls is that of `(held - wanted)^2 / (wanted + 1)` over all cells. In the copy of
    a table for one of its columns that column's codes lie side by side, so that all values that a
    record might take there are compared in one run.

    Attributes:
        axes: Columns of each table, shape (tables, widest); -1 where a table has fewer.
        base: Where the copy for each of its columns begins, shape (tables, widest).
        strides: In that copy, of each column, shape (tables, widest, widest).
        holders: Of each column, the tables that hold it and its place in each, one column after the
            other, shape (pairs, 2).
        first_holder: Where each column's begin, one more than there are columns.
        cost: Of one more record, shape (cells of all copies,). In double precision: in a cell of
            millions what one record changes is rounded away in single precision, or up.
        growth: What it grows by with each record, same shape.
    """

    axes: NDArray[np.int64]
    base: NDArray[np.int64]
    strides: NDArray[np.int64]
    holders: NDArray[np.int64]
    first_holder: NDArray[np.int64]
    cost: NDArray[np.float64]
    growth: NDArray[np.float64]

    @classmethod
    def of(cls, domain: Domain, tables: Sequence[Table], rows: int) -> Gaps:
        """Return the gaps of no records to tables, which are scaled to `rows` of them."""
        widest = max(len(table.clique) for table in tables)
        axes = np.full((len(tables), widest), -1, dtype=np.int64)
        base = np.zeros((len(tables), widest), dtype=np.int64)
        strides = np.zeros((len(tables), widest, widest), dtype=np.int64)
        holders: list[list[tuple[int, int]]] = [[] for _ in domain.columns]
        copies, filled = [], 0
        for number, table in enumerate(tables):
            width = len(table.clique)
            axes[number, :width] = domain.axes(table.clique)
            wanted = table.values * (rows / max(float(table.values.sum()), 1e-9))
            for place in range(width):
                order = [*(other for other in range(width) if other != place), place]
                run = 1
                for other in reversed(order):
                    strides[number, place, other] = run
                    run *= table.domain.sizes[other]
                holders[axes[number, place]].append((number, place))
                copies.append(wanted.transpose(order).ravel())
                base[number, place] = filled
                filled += wanted.size
        every = np.concatenate(copies)
        growth = 2 / (every + 1)
        return cls(
            axes=axes,
            base=base,
            strides=strides,
            holders=np.array([each for column in holders for each in column], np.int64),
            first_holder=np.cumsum([0, *[len(column) for column in holders]]),
            cost=growth * (0.5 - every),
            growth=growth,
        )


def descend(
    codes: NDArray[np.uint16],
    gaps: Gaps,
    sizes: Sequence[int],
    *,
    sweeps: int,
    most_visits: int,
    rng: np.random.Generator,
) -> int:
    """Change values in place until the sweeps are over or none is to be changed.

    Args:
        codes: Shape (columns, rows).
        gaps: Of no records; those of the records afterwards.
        sizes: Of the columns.
        sweeps: Largest number of walks over all records.
        most_visits: Of values; a walk over more of them takes a part of the records.
        rng: Decides the order of the records.

    Returns:
        How many values were changed.
    """
    # A record's values side by side: a visit reads all of them.
    records = np.ascontiguousarray(codes.T)
    _count(records, gaps.axes, gaps.base, gaps.strides, gaps.cost, gaps.growth)
    rows, columns = records.shape
    changed, visits = 0, 0
    for _ in range(sweeps):
        some = min(rows, (most_visits - visits) // columns)
        if some <= 0:
            break
        visits += some * columns
        order = rng.permutation(rows)[:some]
        now = _sweep(
            records,
            order,
            np.array(sizes, dtype=np.int64),
            gaps.axes,
            gaps.base,
            gaps.strides,
            gaps.holders,
            gaps.first_holder,
            gaps.cost,
            gaps.growth,
        )
        changed += now
        if now == 0:
            break
    codes[:] = records.T
    return changed


@numba.njit(inline="always")
def _cell(record, axes, base, strides, table, place):  # type: ignore[no-untyped-def]
    """Return where a record lies in the copy of a table for one of its columns."""
    cell = base[table, place]
    for other in range(axes.shape[1]):
        axis = axes[table, other]
        if axis < 0:
            break
        cell += np.int64(record[axis]) * strides[table, place, other]
    return cell


@numba.njit(nogil=True, cache=True)
def _count(records, axes, base, strides, cost, growth):  # type: ignore[no-untyped-def]
    """Add every record to the tables."""
    for table in range(axes.shape[0]):
        for place in range(axes.shape[1]):
            if axes[table, place] < 0:
                break
            for row in range(records.shape[0]):
                cell = _cell(records[row], axes, base, strides, table, place)
                cost[cell] += growth[cell]


@numba.njit(nogil=True, cache=True)
def _sweep(  # type: ignore[no-untyped-def]
    records, order, sizes, axes, base, strides, holders, first_holder, cost, growth
):
    """Visit records column by column; return how many values were changed."""
    changed = 0
    joined = np.empty(sizes.max(), dtype=np.float64)
    for column in range(sizes.size):
        low, high = first_holder[column], first_holder[column + 1]
        size = sizes[column]
        if low == high or size == 1:
            continue
        for row in order:
            record = records[row]
            old = np.int64(record[column])
            joined[:size] = 0
            freed = 0.0
            for held in range(low, high):
                table, place = holders[held, 0], holders[held, 1]
                cell = _cell(record, axes, base, strides, table, place)
                freed += growth[cell] - cost[cell]
                begin = cell - old
                for code in range(size):
                    joined[code] += cost[begin + code]
            new, least = old, -_LEAST_GAIN - freed
            for code in range(size):
                if joined[code] < least and code != old:
                    new, least = code, joined[code]
            if new == old:
                continue
            changed += 1
            for held in range(low, high):
                table, own = holders[held, 0], holders[held, 1]
                for place in range(axes.shape[1]):
                    if axes[table, place] < 0:
                        break
                    cell = _cell(record, axes, base, strides, table, place)
                    cost[cell] -= growth[cell]
                    cell += (new - old) * strides[table, place, own]
                    cost[cell] += growth[cell]
            record[column] = new
    return changed
