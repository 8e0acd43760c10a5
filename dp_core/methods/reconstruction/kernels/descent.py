"""Adjusts records to tables by changing one value of one record at a time, compiled.

GUM changes many records at once for one table, which increases the error of other tables, so that
some error always remains. Here every record is visited in turn, and each of its values is set to
the one that minimises the summed error of all tables, given the other values (iterated conditional
modes: Besag, JRSS B 1986). Every change reduces the summed error, and few records change.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

from dp_core.metrics.marginal_error import Tally
from dp_core.tables.dataset import Dataset
from dp_core.wall.released import Table

_LEAST_GAIN = 1e-6  # smaller gains can be rounding errors


@dataclass(frozen=True, slots=True, eq=False)
class Gaps:
    """The cost of one more record in each cell of all tables, with a copy per column of a table.

    The objective is the sum of `(held - wanted)^2 / (wanted + 1)` over all cells. In the copy of a
    table for one of its columns, that column's codes are adjacent, so that the costs of all values
    that a record can take are adjacent in memory.

    Attributes:
        column: Column of each copy, shape (copies,), sorted by column.
        first_copy: Start of each column's copies, shape (columns + 1,).
        others: The table's other columns, shape (copies, widest - 1); filled with 0.
        strides: Strides of these columns in the copy, same shape; filled with 0.
        base: Start of each copy in `cost`, shape (copies,).
        siblings: All copies of the same table, shape (copies, widest); filled with -1.
        cost: Cost of one more record in each cell, shape (cells of all copies,). In double
            precision, because in a cell with millions of records a single one would be lost to
            rounding in single precision.
        growth: Increase of the cost with each record, same shape.
    """

    column: NDArray[np.int64]
    first_copy: NDArray[np.int64]
    others: NDArray[np.uint64]
    strides: NDArray[np.uint64]
    base: NDArray[np.uint64]
    siblings: NDArray[np.int64]
    cost: NDArray[np.float64]
    growth: NDArray[np.float64]

    @classmethod
    def of(cls, data: Dataset, tables: Sequence[Table]) -> Gaps:
        """Return the costs for records and tables, which are scaled to the number of records."""
        domain, held = data.domain, Tally(data.domain, [table.clique for table in tables]).add(data)
        widest = max(len(table.clique) for table in tables)
        copies = sorted(
            (axis, number, place)
            for number, table in enumerate(tables)
            for place, axis in enumerate(domain.axes(table.clique))
        )
        column = np.array([axis for axis, _, _ in copies], dtype=np.int64)
        others = np.zeros((len(copies), widest - 1), dtype=np.uint64)
        strides = np.zeros((len(copies), widest - 1), dtype=np.uint64)
        base = np.zeros(len(copies), dtype=np.uint64)
        of_table: list[list[int]] = [[] for _ in tables]
        wanted, found, filled = [], [], 0
        for copy, (_, number, place) in enumerate(copies):
            table = tables[number]
            axes, sizes = domain.axes(table.clique), table.domain.sizes
            values = table.values * (data.rows / max(float(table.values.sum()), 1e-9))
            wanted.append(np.moveaxis(values, place, -1).ravel())
            found.append(np.moveaxis(held.count(table.clique), place, -1).ravel())
            base[copy] = filled
            filled += values.size
            run = sizes[place]
            kept = [other for other in range(len(axes)) if other != place]
            for at, other in enumerate(kept):
                others[copy, at] = axes[other]
                strides[copy, at] = run * math.prod(sizes[later] for later in kept[at + 1 :])
            of_table[number].append(copy)
        siblings = np.full((len(copies), widest), -1, dtype=np.int64)
        for same in of_table:
            siblings[same, : len(same)] = same
        every = np.concatenate(wanted)
        growth = 2 / (every + 1)
        return cls(
            column=column,
            first_copy=np.searchsorted(column, np.arange(len(domain) + 1)),
            others=others,
            strides=strides,
            base=base,
            siblings=siblings,
            cost=growth * (0.5 - every + np.concatenate(found)),
            growth=growth,
        )


@dataclass(frozen=True, slots=True)
class Effort:
    """When to stop changing values, and which values to consider.

    Attributes:
        portion: Part of the records that are visited between two checks whether to stop.
        enough: After the first sweep, the work ends after a portion in which at most this part of
            the values was changed. The first sweep always visits every record, because any record
            can have an error that only it can correct.
        superfluous: Whether only values in cells with too many records are considered. Missing
            records of other cells come from there, and this saves a third of the time.
    """

    portion: float = 1.0
    enough: float = 0.0
    superfluous: bool = False


OF_A_PIECE = Effort(portion=0.25, enough=0.05, superfluous=True)
"""Effort for a piece of a set, whose remaining error the next piece corrects. If records are far
from their tables, the first quarter of them changes a third of its values, the fourth 1 to 3 %."""


def descend(
    data: Dataset,
    gaps: Gaps,
    *,
    sweeps: int,
    most_visits: int,
    effort: Effort = Effort(),
    rng: np.random.Generator,
) -> int:
    """Change values in place until the sweeps are done or no change reduces the error.

    Args:
        data: Records; changed.
        gaps: Costs for these records; updated with the changes.
        sweeps: Largest number of passes over all records.
        most_visits: Largest number of visited values; if the sweeps exceed it, only a part of the
            records is visited.
        effort: When to stop earlier.
        rng: Generator of the order of the records.

    Returns:
        Number of changed values.
    """
    # A record's values are adjacent in memory, because a visit reads all of them.
    records = np.ascontiguousarray(data.codes.T)
    rows, columns = records.shape
    changed, visits = 0, 0
    for order in _portions(rows, sweeps, effort, rng):
        some = order[: (most_visits - visits) // columns]
        if some.size == 0:
            break
        visits += some.size * columns
        now = _sweep(
            records,
            some,
            np.array(data.domain.sizes, dtype=np.int64),
            gaps.column,
            gaps.first_copy,
            gaps.others,
            gaps.strides,
            gaps.base,
            gaps.siblings,
            gaps.cost,
            gaps.growth,
            0.0 if effort.superfluous else np.inf,
        )
        changed += now
        if visits >= rows * columns and now <= effort.enough * some.size * columns:
            break
    data.codes[:] = records.T
    return changed


def _portions(
    rows: int, sweeps: int, effort: Effort, rng: np.random.Generator
) -> Iterator[NDArray[np.int64]]:
    """Yield the records to visit in portions; a sweep visits each record once, in a new order."""
    size = max(1, math.ceil(effort.portion * rows))
    for _ in range(sweeps):
        order = rng.permutation(rows)
        for start in range(0, rows, size):
            yield order[start : start + size]


@numba.njit(inline="always")
def _begin(record, others, strides, base, copy):  # type: ignore[no-untyped-def]
    """Return the index in `cost` of a record's first possible value, in a copy for one column."""
    begin = base[copy]
    for place in range(others.shape[1]):
        begin += np.uint64(record[others[copy, place]]) * strides[copy, place]
    return begin


