"""Counts the cells of tables over coded records.

The time of a count is mostly that of one increment for each row and table. So the aim is few
increments, all in the fastest caches:

- *Few tables.* Cliques are projected from tables that contain them, which is exact because counts
  are integers. `dp_core.tables.table_plan` chooses the tables; it decides time, and no count.
- *Rows in blocks.* All tables are counted over one block of rows before the next block, so that
  codes are read from memory once and stay in the second-level cache. Tables that are too large for
  the scratch counters are counted over many blocks at once, because for them the counters, not the
  codes, have to stay in the cache.
- *Two steps.* Vector instructions compute the cells of some thousand rows at a time (mixed radix);
  a second loop only increments.
- *Scratch counters.* Within a block a table is counted in 16 bits in one small array that stays in
  the first-level cache, and is added to its 32-bit counts at the block's end. Neighbouring rows
  increment different copies of the array. Otherwise, if most rows are in one cell, each increment
  would wait for the previous one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numba as nb
import numpy as np
from numpy.typing import NDArray

Axes: TypeAlias = tuple[int, ...]
"""Columns of a table, by number."""

FOURFOLD_CELLS = 1 << 13
"""Most cells of a table that is counted in four copies of 16 bits."""
TWOFOLD_CELLS = 1 << 14
"""Most cells of a table that is counted in two copies; larger tables are counted in place."""
BLOCK_BYTES = 1 << 20
"""Bytes of codes in a block: half of a second-level cache."""
LONG_BYTES = 1 << 24
"""Bytes of codes in a block if a table is counted in place."""
BLOCK_ROWS = 2**16 - 1
"""Most rows of a block, which 16 bits can count."""
INDEX_ROWS = 4096
"""Rows whose cells are computed at a time; their indices stay in the first-level cache."""
PASS_CELLS = 1 << 24
"""Most cells of the tables in one pass over the rows; a larger table has its own pass."""
MOST_CELLS = 2**31
"""Most cells of a clique."""
MOST_ROWS = 2**32 - 1
"""Most rows of one call, because counters have 32 bits within a call."""


@dataclass(frozen=True, slots=True)
class TablePlan:
    """Which tables are counted, and from which of them each clique is projected.

    Attributes:
        sizes: Number of codes of each column.
        cliques: The requested cliques.
        tables: Columns of each counted table, ascending.
        chosen: For each clique, the index in `tables` of the table from which it is projected.

    Raises:
        ValueError: if a clique or a table repeats a column or has more than 2**31 cells, or a
            clique is not in its table.
    """

    sizes: tuple[int, ...]
    cliques: tuple[Axes, ...]
    tables: tuple[Axes, ...]
    chosen: tuple[int, ...]

    def __post_init__(self) -> None:
        # privacy: whoever chose the tables, a row is in one cell of each, and of each clique.
        for axes in (*self.cliques, *self.tables):
            check_axes(self.sizes, axes)
        for clique, number in zip(self.cliques, self.chosen, strict=True):
            if not {*clique} <= {*self.tables[number]}:
                raise ValueError(f"The clique {clique} is not in its table.")

    @property
    def cells(self) -> int:
        """Number of cells of all counted tables."""
        return sum(_cells(self.sizes, table) for table in self.tables)

    def project(self, counts: Sequence[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
        """Return the marginal of each clique, its axes in the clique's own order.

        Args:
            counts: Counts of each table in `tables`, flat.
        """
        marginals = []
        for clique, number in zip(self.cliques, self.chosen, strict=True):
            table = self.tables[number]
            cube = counts[number].reshape([self.sizes[axis] for axis in table])
            rest = tuple(place for place, axis in enumerate(table) if axis not in clique)
            kept = [axis for axis in table if axis in clique]
            summed = cube.sum(axis=rest, dtype=np.int64) if rest else cube
            marginals.append(np.asarray(summed).transpose([kept.index(axis) for axis in clique]))
        return marginals


def check_axes(sizes: Sequence[int], axes: Sequence[int]) -> None:
    """Raise ValueError unless columns are different, and have a table of at most 2**31 cells.

    Args:
        sizes: Number of codes of each column that there is.
        axes: Columns, by number.
    """
    if len({*axes}) != len(axes) or not all(0 <= a < len(sizes) for a in axes):
        raise ValueError(f"A clique repeats a column, or there is no such column: {axes}.")
    if _cells(sizes, axes) > MOST_CELLS:
        raise ValueError(f"A clique of more than 2**31 cells cannot be counted: {axes}.")


def count_tables(columns: Sequence[NDArray[Any]], plan: TablePlan) -> list[NDArray[np.int64]]:
    """Return the counts of each table of the plan, flat, in C order of its columns.

    Args:
        columns: Codes of every column of `plan.sizes`, of any unsigned types, shape (rows,).
        plan: The tables.

    Raises:
        ValueError: if a code is not below its column's size, or columns differ in length.
    """
    rows = len(columns[0]) if columns else 0
    if any(len(column) != rows for column in columns) or len(columns) != len(plan.sizes):
        raise ValueError("Columns differ in length, or are not those of the plan.")
    if rows > MOST_ROWS:
        raise ValueError("One call counts at most 2**32 - 1 rows; count chunks.")
    counts: list[NDArray[np.int64]] = []
    for some in _passes(plan):
        counts += _count_pass(columns, plan.sizes, some, rows)
    return counts


def _cells(sizes: Sequence[int], axes: Sequence[int]) -> int:
    return math.prod(sizes[axis] for axis in axes)


def _passes(plan: TablePlan) -> list[list[Axes]]:
    """Split the tables, in their order, into passes of bounded size."""
    passes: list[list[Axes]] = []
    room = 0
    for table in plan.tables:
        cells = _cells(plan.sizes, table)
        if cells > room:
            passes.append([])
            room = PASS_CELLS
        passes[-1].append(table)
        room -= cells
    return passes


def _count_pass(
    columns: Sequence[NDArray[Any]], sizes: Sequence[int], tables: Sequence[Axes], rows: int
) -> list[NDArray[np.int64]]:
    used = sorted({axis for table in tables for axis in table})
    place = {axis: row for row, axis in enumerate(used)}
    dtype = np.result_type(np.uint8, *[columns[axis].dtype for axis in used])
    cells = np.array([_cells(sizes, table) for table in tables], dtype=np.int64)
    offsets = np.concatenate(([0], np.cumsum(cells)))
    starts = np.concatenate(([0], np.cumsum([len(table) for table in tables])))
    flat = [(place[axis], sizes[axis]) for table in tables for axis in table]
    axes = np.array(flat, dtype=np.int64).reshape(-1, 2)
    counters = np.zeros(offsets[-1], dtype=np.uint32)
    length = BLOCK_BYTES // (max(len(used), 1) * dtype.itemsize)
    length = min(max(length, INDEX_ROWS), BLOCK_ROWS)
    part = length
    if cells.max(initial=0) > TWOFOLD_CELLS:
        length = max(length, LONG_BYTES // (len(used) * dtype.itemsize))
    block = np.empty((len(used), min(length, max(rows, 1))), dtype=dtype)
    scratch = np.zeros(2 * TWOFOLD_CELLS, dtype=np.uint16)
    small, large = np.empty(INDEX_ROWS, np.uint16), np.empty(INDEX_ROWS, np.uint32)
    for start in range(0, rows, length):
        stop = min(start + length, rows)
        for axis in used:
            codes = columns[axis][start:stop]
            # The compiled loop uses codes as array indices without a check, so check them here.
            if codes.max() >= sizes[axis]:
                raise ValueError(f"Column {axis} holds a code that is not below its size.")
            block[place[axis], : stop - start] = codes
        rest = (axes, starts, cells, offsets, counters, scratch, small, large)
        _count_block(block, stop - start, part, *rest)
    return [
        counters[begin : begin + size].astype(np.int64)
        for begin, size in zip(offsets[:-1], cells, strict=True)
    ]


@nb.njit(nogil=True, cache=True)
def _count_block(
    block: Any,
    rows: int,
    part: int,
    axes: Any,
    starts: Any,
    cells: Any,
    offsets: Any,
    counters: Any,
    scratch: Any,
    small: Any,
    large: Any,
) -> None:
    """Add a block's rows to every table; 16-bit cell numbers where they fit, else 32-bit."""
    for first in range(0, rows, part):
        last = min(first + part, rows)
        for table in range(cells.size):
            size = cells[table]
            if size > TWOFOLD_CELLS:
                continue
            counter = counters[offsets[table] : offsets[table + 1]]
            columns = axes[starts[table] : starts[table + 1]]
            if columns.shape[0] == 0:
                counter[0] += np.uint32(last - first)
                continue
            copies = 4 if size <= FOURFOLD_CELLS else 2
            for begin in range(first, last, INDEX_ROWS):
                end = min(begin + INDEX_ROWS, last)
                index = small[: end - begin]
                _locate(block, begin, end, columns, index)
                _tally_copies(index, scratch, size, copies)
            for copy in range(copies):
                _collect(scratch[copy * size : (copy + 1) * size], counter)
    for table in range(cells.size):
        size = cells[table]
        if size <= TWOFOLD_CELLS:
            continue
        counter = counters[offsets[table] : offsets[table + 1]]
        columns = axes[starts[table] : starts[table + 1]]
        for begin in range(0, rows, INDEX_ROWS):
            end = min(begin + INDEX_ROWS, rows)
            if size <= 65536:
                index = small[: end - begin]
                _locate(block, begin, end, columns, index)
                _tally(index, counter)
            else:
                wide = large[: end - begin]
                _locate(block, begin, end, columns, wide)
                _tally(wide, counter)


