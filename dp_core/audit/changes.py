"""How far one charge's exact answers are apart on two files, against what was charged.

Each mechanism needs its own distance: the L1 norm (Laplace noise), the L2 norm (Gaussian noise),
the largest change of a score (a private choice), and the largest logarithm of a ratio of
probabilities (records that are drawn). A ratio of 1 means that the charge is exactly right for
these two files; above 1, it is too small. Norms are compared as whole numbers, without rounding.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.audit.frozen_noise import Cells, Conditionals, Exact, Noisy, Scores
from dp_core.kernel.extensions.cell_draws import PolyaUrnEvent
from dp_core.kernel.extensions.column_draws import PerturbedDrawsEvent
from dp_core.kernel.extensions.thresholds import StabilityEvent
from dp_core.kernel.mechanisms.additive_noise import GaussianEvent, LaplaceEvent
from dp_core.kernel.mechanisms.event import Event
from dp_core.kernel.mechanisms.private_choice import NoisyMaxEvent

TOLERANCE = 1e-9
"""Relative error allowed to logarithms and probabilities, which are floats."""
_WIDTHS = (100, 16)
"""Paths kept at each draw by the search through draws of several sweeps: of the first record, and
of each further one."""


class Mismatch(Exception):
    """Not the answers alone differ, or the noise is not the one that was charged."""


@dataclass(frozen=True, slots=True)
class Reached:
    """How much of what was charged two files use.

    Attributes:
        bound: What is compared: `L1`, `L2`, `largest score`, `log ratio`, or `delta`.
        ratio: Distance of the files over the charged bound.
        exceeded: Whether the distance is larger than the bound.
    """

    bound: str
    ratio: float
    exceeded: bool


def used_bounds(event: Event, shape: tuple[int, ...], one: Exact, other: Exact) -> list[Reached]:
    """Return how much of each bound of an event two files use.

    Args:
        event: What was charged.
        shape: Shape of the charged result.
        one: What the charge looks at in one file.
        other: The same in its neighbour.

    Raises:
        Mismatch: if something other than exact values differs, or the noise is not the event's.
    """
    match event, one, other:
        case LaplaceEvent(), Noisy(), Noisy():
            change = _change(event.scale, "laplace", one, other)
            return [_norm("L1", sum(change), event.l1_sensitivity)]
        case GaussianEvent(), Noisy(), Noisy():
            change = _change(event.scale, "gaussian", one, other)
            squared, charged = sum(each * each for each in change), event.l2_sensitivity_squared
            return [Reached("L2", math.sqrt(squared / charged), squared > charged)]
        case NoisyMaxEvent(), Scores(), Scores():
            if any(each.gumbel != event.gumbel for each in (one, other)):
                raise Mismatch("The noise of a choice is of another kind than was charged.")
            change = _distances(event.scale, one, other)
            return [_norm("largest score", max(change, default=0), event.sensitivity)]
        case StabilityEvent(), Cells(), Cells():
            return _l1_and_own_delta(event, one, other)
        case PerturbedDrawsEvent(), Cells(), Cells():
            _enough(event.draws, shape)
            return [_loss(_largest_draw(event, one, other) * shape[0], event)]
        case PolyaUrnEvent(), Cells(), Cells():
            _enough(event.records, shape)
            return [_loss(_largest_urn(event, shape[0], one, other), event)]
        case PerturbedDrawsEvent(), Conditionals(), Conditionals():
            return [_loss(_largest_record(event, shape[0], one, other), event)]
        case _:
            raise Mismatch(f"{type(event).__name__} paid for something else.")


def _norm(bound: str, distance: int, charged: int) -> Reached:
    return Reached(bound, distance / charged, distance > charged)


def _loss(loss: float, event: Event) -> Reached:
    epsilon = event.epsilon()
    assert epsilon is not None
    ratio = loss / float(epsilon)
    return Reached("log ratio", ratio, ratio > 1 + TOLERANCE)


def _change(scale: object, noise: str, one: Noisy, other: Noisy) -> list[int]:
    if {one.noise, other.noise} != {noise}:
        raise Mismatch("The noise is of another kind than was charged.")
    return _distances(scale, one, other)


def _distances(scale: object, one: Noisy | Scores, other: Noisy | Scores) -> list[int]:
    """Return the absolute differences of the values, exactly."""
    if {one.scale, other.scale} != {scale}:
        raise Mismatch("The noise has another scale than was charged.")
    if one.values.shape != other.values.shape:
        raise Mismatch("The number of values depends on the file.")
    values = zip(one.values.tolist(), other.values.tolist(), strict=True)
    return [abs(first - second) for first, second in values]


def _enough(paid: int, shape: tuple[int, ...]) -> None:
    if shape[0] > paid:
        raise Mismatch("More records are drawn than were charged.")


def _same_cells(one: Cells, other: Cells) -> set[tuple[int, ...]]:
    if (one.sizes, one.scale) != (other.sizes, other.scale):
        raise Mismatch("The domain of a table depends on the file.")
    return one.counts.keys() | other.counts.keys()


def _l1_and_own_delta(event: StabilityEvent, one: Cells, other: Cells) -> list[Reached]:
    """Return what the counts use of L1, and cells of one file alone of the event's own delta.

    A cell of c records is kept with probability e^(-(t - c)/b) / (1 + e^(-1/b)), with t the
    threshold and b the scale: the upper tail of the discrete Laplace distribution, c <= t.
    """
    cells = _same_cells(one, other)
    if {one.scale, other.scale} != {event.scale}:
        raise Mismatch("The noise has another scale than was charged.")
    change = sum(abs(one.counts.get(cell, 0) - other.counts.get(cell, 0)) for cell in cells)
    scale = float(event.scale)

    def chance(mine: Cells, theirs: Cells) -> float:
        hidden = 1.0
        for cell in mine.counts.keys() - theirs.counts.keys():
            distance = max(event.threshold - mine.counts[cell], 0)
            hidden *= 1 - math.exp(-distance / scale) / (1 + math.exp(-1 / scale))
        return 1 - hidden

    delta = max(chance(one, other), chance(other, one)) / float(event.own_delta())
    # 1 - (1 - s) is off by a unit of rounding of 1.
    error = TOLERANCE + 1e-15 / float(event.own_delta())
    return [
        _norm("L1", change, event.l1_sensitivity),
        Reached("delta", delta, delta > 1 + error),
    ]


def _largest_draw(event: PerturbedDrawsEvent, one: Cells, other: Cells) -> float:
    """Return the largest log ratio of the probabilities of one independent draw."""
    cells, virtual, number = _same_cells(one, other), float(event.scale), math.prod(one.sizes)
    totals = [sum(each.counts.values()) + number * virtual for each in (one, other)]
    common = math.log(totals[1] / totals[0])
    ratios = [
        math.log((one.counts.get(cell, 0) + virtual) / (other.counts.get(cell, 0) + virtual))
        for cell in cells
    ]
    if len(cells) < number:
        ratios.append(0.0)  # a cell without a record on either file
    return max(abs(ratio + common) for ratio in ratios)


def _largest_urn(event: PolyaUrnEvent, records: int, one: Cells, other: Cells) -> float:
    """Return the largest log ratio of the probabilities of a whole sample, over all samples.

    A sample with c_i records of cell i has log ratio sum_i f_i(c_i) - g, with f_i(c) the sum over
    j < c of log((n_i + a + j)/(n'_i + a + j)), and g the same of the totals. The largest sum for
    each number of records so far is found cell by cell.
    """
    cells, virtual, number = _same_cells(one, other), float(event.scale), math.prod(one.sizes)
    steps = np.arange(records)

    def rising(mine: float, theirs: float) -> NDArray[np.float64]:
        logs = np.log((mine + virtual + steps) / (theirs + virtual + steps))
        return np.concatenate([[0.0], np.cumsum(logs)])

    moved = [
        rising(one.counts.get(cell, 0), other.counts.get(cell, 0))
        for cell in cells
        if one.counts.get(cell, 0) != other.counts.get(cell, 0)
    ]
    totals = [sum(each.counts.values()) + (number - 1) * virtual for each in (one, other)]
    common = float(rising(totals[0], totals[1])[records])
    if len(moved) < number:
        moved.append(np.zeros(records + 1))  # cells that are alike change nothing
    found = []
    for sign in (1, -1):
        best = np.full(records + 1, -np.inf)
        best[0] = 0.0
        for gains in moved:
            best = np.array(
                [
                    (best[: count + 1][::-1] + sign * gains[: count + 1]).max()
                    for count in range(records + 1)
                ]
            )
        found.append(float(best[records]) - sign * common)
    return max(found)


def _largest_record(
    event: PerturbedDrawsEvent, records: int, one: Conditionals, other: Conditionals
) -> float:
    """Return the largest log ratio of the probabilities of all draws of all records.

    With one sweep it is exact, by the largest sum up to each state. With several it is the largest
    of the paths that a search finds, so no more than the true one.
    """
    if (one.others, one.sweeps) != (other.others, other.sweeps):
        raise Mismatch("What records are drawn given depends on the file.")
    virtual = float(event.scale)

    def probabilities(table: NDArray[np.int64]) -> NDArray[np.float64]:
        weights = table + virtual
        return np.asarray(np.log(weights / weights.sum(axis=0)))

    ratios = [
        probabilities(mine) - probabilities(theirs)
        for mine, theirs in zip(one.tables, other.tables, strict=True)
    ]
    largest = _exactly if one.sweeps == 1 else _by_search
    return max(
        largest([sign * ratio for ratio in ratios], one.others, one.sweeps, records)
        for sign in (1, -1)
    )


def _exactly(
    ratios: list[NDArray[np.float64]],
    others: tuple[tuple[int, ...], ...],
    sweeps: int,
    records: int,
) -> float:
    """Return the largest sum of log ratios over all paths of draws, each column drawn once."""
    assert sweeps == 1
    sizes = tuple(ratio.shape[0] for ratio in ratios)
    best = np.zeros(sizes)
    for _ in range(records):
        for column, ratio in enumerate(ratios):
            before = best.max(axis=column, keepdims=True)
            # Axes of the ratio in the order of the state, with 1 where it does not depend on one.
            order = sorted(range(ratio.ndim), key=lambda axis: (column, *others[column])[axis])
            shape = [
                size if axis == column or axis in others[column] else 1
                for axis, size in enumerate(sizes)
            ]
            best = np.broadcast_to(before, sizes) + ratio.transpose(order).reshape(shape)
    return float(best.max())


def _by_search(
    ratios: list[NDArray[np.float64]],
    others: tuple[tuple[int, ...], ...],
    sweeps: int,
    records: int,
) -> float:
    """Return the sum of log ratios along the best path that a search of limited width finds."""
    sizes = [ratio.shape[0] for ratio in ratios]
    # The first state is drawn uniformly, whatever the file is.
    paths: dict[tuple[int, ...], float] = dict.fromkeys(itertools.product(*map(range, sizes)), 0.0)
    for record in range(records):
        inside: dict[tuple[tuple[int, ...], frozenset[tuple[int, ...]]], float] = {
            (state, frozenset()): value for state, value in paths.items()
        }
        for _ in range(sweeps):
            for column, ratio in enumerate(ratios):
                further: dict[tuple[tuple[int, ...], frozenset[tuple[int, ...]]], float] = {}
                for (state, visited), value in inside.items():
                    given = tuple(state[each] for each in others[column])
                    place = (column, *given)
                    for code in range(sizes[column]):
                        gain = 0.0 if place in visited else float(ratio[(code, *given)])
                        new = (*state[:column], code, *state[column + 1 :])
                        key = (new, visited | {place})
                        further[key] = max(further.get(key, -math.inf), value + gain)
                kept = sorted(further.items(), key=lambda item: -item[1])[: _WIDTHS[record > 0]]
                inside = dict(kept)
        paths = {}
        for (state, _visited), value in inside.items():
            paths[state] = max(paths.get(state, -math.inf), value)
    return max(paths.values())
