"""Adjusts records to tables by changing one value of one record at a time, compiled.

GUM changes many records at once for one table, which increases the error of other tables, so that
some error always remains. Here each value of each record is set to the one that minimises the
summed error of all tables, given the other values (iterated conditional modes: Besag, JRSS B 1986).
Every change reduces the summed error, and few records change.

The records of a column are visited in lots, in two steps. First the best value of every record of a
lot is found with the counts as they are, on several threads. Then the changes are made one after
the other, and each is made only if it still reduces the error after the changes before it. So the
result does not depend on the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from dp_core.client.released import Table
from dp_core.kernel.codes import Codes
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.processors import threads
from dp_core.methods.reconstruction.sampling.drawing_progress import Progress, silent, step_of
from dp_core.metrics.marginal_error import Tally

ENOUGH = 0.001
"""The work ends after a sweep that reduces the error by no more than this part of the error that a
random sample would have."""
_LEAST_GAIN = 1e-6  # smaller gains can be rounding errors
_LOTS = 64  # in a sweep; changes in one lot are seen by the next
_LEAST_LOT = 64  # records
_SIDE_BY_SIDE = 8  # values whose costs are added at a time
_ROWS = 64  # of a lot whose costs are added up together; they stay in the first-level cache
_MOST_COMPARED = 512  # values; of a column with more, only those with missing records are compared
_CANDIDATES = 256  # values with missing records that are listed, in each run of up to 8 tables
_FEW_LOOKUPS = 1 << 18  # up to which one thread finds all values of a lot; more would take longer


@dataclass(frozen=True, slots=True, eq=False)
class Gaps:
    """The cost of one more record in each cell of all tables, with a copy per column of a table.

    The error is the sum of `(held - wanted)^2 / (wanted + 1)` over all cells. In the copy of a
    table for one of its columns, that column's codes are adjacent, so that the costs of all values
    that a record can take are adjacent in memory. They form a run, whose width is a multiple of
    eight, filled with 0.

    Attributes:
        column: Column of each copy, shape (copies,), sorted by column.
        first_copy: Start of each column's copies, shape (columns + 1,).
        width: Width of the runs of each column, shape (columns,).
        others: The table's other columns, shape (copies, widest - 1); filled with 0.
        strides: Strides of these columns in the copy, same shape; filled with 0.
        base: Start of each copy in `cost`, and the end of the last, shape (copies + 1,).
        siblings: The other copies of the same table, shape (copies, widest - 1); filled with -1.
        cost: Cost of one more record in each cell, shape (cells of all copies,), after a run of
            zeros. In double precision, because in a cell with millions of records a single one
            would be lost to rounding in single precision.
        growth: Increase of the cost with each record, same shape.
        error: The error of the records as they were when this was made.
        expected: Expected error of a random sample from the tables.
    """

    column: NDArray[np.int64]
    first_copy: NDArray[np.int64]
    width: NDArray[np.int64]
    others: NDArray[np.uint64]
    strides: NDArray[np.uint64]
    base: NDArray[np.uint64]
    siblings: NDArray[np.int64]
    cost: NDArray[np.float64]
    growth: NDArray[np.float64]
    error: float
    expected: float

    @classmethod
    def of(cls, data: Dataset, tables: Sequence[Table]) -> Gaps:
        """Return the costs for records and tables, which are scaled to the number of records."""
        domain, held = data.domain, Tally(data.domain, [table.clique for table in tables]).add(data)
        widest = max(2, *(len(table.clique) for table in tables))
        copies = sorted(
            (axis, number, place)
            for number, table in enumerate(tables)
            for place, axis in enumerate(domain.axes(table.clique))
        )
        column = np.array([axis for axis, _, _ in copies], dtype=np.int64)
        width = -(-np.array(domain.sizes, dtype=np.int64) // _SIDE_BY_SIDE) * _SIDE_BY_SIDE
        others = np.zeros((len(copies), widest - 1), dtype=np.uint64)
        strides = np.zeros((len(copies), widest - 1), dtype=np.uint64)
        base = np.full(len(copies) + 1, _MOST_COMPARED, dtype=np.uint64)
        of_table: list[list[int]] = [[] for _ in tables]
        for copy, (axis, number, place) in enumerate(copies):
            table = tables[number]
            axes, sizes = domain.axes(table.clique), table.domain.sizes
            kept = [other for other in range(len(axes)) if other != place]
            for at, other in enumerate(kept):
                others[copy, at] = axes[other]
                strides[copy, at] = width[axis] * math.prod(
                    sizes[later] for later in kept[at + 1 :]
                )
            base[copy + 1 :] += np.uint64(table.values.size // sizes[place] * width[axis])
            of_table[number].append(copy)
        siblings = np.full((len(copies), widest - 1), -1, dtype=np.int64)
        cost, growth = np.zeros((2, int(base[-1])))
        error = expected = 0.0
        for number, table in enumerate(tables):
            wanted = table.values * (data.rows / max(float(table.values.sum()), 1e-9))
            surplus = held.count(table.clique) - wanted
            error += float((surplus**2 / (wanted + 1)).sum())
            expected += float((wanted / (wanted + 1)).sum())
            slope = 2 / (wanted + 1)
            own = slope * (0.5 + surplus)
            for copy in of_table[number]:
                siblings[copy, : len(table.clique) - 1] = [c for c in of_table[number] if c != copy]
                place = copies[copy][2]
                for into, values in ((cost, own), (growth, slope)):
                    runs = into[base[copy] : base[copy + 1]].reshape(-1, width[column[copy]])
                    size = table.domain.sizes[place]
                    runs[:, :size] = np.moveaxis(values, place, -1).reshape(-1, size)
        return cls(
            column=column,
            first_copy=np.searchsorted(column, np.arange(len(domain) + 1)),
            width=width,
            others=others,
            strides=strides,
            base=base,
            siblings=siblings,
            cost=cost,
            growth=growth,
            error=error,
            expected=expected,
        )


def descend(
    data: Dataset,
    gaps: Gaps,
    *,
    sweeps: int,
    rng: np.random.Generator,
    progress: Progress = silent,
) -> int:
    """Change values in place until the sweeps are done or a sweep gains little.

    Args:
        data: Records; changed.
        gaps: Costs for these records; updated with the changes.
        sweeps: Largest number of passes over all records.
        rng: Generator of the order of the records.
        progress: Called with the part that is done; does nothing by default.

    Returns:
        Number of changed values.
    """
    order = rng.permutation(data.rows)
    codes = np.ascontiguousarray(data.codes[:, order])
    changed = 0
    with ThreadPoolExecutor(threads()) as pool:
        columns = len(data.domain)
        for sweep in range(sweeps):
            gained = 0.0
            for column, size in enumerate(data.domain.sizes):
                before = sweep * columns + column
                told = step_of(
                    progress, before / (sweeps * columns), (before + 1) / (sweeps * columns)
                )
                now, gain = _visit(codes, gaps, column, size, pool, told)
                changed += now
                gained += gain
            if gained <= ENOUGH * gaps.expected:
                break
    data.codes[:, order] = codes
    return changed


def _visit(
    codes: Codes,
    gaps: Gaps,
    column: int,
    size: int,
    pool: ThreadPoolExecutor,
    progress: Progress,
) -> tuple[int, float]:
    """Change a column's values in place; return the number of changes and what they gain."""
    low, high = gaps.first_copy[column], gaps.first_copy[column + 1]
    if low == high or size == 1:
        return 0, 0.0
    rows = codes.shape[1]
    lot = max(_LEAST_LOT, -(-rows // _LOTS))
    at_once = threads() if lot * (high - low) > _FEW_LOOKUPS else 1
    part = -(-lot // at_once)
    width, costs = gaps.width[column], (gaps.cost, gaps.growth)
    own = (gaps.others[low:high], gaps.strides[low:high], gaps.base[low : high + 1])
    before, found = codes[column].copy(), codes[column].copy()
    gained = 0.0
    for start in range(0, rows, lot):
        end = min(start + lot, rows)
        progress(start / rows)
        if size > _MOST_COMPARED:
            most = max(1, 8 * _CANDIDATES // max(8, high - low))
            lists = _with_missing(own[2], width, size, most, gaps.cost)
            gained += _change_listed(codes, column, start, end, width, *lists, *own, *costs)
            continue
        compare = partial(_compare_all, codes, column, size, width, *own, *costs, found)
        starts = range(start, end, part)
        ends = [min(begin + part, end) for begin in starts]
        # The calls release the interpreter lock, and each writes values of its own records only.
        list((map if at_once == 1 else pool.map)(compare, starts, ends))
        gained += _change(codes, column, start, end, found, *own, *costs)
    some = np.flatnonzero(before != codes[column])
    copies = (gaps.column, gaps.others, gaps.strides, gaps.base)
    _tell(codes, column, some, before, gaps.siblings[low:high], *copies, *costs)
    return some.size, gained


@intrinsic
def _add_four(_context, total, to, values, one, two, three, four):  # type: ignore[no-untyped-def]
    """Add four runs of eight values each to `total[to:to + 8]`, with vector instructions.

    The compiler makes vector instructions only of longer loops by itself.
    """

    def generate(context, builder, signature, given):  # type: ignore[no-untyped-def]
        def at(array, begin):  # type: ignore[no-untyped-def]
            view = cgutils.create_struct_proxy(signature.args[array])(
                context, builder, given[array]
            )
            vector = ir.VectorType(ir.DoubleType(), _SIDE_BY_SIDE).as_pointer()
            return builder.bitcast(builder.gep(view.data, [given[begin]]), vector)

        def load(array, begin):  # type: ignore[no-untyped-def]
            value = builder.load(at(array, begin))
            value.align = 8
            return value

        first = builder.fadd(load(2, 3), load(2, 4))
        second = builder.fadd(load(2, 5), load(2, 6))
        whole = builder.fadd(load(0, 1), builder.fadd(first, second))
        builder.store(whole, at(0, 1)).align = 8
        return context.get_dummy_value()

    return types.void(total, to, values, one, two, three, four), generate


@numba.njit(inline="always")
def _begin(codes, row, others, strides, base, copy):  # type: ignore[no-untyped-def]
    """Return the index in `cost` of a record's first possible value, in a copy for one column."""
    begin = base[copy]
    for place in range(others.shape[1]):
        begin += np.uint64(codes[others[copy, place], row]) * strides[copy, place]
    return begin


@numba.njit(nogil=True, cache=True)
def _compare_all(  # type: ignore[no-untyped-def]
    codes, at, size, width, others, strides, base, cost, growth, found, start, end
):
    """Write the best value of each record from `start` to `end`, after comparing all values."""
    copies = others.shape[0]
    begins = np.empty((4, _ROWS), dtype=np.uint64)
    joined = np.empty(_ROWS * width, dtype=np.float64)
    rest = np.empty(_ROWS, dtype=np.float64)
    for low in range(start, end, _ROWS):
        rows = min(_ROWS, end - low)
        for place in range(rows * width):
            joined[place] = 0.0
        for row in range(rows):
            rest[row] = 0.0
        for first in range(0, copies, 4):
            for turn in range(4):
                if first + turn < copies:
                    _locate(codes, low, rows, others, strides, base, first + turn, begins[turn])
                else:
                    for row in range(rows):
                        begins[turn, row] = 0  # a run of zeros
            for row in range(rows):
                one, two = begins[0, row], begins[1, row]
                three, four = begins[2, row], begins[3, row]
                old = np.uint64(codes[at, low + row])
                # What the record's leaving saves is less than its value's costs by this.
                rest[row] += growth[one + old] + growth[two + old]
                rest[row] += growth[three + old] + growth[four + old]
                to = np.uint64(row * width)
                for _ in range(0, width, _SIDE_BY_SIDE):
                    _add_four(joined, to, cost, one, two, three, four)
                    to += np.uint64(_SIDE_BY_SIDE)
                    one += np.uint64(_SIDE_BY_SIDE)
                    two += np.uint64(_SIDE_BY_SIDE)
                    three += np.uint64(_SIDE_BY_SIDE)
                    four += np.uint64(_SIDE_BY_SIDE)
        for row in range(rows):
            own = row * width
            new, least = 0, joined[own]
            for code in range(1, size):
                if joined[own + code] < least:
                    new, least = code, joined[own + code]
            old = codes[at, low + row]
            if joined[own + old] - rest[row] - least > _LEAST_GAIN and new != old:
                found[low + row] = new


@numba.njit(nogil=True, cache=True)
def _locate(codes, low, rows, others, strides, base, copy, begin):  # type: ignore[no-untyped-def]
    """Write where the runs of some records in a copy begin."""
    for row in range(rows):
        begin[row] = base[copy]
    for place in range(others.shape[1]):
        stride = np.uint32(strides[copy, place])
        if stride:
            other = codes[others[copy, place]]
            for row in range(rows):
                begin[row] += np.uint64(np.uint32(other[np.uint64(low + row)]) * stride)


@numba.njit(nogil=True, cache=True)
def _with_missing(base, width, size, most, cost):  # type: ignore[no-untyped-def]
    """List the values that lack records in each run of a column's copies.

    Args:
        base: Start of each copy in `cost`, and the end of the last.
        width: Width of a run.
        size: Number of values.
        most: Largest number of values of a run; those with the lowest costs are listed.
        cost: Cost of one more record in each cell.

    Returns:
        The values, shape (runs, most), and their number in each run.
    """
    runs = (base[base.size - 1] - base[0]) // np.uint64(width)
    listed = np.empty((runs, most), dtype=np.uint32)
    lengths = np.zeros(runs, dtype=np.int64)
    for run in range(runs):
        own = cost[base[0] + np.uint64(run * width) :][:size]
        length, worst = 0, 0
        for code in range(size):
            if own[code] >= 0:
                continue
            if length < most:
                listed[run, length] = code
                length += 1
            elif own[code] < own[listed[run, worst]]:
                listed[run, worst] = code
            else:
                continue
            worst = 0
            for place in range(1, length):
                if own[listed[run, place]] > own[listed[run, worst]]:
                    worst = place
        lengths[run] = length
    return listed, lengths


@numba.njit(nogil=True, cache=True)
def _change(  # type: ignore[no-untyped-def]
    codes, at, start, end, found, others, strides, base, cost, growth
):
    """Set records to the values found for them where this still gains; return the gain."""
    gained = 0.0
    begins = np.empty(others.shape[0], dtype=np.uint64)
    for row in range(start, end):
        old, new = codes[at, row], found[row]
        if new == old:
            continue
        gain = 0.0
        for copy in range(begins.size):
            begin = _begin(codes, row, others, strides, base, copy)
            begins[copy] = begin
            left, entered = begin + np.uint64(old), begin + np.uint64(new)
            gain += cost[left] - growth[left] - cost[entered]
        if gain <= _LEAST_GAIN:
            continue
        for begin in begins:
            left, entered = begin + np.uint64(old), begin + np.uint64(new)
            cost[left] -= growth[left]
            cost[entered] += growth[entered]
        codes[at, row] = new
        gained += gain
    return gained


@numba.njit(nogil=True, cache=True)
def _change_listed(  # type: ignore[no-untyped-def]
    codes, at, start, end, width, listed, lengths, others, strides, base, cost, growth
):
    """Set records to the best value of those in their lists, one by one; return the gain.

    Each of many values lacks few records only, so the best value is another one after each change.
    """
    gained = 0.0
    copies = others.shape[0]
    begins = np.empty(copies, dtype=np.uint64)
    for row in range(start, end):
        old = codes[at, row]
        freed = 0.0
        for copy in range(copies):
            begins[copy] = _begin(codes, row, others, strides, base, copy)
            cell = begins[copy] + np.uint64(old)
            freed += growth[cell] - cost[cell]
        new, least = old, -_LEAST_GAIN - freed
        for copy in range(copies):
            run = (begins[copy] - base[0]) // np.uint64(width)
            for code in listed[run, : lengths[run]]:
                joined = 0.0
                for begin in begins:
                    joined += cost[begin + np.uint64(code)]
                if joined < least and code != old:
                    new, least = code, joined
        if new == old:
            continue
        for begin in begins:
            left, entered = begin + np.uint64(old), begin + np.uint64(new)
            cost[left] -= growth[left]
            cost[entered] += growth[entered]
        codes[at, row] = new
        gained -= least + freed
    return gained


@numba.njit(nogil=True, cache=True)
def _tell(  # type: ignore[no-untyped-def]
    codes, at, rows, before, siblings, column, others, strides, base, cost, growth
):
    """Update the copies for other columns after changes of a column's values.

    Copy after copy, because each copy stays in the first-level cache.
    """
    for same in siblings.ravel():
        if same < 0:
            continue
        own = column[same]
        stride = np.uint64(0)
        for place in range(others.shape[1]):
            if strides[same, place] and others[same, place] == at:
                stride = strides[same, place]
        for row in rows:
            entered = _begin(codes, row, others, strides, base, same)
            entered += np.uint64(codes[own, row])
            left = entered + (np.uint64(before[row]) - np.uint64(codes[at, row])) * stride
            cost[left] -= growth[left]
            cost[entered] += growth[entered]
