"""Which tables are counted for some cliques: a choice that decides time and memory, and no count.

Cliques are combined into groups whose joint table still fits the first-level cache: four columns of
ten codes are 10,000 cells and contain all six of their pairs. Each group is counted once and
projected to its cliques (`dp_core.kernel.counting.cell_counts`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.canonical import remembered
from dp_core.kernel.counting.cell_counts import Axes, TablePlan, check_axes, count_tables

GROUP_CELLS = 1 << 14
"""Most cells of a joint table of several cliques."""


@remembered(32)
def plan_tables(sizes: Sequence[int], cliques: Sequence[Sequence[int]]) -> TablePlan:
    """Choose the tables to count.

    A greedy search starts from the largest clique that no table contains yet. It adds the column
    that completes the most further cliques relative to its size, as long as the table has at most
    `GROUP_CELLS` cells.

    Args:
        sizes: Number of codes of each column.
        cliques: Column numbers of each clique, without repetition; `()` is the number of rows.

    Raises:
        ValueError: if a clique repeats a column or has more than 2**31 cells.
    """
    for clique in cliques:
        check_axes(sizes, clique)
    asked = sorted({tuple(sorted(c)) for c in cliques}, key=lambda c: -_cells(sizes, c))
    axes = np.array([axis for clique in asked for axis in clique], dtype=np.int64)
    ends = np.cumsum([0, *(len(clique) for clique in asked)])
    # The cliques of each column, one column after the other.
    of = np.repeat(np.arange(len(asked)), np.diff(ends))[np.argsort(axes, kind="stable")]
    starts = np.concatenate(([0], np.cumsum(np.bincount(axes, minlength=len(sizes)))))
    serving, held, lengths = _share(np.array(sizes, dtype=np.int64), axes, ends, of, starts)
    tables = tuple(
        tuple(sorted(table.tolist())) for table in np.split(held, np.cumsum(lengths)[:-1])
    )
    number = dict(zip(asked, serving.tolist(), strict=True))
    chosen = tuple(number[tuple(sorted(clique))] for clique in cliques)
    return TablePlan(tuple(sizes), tuple(map(tuple, cliques)), tables, chosen)


def count_codes(
    columns: Sequence[NDArray[Any]], sizes: Sequence[int], cliques: Sequence[Axes]
) -> list[NDArray[np.int64]]:
    """Return the exact marginal of each clique, shape: the sizes of its columns in its order.

    Args:
        columns: Codes of every column, of any unsigned types, shape (rows,).
        sizes: Codes of column `i` are below `sizes[i]`.
        cliques: Column numbers of each clique; `()` is the number of rows.

    Raises:
        ValueError: if a code is not below its column's size or a clique is too large.

    >>> a, b = np.array([0, 1, 1], np.uint8), np.array([2, 0, 0], np.uint8)
    >>> [table.tolist() for table in count_codes([a, b], [2, 3], [(0, 1), (1,), ()])]
    [[[0, 0, 1], [2, 0, 0]], [2, 0, 1], 3]
    """
    plan = plan_tables(tuple(sizes), tuple(tuple(clique) for clique in cliques))
    return plan.project(count_tables(columns, plan))


def parts_of(plan: TablePlan, most: int) -> Iterator[TablePlan]:
    """Yield plans of some of a plan's tables each, with the cliques that these serve.

    Args:
        plan: The plan.
        most: Most cells of the tables of a part; a larger table is a part by itself.
    """
    served: list[list[Axes]] = [[] for _ in plan.tables]
    for clique, number in zip(plan.cliques, plan.chosen, strict=True):
        served[number].append(clique)
    start = cells = 0
    for end, table in enumerate(plan.tables):
        size = _cells(plan.sizes, table)
        if start < end and cells + size > most:
            yield _part(plan, served, start, end)
            start, cells = end, 0
        cells += size
    yield _part(plan, served, start, len(plan.tables))


def _part(plan: TablePlan, served: Sequence[Sequence[Axes]], start: int, end: int) -> TablePlan:
    return TablePlan(
        plan.sizes,
        tuple(clique for cliques in served[start:end] for clique in cliques),
        plan.tables[start:end],
        tuple(at for at, cliques in enumerate(served[start:end]) for _ in cliques),
    )


def _cells(sizes: Sequence[int], axes: Sequence[int]) -> int:
    return prod(sizes[axis] for axis in axes)


@nb.njit(nogil=True, cache=True)
def _share(sizes: Any, axes: Any, ends: Any, of: Any, starts: Any) -> Any:
    """Combine cliques into tables; see `plan_tables`.

    A table costs as many steps as its columns have cliques that no earlier table serves.

    Args:
        sizes: Number of codes of each column.
        axes: Columns of all cliques, one clique after the other, the largest cliques first.
        ends: Where each clique begins in `axes`, and the end of the last one.
        of: Cliques of all columns, one column after the other; overwritten.
        starts: Where each column begins in `of`, and the end of the last one.

    Returns:
        The table that serves each clique; the columns of all tables, one table after the other;
        and the number of columns of each table.
    """
    # A column with one code adds no cells; the small constant avoids a division by 0.
    price = np.log2(sizes.astype(np.float64)) + 0.01
    lengths = np.diff(ends)
    serving = np.full(lengths.size, -1, np.int64)
    lacking = lengths.copy()  # number of a clique's columns that the table does not have
    left = np.zeros(lengths.size, np.int64)  # sum of their numbers: if it is one, that column
    alone = np.zeros(sizes.size, np.int64)  # unserved cliques of one column
    for clique in range(lengths.size):
        left[clique] = axes[ends[clique] : ends[clique + 1]].sum()
        if lengths[clique] == 1:
            alone[left[clique]] += 1
    stops = starts[1:].copy()  # where the unserved cliques of each column end in `of`
    held = np.zeros(sizes.size, np.bool_)
    columns = [np.int64(0) for _ in range(0)]
    tables = [np.int64(0) for _ in range(0)]
    for first in range(lengths.size):
        if serving[first] >= 0:
            continue
        begin = len(columns)
        gain = alone.copy()
        cells = np.int64(1)
        at, best = ends[first], np.int64(-1)
        while at < ends[first + 1] or best >= 0:
            column = best
            if at < ends[first + 1]:
                column = axes[at]
                at += 1
            held[column] = True
            columns.append(column)
            cells *= sizes[column]
            for place in range(starts[column], stops[column]):
                clique = of[place]
                lacking[clique] -= 1
                left[clique] -= column
                if lacking[clique] == 1 and serving[clique] < 0:
                    gain[left[clique]] += 1
            best = np.int64(-1)
            most = 0.0
            for other in range(sizes.size):
                fits = not held[other] and cells * sizes[other] <= GROUP_CELLS
                if fits and gain[other] / price[other] > most:
                    best, most = np.int64(other), gain[other] / price[other]
        for column in columns[begin:]:
            for place in range(starts[column], stops[column]):
                clique = of[place]
                if lacking[clique] == 0 and serving[clique] < 0:
                    serving[clique] = len(tables)
                    if lengths[clique] == 1:
                        alone[column] -= 1
        for column in columns[begin:]:
            held[column] = False
            kept = starts[column]
            for place in range(starts[column], stops[column]):
                clique = of[place]
                lacking[clique] += 1
                left[clique] += column
                if serving[clique] < 0:
                    of[kept] = clique
                    kept += 1
            stops[column] = kept
        if len(tables) == 0:
            serving[lengths == 0] = 0  # every table has the number of rows
        tables.append(np.int64(len(columns) - begin))
    return serving, np.array(columns, dtype=np.int64), np.array(tables, dtype=np.int64)
