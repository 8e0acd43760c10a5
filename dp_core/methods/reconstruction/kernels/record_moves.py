"""The loops of GUM, compiled. One call changes records for all tables once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import Table
from dp_core.kernel.codes import Codes, code_type
from dp_core.kernel.counting.domain import Domain
from dp_core.methods.reconstruction.sampling.drawing_progress import Progress, silent

_PATIENCE = 3  # rounds without gain before stopping; one alone may be due to the tables' order


@dataclass(frozen=True, slots=True, eq=False)
class Targets:
    """Tables as flat arrays.

    Attributes:
        axes: Columns of all tables, one table after the other, as rows of the codes array.
        sizes: Numbers of codes of these columns.
        first_axis: Start of each table's axes, shape (tables + 1,).
        wanted: Target number of records in each cell, one table after the other, C order.
        first_cell: Start of each table's cells, shape (tables + 1,).
    """

    axes: NDArray[np.int64]
    sizes: NDArray[np.int64]
    first_axis: NDArray[np.int64]
    wanted: NDArray[np.int64]
    first_cell: NDArray[np.int64]

    @classmethod
    def pack(
        cls, domain: Domain, tables: Sequence[Table], rows: int, *, rng: np.random.Generator
    ) -> Targets:
        """Return the tables scaled to `rows` records and rounded to whole ones."""
        return cls(
            axes=np.concatenate([domain.axes(table.clique) for table in tables]).astype(np.int64),
            sizes=np.concatenate([table.domain.sizes for table in tables]).astype(np.int64),
            first_axis=np.cumsum([0, *[len(table.clique) for table in tables]]),
            wanted=np.concatenate([whole(table.values, rows, rng=rng) for table in tables]),
            first_cell=np.cumsum([0, *[table.values.size for table in tables]]),
        )


def whole(values: NDArray[np.float64], rows: int, *, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return whole counts, flat, that sum to `rows` and are each within one of the scaled values.

    The rounding is random and unbiased, with one draw for all cells (systematic sampling), so that
    sums over adjacent cells are within one as well.
    """
    total = values.sum()
    share = values.ravel() / total if total > 0 else np.full(values.size, 1 / values.size)
    ends = np.floor(np.cumsum(share) * rows + rng.random()).astype(np.int64)
    ends[-1] = rows  # corrects rounding errors of the sum
    counts = np.diff(np.minimum(ends, rows), prepend=0)
    return _without_impossible(counts, share)


def _without_impossible(counts: NDArray[np.int64], share: NDArray[np.float64]) -> NDArray[np.int64]:
    # Rounding errors of the sum are added to the last cell, which may be impossible.
    if share[-1] == 0 and counts[-1]:
        counts[np.flatnonzero(share)[-1]] += counts[-1]
        counts[-1] = 0
    return counts


def start(columns: Sequence[Table], rows: int, *, rng: np.random.Generator) -> Codes:
    """Return records with independent columns that match their one-way tables.

    Args:
        columns: One-way tables in the domain's order.
        rows: Number of records.
        rng: Generator; same state, same records.

    Returns:
        Codes, shape (columns, rows).
    """
    kind = code_type(*(table.values.size for table in columns))
    codes = np.empty((len(columns), rows), dtype=kind)
    for column, table in zip(codes, columns, strict=True):
        counts = whole(table.values, rows, rng=rng)
        column[:] = np.repeat(np.arange(counts.size, dtype=kind), counts)
        rng.shuffle(column)
    return codes