@nb.njit(nogil=True, cache=True)
def _locate(block: Any, begin: int, end: int, columns: Any, index: Any) -> None:
    """Write the cell of each row: mixed radix, the last column varies fastest."""
    if columns.shape[0] == 1:
        _copy(block[columns[0, 0], begin:end], index)
        return
    _pair(block[columns[0, 0], begin:end], block[columns[1, 0], begin:end], columns[1, 1], index)
    for column in range(2, columns.shape[0]):
        _append(index, block[columns[column, 0], begin:end], columns[column, 1])


# Each of these loops is a separate function over whole slices, because only then it is vectorised.


@nb.njit(nogil=True, cache=True)
def _copy(codes: Any, index: Any) -> None:
    for row in range(index.size):
        index[row] = codes[row]


@nb.njit(nogil=True, cache=True)
def _pair(first: Any, second: Any, size: int, index: Any) -> None:
    radix = index.dtype.type(size)
    for row in range(index.size):
        index[row] = first[row] * radix + second[row]


@nb.njit(nogil=True, cache=True)
def _append(index: Any, codes: Any, size: int) -> None:
    radix = index.dtype.type(size)
    for row in range(index.size):
        index[row] = index[row] * radix + codes[row]


@nb.njit(nogil=True, cache=True)
def _tally(index: Any, counter: Any) -> None:
    for row in range(index.size):
        counter[index[row]] += np.uint32(1)


@nb.njit(nogil=True, cache=True)
def _tally_copies(index: Any, scratch: Any, cells: int, copies: int) -> None:
    """Count four rows at a time, in four copies of the table or twice in each of two."""
    one, half = np.uint16(1), (copies - 2) * cells
    first, second = scratch[:cells], scratch[cells : 2 * cells]
    third, fourth = scratch[half : half + cells], scratch[half + cells : half + 2 * cells]
    done = index.size // 4 * 4
    for row in range(0, done, 4):
        # All cells are loaded before the first store, which might otherwise alias them.
        c0, c1, c2, c3 = index[row], index[row + 1], index[row + 2], index[row + 3]
        first[c0] += one
        second[c1] += one
        third[c2] += one
        fourth[c3] += one
    for row in range(done, index.size):
        first[index[row]] += one


@nb.njit(nogil=True, cache=True)
def _collect(scratch: Any, counter: Any) -> None:
    """Add a scratch copy to the table's counts, and set the copy to 0."""
    for cell in range(counter.size):
        counter[cell] += scratch[cell]
        scratch[cell] = 0
