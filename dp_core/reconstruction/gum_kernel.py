"""The loops of GUM, compiled. One call moves records for all tables and rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

from dp_core.domain import Domain
from dp_core.marginals import Table


@dataclass(frozen=True, slots=True, eq=False)
class Targets:
    """Tables as flat arrays.

    Attributes:
        axes: Rows of the codes, of all tables one after the other.
        sizes: Their numbers of codes.
        first_axis: Where each table's axes start, one more than there are tables.
        wanted: Records wanted in each cell, all tables one after the other, C order.
        first_cell: Where each table's cells start, one more than there are tables.
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

    Rounded at random without bias, all cells from one draw (systematic sampling), so that sums
    over neighbouring cells are within one as well.
    """
    total = values.sum()
    share = values.ravel() / total if total > 0 else np.full(values.size, 1 / values.size)
    ends = np.floor(np.cumsum(share) * rows + rng.random()).astype(np.int64)
    ends[-1] = rows  # what rounding left over
    counts = np.diff(np.minimum(ends, rows), prepend=0)
    return _without_impossible(counts, share)


def _without_impossible(counts: NDArray[np.int64], share: NDArray[np.float64]) -> NDArray[np.int64]:
    # The last cell collects what rounding left over; it may be one that must stay empty.
    if share[-1] == 0 and counts[-1]:
        counts[np.flatnonzero(share)[-1]] += counts[-1]
        counts[-1] = 0
    return counts


def start(columns: Sequence[Table], rows: int, *, rng: np.random.Generator) -> NDArray[np.uint16]:
    """Return records whose columns have their tables and are otherwise independent.

    Args:
        columns: One-way tables in the domain's order.
        rows: Number of records.
        rng: Its state decides the records.

    Returns:
        Codes, shape (columns, rows).
    """
    codes = np.empty((len(columns), rows), dtype=np.uint16)
    for column, table in zip(codes, columns, strict=True):
        counts = whole(table.values, rows, rng=rng)
        column[:] = np.repeat(np.arange(counts.size, dtype=np.uint16), counts)
        rng.shuffle(column)
    return codes


def update(
    codes: NDArray[np.uint16],
    targets: Targets,
    *,
    rounds: int,
    step: float,
    decay: float,
    copies: float,
    tolerance: float,
    seed: int,
) -> NDArray[np.float64]:
    """Move records in place; return the summed error before each round, records.

    Args:
        codes: Shape (columns, rows).
        targets: Tables to reach.
        rounds: Largest number of rounds.
        step: Part of each cell's error the first round mends.
        decay: What the step is multiplied by after every round.
        copies: Part of the received records that are copies.
        tolerance: Least relative gain of a round that is worth another.
        seed: Of the choices among records.
    """
    errors: NDArray[np.float64] = _update(
        codes,
        targets.axes,
        targets.sizes,
        targets.first_axis,
        targets.wanted,
        targets.first_cell,
        rounds,
        step,
        decay,
        copies,
        tolerance,
        np.uint64(seed),
    )
    return errors


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
def _update(  # type: ignore[no-untyped-def]
    codes,
    axes,
    sizes,
    first_axis,
    wanted,
    first_cell,
    rounds,
    step,
    decay,
    copies,
    tolerance,
    seed,
):
    rows = codes.shape[1]
    tables = first_axis.size - 1
    state = np.empty(1, dtype=np.uint64)
    state[0] = seed * np.uint64(2) + np.uint64(1)
    for _ in range(8):
        _random(state)
    largest = 0
    for table in range(tables):
        largest = max(largest, first_cell[table + 1] - first_cell[table])
    cell_of = np.empty(rows, dtype=np.int32)
    held = np.empty(largest, dtype=np.int64)
    work = np.empty((4, largest + 1), dtype=np.int64)
    leavers = np.empty(rows, dtype=np.int32)
    donors = np.empty(rows, dtype=np.int32)
    order = np.arange(tables)
    errors = np.empty(rounds)
    done = 0
    for turn in range(rounds):
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
                turn % 2 == 1,
                step,
                copies,
                cell_of,
                held,
                work,
                leavers,
                donors,
                state,
            )
        errors[turn] = error
        done = turn + 1
        if error == 0.0 or (turn > 0 and error > errors[turn - 1] * (1.0 - tolerance)):
            break
        step *= decay
    return errors[:done]


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
    held,
    work,
    leavers,
    donors,
    state,
):
    """Mend a part of one table's error; return its summed error beforehand, records."""
    rows = codes.shape[1]
    cells = wanted.size
    width = axes.size
    # Cells are numbered with the first axis slowest, or with the last one in every other round:
    # leavers are matched to receivers in that order, so most of them keep that axis's code.
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
        stride[:] = natural
    held[:cells] = 0
    if width == 2:
        one, two = codes[axes[0]], codes[axes[1]]
        s0, s1 = np.int32(stride[0]), np.int32(stride[1])
        for row in range(rows):
            cell = np.int32(one[row]) * s0 + np.int32(two[row]) * s1
            cell_of[row] = cell
            held[cell] += 1
    else:
        for row in range(rows):
            cell = 0
            for k in range(width):
                cell += codes[axes[k], row] * stride[k]
            cell_of[row] = cell
            held[cell] += 1

    # How many leave and enter each cell: rounded together, so that both sum to the same.
    give, take, give_at, take_at = work[0], work[1], work[2], work[3]
    error = 0.0
    given = taken = _random(state)
    leaving = entering = 0
    for cell in range(cells):
        place = cell
        if reverse:
            rest = cell
            place = 0
            for k in range(width - 1, -1, -1):
                place += (rest // stride[k]) * natural[k]
                rest %= stride[k]
        gap = wanted[place] - held[cell]
        give[cell] = take[cell] = 0
        if gap < 0:
            error -= gap
            given -= step * gap
            give[cell] = int(given) - leaving
            leaving += give[cell]
        elif gap > 0:
            error += gap
            taken += step * gap
            take[cell] = int(taken) - entering
            entering += take[cell]
    if leaving == 0 or entering == 0:
        return error

    # Copies need a record in the cell to copy; every cell's donors are drawn without repetition.
    run_give = run_take = 0
    for cell in range(cells):
        give_at[cell] = run_give
        run_give += give[cell]
        copied = 0
        if take[cell] > 0 and held[cell] > 0:
            copied = min(int(take[cell] * copies + _random(state)), take[cell], held[cell])
        take_at[cell] = run_take
        run_take += copied
        # From here on: > 0 still to draw from the cell's `held` records not yet seen.
        if give[cell] == 0 and copied > 0:
            give[cell] = -copied
    for row in range(rows):
        cell = cell_of[row]
        left = give[cell]
        if left == 0:
            continue
        if left > 0:
            if _random(state) * held[cell] < left:
                leavers[give_at[cell]] = row
                give_at[cell] += 1
                give[cell] = left - 1
        elif _random(state) * held[cell] < -left:
            donors[take_at[cell]] = row
            take_at[cell] += 1
            give[cell] = left + 1
        held[cell] -= 1

    next_leaver = 0
    donor = 0
    for cell in range(cells):
        for _ in range(take[cell]):
            if next_leaver == leaving:
                return error
            row = leavers[next_leaver]
            next_leaver += 1
            if donor < take_at[cell] and take_at[cell] > 0:
                source = donors[donor]
                donor += 1
                for column in range(codes.shape[0]):
                    codes[column, row] = codes[column, source]
            else:
                rest = cell
                if reverse:
                    for k in range(width - 1, -1, -1):
                        codes[axes[k], row] = rest // stride[k]
                        rest %= stride[k]
                else:
                    for k in range(width):
                        codes[axes[k], row] = rest // stride[k]
                        rest %= stride[k]
    return error