def update(
    codes: Codes,
    targets: Targets,
    *,
    rounds: int,
    step: float,
    decay: float,
    copies: float,
    tolerance: float,
    seed: int,
    progress: Progress = silent,
) -> NDArray[np.float64]:
    """Change records in place; return the summed error before each round, in records.

    Args:
        codes: Codes of the records, shape (columns, rows); changed.
        targets: Tables to match.
        rounds: Largest number of rounds.
        step: Part of each cell's error that the first round corrects.
        decay: Factor by which `step` is multiplied after every round.
        copies: Part of the records moved into a cell that become copies of a record in it.
        tolerance: Smallest relative gain over the best round so far; after three rounds without
            such a gain the work ends.
        seed: Seed of the random choices among records.
        progress: Called with the part of the rounds that is done; does nothing by default.
    """
    state = _seeded(np.uint64(seed))
    order = np.arange(targets.first_axis.size - 1)
    permutation = np.arange(codes.shape[1], dtype=np.int32)
    errors: list[float] = []
    best, idle = math.inf, 0
    for turn in range(rounds):
        error = _round(
            codes,
            targets.axes,
            targets.sizes,
            targets.first_axis,
            targets.wanted,
            targets.first_cell,
            turn % 2 == 1,
            step,
            copies,
            order,
            permutation,
            state,
        )
        errors.append(error)
        progress((turn + 1) / rounds)
        if error < best * (1.0 - tolerance):
            best, idle = error, 0
        else:
            idle += 1
        if error == 0.0 or idle == _PATIENCE:
            break
        step *= decay
    return np.array(errors)


