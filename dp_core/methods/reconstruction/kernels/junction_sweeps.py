"""Proportional fitting on a junction tree, compiled once for every structure.

A cell of 0 is impossible and stays 0. Every other cell has at least `LEAST`, even if contradictory
targets scale it down repeatedly. So there is no division by 0, and a cell that one target made
small can grow again for another.
"""

from __future__ import annotations

import numba
import numpy as np

LEAST = 1e-140
"""Smallest value of a possible cell, in records; quotients of such values do not overflow."""

_NOTHING = 1e-9  # records
_LARGEST = 60.0  # largest size of a log potential; e^-60 of all records is negligible


@numba.njit(nogil=True, cache=True)
def collect(cells, first, separators, first_separator, own, other, first_other, parents):  # type: ignore[no-untyped-def]
    """Send messages from the leaves to the root, which is the first clique, in place.

    Afterwards the root's table is the margin of the product of all cliques, up to a factor.
    """
    for clique in range(parents.size - 1, 0, -1):
        begin, end = first_separator[clique], first_separator[clique + 1]
        for place in range(begin, end):
            separators[place] = 0.0
        for cell in range(first[clique], first[clique + 1]):
            separators[begin + own[cell]] += cells[cell]
        parent = parents[clique]
        low, high = first[parent], first[parent + 1]
        largest = 0.0
        for place in range(first_other[clique], first_other[clique + 1]):
            cell = low + place - first_other[clique]
            cells[cell] *= separators[begin + other[place]]
            largest = max(largest, cells[cell])
        # Without scaling, a clique with many descendants would overflow.
        if largest > 0:
            for cell in range(low, high):
                cells[cell] = scaled(cells[cell], 1.0 / largest)


@numba.njit(nogil=True, cache=True)
def distribute(cells, first, separators, first_separator, own, other, first_other, parents):  # type: ignore[no-untyped-def]
    """Send messages from the root to the leaves, in place; afterwards all tables agree."""
    ratio = np.empty(separators.size)
    for clique in range(1, parents.size):
        _down(cells, first, separators, first_separator, own, other, first_other, parents, clique, ratio)  # noqa: E501  # fmt: skip


@numba.njit(nogil=True, cache=True)
def fit(  # type: ignore[no-untyped-def]
    cells,
    first,
    separators,
    first_separator,
    own,
    other,
    first_other,
    parents,
    walk,
    targets_of,
    place_of,
    first_place,
    first_target,
    wanted,
    penalty,
    like,
    potential,
    total,
    sweeps,
    tolerance,
):
    """Fit collected tables to their targets, in place; return the number of sweeps.

    Each sweep traverses the tree down and up. The table of the current clique is a margin of the
    model, and its targets are fitted one by one. `like` is, for each cell of a target, the first
    cell of that target with the same count and penalty.
    """
    ratio = np.empty(separators.size)
    largest = 0
    for target in range(first_target.size - 1):
        largest = max(largest, first_target[target + 1] - first_target[target])
    held = np.empty((3, largest))
    done = 0
    for _ in range(sweeps):
        done += 1
        mass = 0.0
        for cell in range(first[0], first[1]):
            mass += cells[cell]
        if mass <= 0:
            break
        for cell in range(first[0], first[1]):
            cells[cell] = scaled(cells[cell], total / mass)
        moved = _meet(cells, first, 0, targets_of, place_of, first_place, first_target, wanted, penalty, like, potential, held)  # noqa: E501  # fmt: skip
        for step in walk:
            if step > 0:
                _down(cells, first, separators, first_separator, own, other, first_other, parents, step, ratio)  # noqa: E501  # fmt: skip
                moved += _meet(cells, first, step, targets_of, place_of, first_place, first_target, wanted, penalty, like, potential, held)  # noqa: E501  # fmt: skip
            else:
                _up(cells, first, separators, first_separator, own, other, first_other, parents, -step, ratio)  # noqa: E501  # fmt: skip
        if moved <= tolerance:
            break
    return done


@numba.njit(nogil=True, cache=True)
def _down(cells, first, separators, first_separator, own, other, first_other, parents, clique, ratio):  # type: ignore[no-untyped-def]  # noqa: E501  # fmt: skip
    begin, end = first_separator[clique], first_separator[clique + 1]
    for place in range(begin, end):
        ratio[place] = 0.0
    parent = first[parents[clique]]
    for place in range(first_other[clique], first_other[clique + 1]):
        ratio[begin + other[place]] += cells[parent + place - first_other[clique]]
    for place in range(begin, end):
        sent = ratio[place]
        ratio[place] = sent / separators[place] if separators[place] > 0 else 0.0
        separators[place] = sent
    for cell in range(first[clique], first[clique + 1]):
        cells[cell] = scaled(cells[cell], ratio[begin + own[cell]])