@numba.njit(nogil=True, cache=True)
def _sweep(  # type: ignore[no-untyped-def]
    records, order, sizes, column, first_copy, others, strides, base, siblings, cost, growth, bound
):
    """Visit records column by column; return the number of changed values."""
    changed = 0
    largest = 1
    for size in sizes:  # `max` of an array takes long to compile
        largest = max(largest, size)
    joined = np.empty(largest, dtype=np.float64)
    begins = np.empty(base.size, dtype=np.uint64)
    for at in range(sizes.size):
        low, high = first_copy[at], first_copy[at + 1]
        size = sizes[at]
        if low == high or size == 1:
            continue
        for row in order:
            record = records[row]
            old = np.uint64(record[at])
            freed = 0.0
            for copy in range(low, high):
                begin = _begin(record, others, strides, base, copy)
                begins[copy - low] = begin
                freed += growth[begin + old] - cost[begin + old]
            if freed >= bound:
                continue
            joined[:size] = 0
            for copy in range(low, high):
                begin = begins[copy - low]
                for code in range(size):
                    joined[code] += cost[begin + np.uint64(code)]
            new, least = old, -_LEAST_GAIN - freed
            for code in range(size):
                if joined[code] < least and np.uint64(code) != old:
                    new, least = np.uint64(code), joined[code]
            if new == old:
                continue
            changed += 1
            for copy in range(low, high):
                for same in siblings[copy]:
                    if same < 0:
                        break
                    for value in (old, new):
                        record[at] = value
                        begin = _begin(record, others, strides, base, same)
                        cell = begin + np.uint64(record[column[same]])
                        cost[cell] += growth[cell] if value == new else -growth[cell]
            record[at] = new
    return changed
