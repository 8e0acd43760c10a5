"""Moves records closer to tables by changing one value of one record at a time, compiled.

GUM moves many records at once for one table, and what it mends there it breaks a little elsewhere:
it stops at an error of its own. Here every record is visited in turn, and each of its values
becomes the one with which the records are nearest to all tables together, the other values given
(iterated conditional modes: Besag, JRSS B 1986). Every change lowers one sum, so there is no such
error, and few records change.
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

_LEAST_GAIN = 1e-6  # rounding does not count as one


@dataclass(frozen=True, slots=True, eq=False)
class Gaps:
    """What one more record in a cell costs, of all tables, each held once for each of its columns.

    The sum that falls is that of `(held - wanted)^2 / (wanted + 1)` over all cells. In the copy of
    a table for one of its columns that column's codes lie side by side, so that all values that a
    record might take there are compared in one run.

    Attributes:
        column: Column of each copy, shape (copies,), sorted by column.
        first_copy: Start of each column's copies, shape (columns + 1,).
        others: The table's other columns, shape (copies, widest - 1); 0 where it has fewer.
        strides: Of these, same shape; 0 where there is none.
        base: Start of each copy in `cost`, shape (copies,).
        siblings: All copies of the same table, shape (copies, widest); -1 where it has fewer.
        cost: Of one more record, shape (cells of all copies,). In double precision: in a cell of
            millions what one record changes is rounded away in single precision, or up.
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
        """Return the gaps of records to tables, which are scaled to their number."""
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
    """When to stop changing values.

    Attributes:
        portion: Part of the records that are visited before it is looked whether to go on.
        enough: A portion of whose values no larger part was changed is the last, but for those of
            the first sweep: in each record there may be what nothing else can mend.
        superfluous: Whether only values are changed that are too many where they are. What is
            wanted elsewhere comes from there; to look no further saves a third of the time.
    """

    portion: float = 1.0
    enough: float = 0.0
    superfluous: bool = False


OF_A_PIECE = Effort(portion=0.25, enough=0.05, superfluous=True)
"""Where what is left is made good by the next piece of a set. The first quarter of records that are
far from their tables changes a third of its values, the fourth one or three hundredths."""


def descend(
    data: Dataset,
    gaps: Gaps,
    *,
    sweeps: int,
    most_visits: int,
    effort: Effort = Effort(),
    rng: np.random.Generator,
) -> int:
    """Change values in place until the sweeps are over or none is to be changed.

    Args:
        data: Records.
        gaps: Of the records; so they are afterwards.
        sweeps: Largest number of walks over all records.
        most_visits: Of values; a walk over more of them takes a part of the records.
        effort: When to stop before.
        rng: Decides the order of the records.

    Returns:
        How many values were changed.
    """
    # A record's values side by side: a visit reads all of them.
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
    """Yield the records to visit, each once in a sweep, in an order of its own."""
    size = max(1, math.ceil(effort.portion * rows))
    for _ in range(sweeps):
        order = rng.permutation(rows)
        for start in range(0, rows, size):
            yield order[start : start + size]


@numba.njit(inline="always")
def _begin(record, others, strides, base, copy):  # type: ignore[no-untyped-def]
    """Return where, in a copy for one column, the values lie that a record may take there."""
    begin = base[copy]
    for place in range(others.shape[1]):
        begin += np.uint64(record[others[copy, place]]) * strides[copy, place]
    return begin


@numba.njit(nogil=True, cache=True)
def _sweep(  # type: ignore[no-untyped-def]
    records, order, sizes, column, first_copy, others, strides, base, siblings, cost, growth, bound
):
    """Visit records column by column; return how many values were changed."""
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