@numba.njit(nogil=True, cache=True)
def _up(cells, first, separators, first_separator, own, other, first_other, parents, clique, ratio):  # type: ignore[no-untyped-def]  # fmt: skip
    begin, end = first_separator[clique], first_separator[clique + 1]
    for place in range(begin, end):
        ratio[place] = 0.0
    for cell in range(first[clique], first[clique + 1]):
        ratio[begin + own[cell]] += cells[cell]
    for place in range(begin, end):
        sent = ratio[place]
        ratio[place] = sent / separators[place] if separators[place] > 0 else 0.0
        separators[place] = sent
    parent = first[parents[clique]]
    for place in range(first_other[clique], first_other[clique + 1]):
        cell = parent + place - first_other[clique]
        cells[cell] = scaled(cells[cell], ratio[begin + other[place]])


@numba.njit(nogil=True, cache=True)
def _meet(cells, first, clique, targets_of, place_of, first_place, first_target, wanted, penalty, like, potential, held):  # type: ignore[no-untyped-def]  # noqa: E501  # fmt: skip
    """Fit the targets of one clique in turn; return the number of records that changed cells."""
    moved = 0.0
    low = first[clique]
    size = first[clique + 1] - low
    for target in range(targets_of[clique], targets_of[clique + 1]):
        begin, end = first_target[target], first_target[target + 1]
        place = first_place[target]
        masses, starts, factors = held[0], held[1], held[2]
        for cell in range(end - begin):
            masses[cell] = 0.0
        for cell in range(size):
            masses[place_of[place + cell]] += cells[low + cell]
        for cell in range(end - begin):
            mass, before = masses[cell], potential[begin + cell]
            starts[cell], factors[cell] = before, mass
            if mass <= 0:
                continue
            # Of many levels most have the same noisy count, and so the same solution.
            first_like = like[begin + cell]
            if first_like < cell and masses[first_like] == mass and starts[first_like] == before:
                after = potential[begin + first_like]
                factors[cell] = factors[first_like]
            else:
                after = solve(mass, before, wanted[begin + cell], penalty[begin + cell])
                factors[cell] = np.exp(after - before)
            potential[begin + cell] = after
            moved += abs(mass * (factors[cell] - 1.0))
        for cell in range(size):
            cells[low + cell] = scaled(cells[low + cell], factors[place_of[place + cell]])
    return moved


@numba.njit(nogil=True, cache=True)
def scaled(cell, factor):  # type: ignore[no-untyped-def]
    """Return a cell times a factor: 0 if either is 0, otherwise at least `LEAST`."""
    if cell > 0 and factor > 0:
        return max(cell * factor, LEAST)
    return 0.0


@numba.njit(nogil=True, cache=True)
def solve(mass, potential, wanted, penalty):  # type: ignore[no-untyped-def]
    """Return the log potential x at which `mass * e^(x - potential) + penalty * x = wanted`.

    The left side increases with x, so there is one solution. If it lies outside the allowed range
    of log potentials, the nearest end of the range is returned. Newton's method starts on the side
    where it is monotone; from the other side its first step would overflow for a very small mass.

    Args:
        mass: Mass of the cell at `potential`, above 0.
        potential: Current log potential.
        wanted: Noisy count, may be negative.
        penalty: Penalty of the cell, above 0.
    """
    level = np.log(mass) - potential
    if wanted > _NOTHING:
        x = np.log(wanted) - level
        if x < 0:
            # log(mass) + x - log(wanted - penalty x) = 0, which is nearly linear in x.
            for _ in range(30):
                rest = wanted - penalty * x
                step = (level + x - np.log(rest)) / (1.0 + penalty / rest)
                x = min(x - step, 0.5 * x)
                if abs(step) < 1e-10:
                    break
            return max(x, -_LARGEST)
    else:
        x = max(wanted / penalty, -_LARGEST)
    if x >= _LARGEST:
        x = _LARGEST
        if np.exp(level + x) + penalty * x <= wanted:
            return x
    for _ in range(80):
        grown = np.exp(level + x)
        step = (grown + penalty * x - wanted) / (grown + penalty)
        x = max(x - step, -_LARGEST)
        if abs(step) < 1e-10 or x == -_LARGEST:
            break
    return x