@numba.njit(inline="always")
def _random(state):  # type: ignore[no-untyped-def]
    """Return the next double in [0, 1) of xorshift64*, whose state is `state[0]`."""
    word = state[0]
    word ^= word >> np.uint64(12)
    word ^= word << np.uint64(25)
    word ^= word >> np.uint64(27)
    state[0] = word
    return ((word * np.uint64(2685821657736338717)) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@numba.njit(nogil=True, cache=True)
def _seeded(seed):  # type: ignore[no-untyped-def]
    """Return the state of `_random` for a seed."""
    state = np.empty(1, dtype=np.uint64)
    state[0] = seed * np.uint64(2) + np.uint64(1)
    for _ in range(8):
        _random(state)
    return state


@numba.njit(nogil=True, cache=True)
def _round(  # type: ignore[no-untyped-def]
    codes,
    axes,
    sizes,
    first_axis,
    wanted,
    first_cell,
    reverse,
    step,
    copies,
    order,
    permutation,
    state,
):
    """Visit every table once; return the total error before the visit, in records.

    Changes `order`, `permutation` and `state` in place, for the next round.
    """
    rows = codes.shape[1]
    tables = order.size
    largest = 0
    for table in range(tables):
        largest = max(largest, first_cell[table + 1] - first_cell[table])
    cell_of = np.empty(rows, dtype=np.int32)
    work = np.zeros((5, largest), dtype=np.int32)
    drawn = np.empty(rows + largest + 1, dtype=np.int32)
    shuffled = np.empty(rows, dtype=codes.dtype)
    # Tables take records in order; a new order separates records that were moved together.
    for place in range(rows - 1, 0, -1):
        other = int(_random(state) * (place + 1))
        permutation[place], permutation[other] = permutation[other], permutation[place]
    for column in range(codes.shape[0]):
        for row in range(rows):
            shuffled[row] = codes[column, permutation[row]]
        for row in range(rows):  # assigning an array to a slice takes long to compile
            codes[column, row] = shuffled[row]
    for place in range(tables - 1, 0, -1):
        other = int(_random(state) * (place + 1))
        order[place], order[other] = order[other], order[place]
    error = 0.0
    for table in order:
        error += _visit(
            codes,
            axes[first_axis[table] : first_axis[table + 1]],
            sizes[first_axis[table] : first_axis[table + 1]],
            wanted[first_cell[table] : first_cell[table + 1]],
            reverse,
            step,
            copies,
            cell_of,
            work,
            drawn,
            state,
        )
    return error


@numba.njit(nogil=True, cache=True)
def _visit(  # type: ignore[no-untyped-def]
    codes,
    axes,
    sizes,
    wanted,
    reverse,
    step,
    copies,
    cell_of,
    work,
    drawn,
    state,
):
    """Correct a part of one table's error; return its summed error beforehand, in records."""
    rows = codes.shape[1]
    cells = wanted.size
    width = axes.size
    held, take, begin, at, end = work[0], work[1], work[2], work[3], work[4]
    # Cells are numbered with the first axis slowest, or with the last one in every other round.
    # Moved records are matched to their new cells in that order, so most keep their code on that
    # axis.
    stride = np.empty(width, dtype=np.int64)
    natural = np.empty(width, dtype=np.int64)
    run = 1
    for k in range(width - 1, -1, -1):
        natural[k] = run
        run *= sizes[k]
    if reverse:
        run = 1
        for k in range(width):
            stride[k] = run
            run *= sizes[k]
    else:
        for k in range(width):
            stride[k] = natural[k]
    held[:cells] = 0
    _number(codes, axes, stride, cell_of)
    for row in range(rows):
        held[cell_of[row]] += 1

    # Numbers of records that leave and enter each cell, rounded so that both have the same sum.
    error = 0.0
    given = taken = _random(state)
    leaving = entering = 0
    filled = 0
    for cell in range(cells):
        place = cell
        if reverse:
            rest = cell
            place = 0
            for k in range(width - 1, -1, -1):
                place += (rest // stride[k]) * natural[k]
                rest %= stride[k]
        gap = wanted[place] - held[cell]
        draw = take[cell] = 0
        if gap < 0:
            error -= gap
            given -= step * gap
            draw = int(given) - leaving
            leaving += draw
        elif gap > 0:
            error += gap
            taken += step * gap
            take[cell] = int(taken) - entering
            entering += take[cell]
            # Records to copy, each at most once; an empty cell has none.
            draw = min(int(take[cell] * copies + _random(state)), take[cell], held[cell])
        begin[cell] = at[cell] = filled
        end[cell] = filled + draw
        filled += draw + 1  # one spare place for writes beyond the cell's number
    if leaving == 0 or entering == 0:
        return error

    # Records are taken in order from a random start, without a branch in the loop.
    first = int(_random(state) * rows)
    for part in range(2):
        low, high = (first, rows) if part == 0 else (0, first)
        for row in range(low, high):
            cell = cell_of[row]
            place = at[cell]
            drawn[place] = row
            at[cell] = place + (place < end[cell])

    source = leaver = 0
    for cell in range(cells):
        if take[cell] == 0:
            continue
        donor = begin[cell]
        for _ in range(take[cell]):
            while source < cells and (take[source] > 0 or leaver >= end[source]):
                source += 1
                if source < cells:
                    leaver = begin[source]
            if source >= cells:
                return error
            row = drawn[leaver]
            leaver += 1
            if donor < end[cell]:
                copied = drawn[donor]
                donor += 1
                for column in range(codes.shape[0]):
                    codes[column, row] = codes[column, copied]
            else:
                rest = cell
                for turn in range(width):
                    k = width - 1 - turn if reverse else turn
                    codes[axes[k], row] = rest // stride[k]
                    rest %= stride[k]
    return error


@numba.njit(nogil=True, cache=True)
def _number(codes, axes, stride, cell_of):  # type: ignore[no-untyped-def]
    """Store every record's cell number in `cell_of`."""
    rows = codes.shape[1]
    one = codes[axes[0]]
    by = np.int32(stride[0])
    if axes.size == 1:
        for row in range(rows):
            cell_of[row] = np.int32(one[row]) * by
        return
    two = codes[axes[1]]
    by_two = np.int32(stride[1])
    for row in range(rows):
        cell_of[row] = np.int32(one[row]) * by + np.int32(two[row]) * by_two
    for k in range(2, axes.size):
        more = codes[axes[k]]
        by = np.int32(stride[k])
        for row in range(rows):
            cell_of[row] += np.int32(more[row]) * by
