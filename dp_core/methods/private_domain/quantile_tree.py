"""Equal-frequency bins from noisy counts of a column at several resolutions.

Positions of the column's public grid are counted in groups of 1, `BRANCHING`, `BRANCHING` squared
and so on: the levels of a tree (Hay, Rastogi, Miklau & Suciu 2010; that about 16 branches are best
is from Qardaji, Yang & Li 2013). This module computes everything that follows from the noisy
counts, and uses nothing else. All computations are elementary operations in a fixed order, so that
the same counts give the same edges on any machine.

The distribution of records within chosen bins, and over levels that are not kept, follows from the
noisy counts that chose the bins or levels. A group of positions is split if its parts are more
uneven than the noise explains; otherwise its records are spread evenly over it. The criterion is
that of Mallows' Cp: a group is split if the expected squared error of equal parts exceeds that of
the noisy parts. Levels that are not kept are drawn again in the sets, with weights from their
counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from dp_core.schema.bin_pieces import Pieces

BRANCHING = 16
EVEN = 1e-3
"""Part of the records assumed to be spread evenly over positions; it decides where counts are 0."""


def widths(positions: int, branching: int = BRANCHING) -> tuple[int, ...]:
    """Return the number of positions per group at each level, from the coarsest level to 1.

    Args:
        positions: Number of positions of the finest level.
        branching: Number of groups of a level in one group of the level above, 16 by default.

    >>> widths(4096), widths(81), widths(7)
    ((256, 16, 1), (16, 1), (1,))
    """
    found = [1]
    while positions > found[-1] * branching:
        found.append(found[-1] * branching)
    return tuple(reversed(found))


def group_edges(positions: int, width: int) -> tuple[int, ...]:
    """Return the first position of every group of a level, and the number of positions."""
    return (*range(0, positions, width), positions)


def estimate(
    levels: Sequence[Sequence[float]],
    *,
    branching: int = BRANCHING,
    total: float | None = None,
    bounded: bool = True,
) -> list[float]:
    """Return the estimated number of records at each position, nonnegative by default.

    The first step is the least-squares estimate that is consistent over all levels (Hay et al.
    2010, Section 4, for nodes with any number of children). Then, from the top down, the children
    of a group get the nearest nonnegative counts that sum to the group's.

    Args:
        levels: Noisy counts of the groups of each level of `widths`, all with the same variance.
        branching: Number of groups of a level in one group of the level above, 16 by default.
        total: Number of all records; by default the estimated one.
        bounded: Whether no count may be negative; otherwise only the first step is done.
    """
    nearest = _nonnegative if bounded else _shift_to_sum
    # From single positions up: the best estimate of a group from its own count and those below it.
    best: list[list[tuple[float, float]]] = [[(float(count), 1.0) for count in levels[-1]]]
    for counts in reversed(levels[:-1]):
        found = []
        for children, count in zip(_families(best[-1], branching), counts, strict=True):
            below, variance = _sum(children)
            found.append(
                ((count * variance + below) / (variance + 1.0), variance / (variance + 1.0))
            )
        best.append(found)
    best.reverse()
    own = [value for value, _ in best[0]]
    whole = math.fsum(own) if total is None else total
    totals = nearest(own, max(whole, 0.0) if bounded else whole)
    for level in best[1:]:
        finer: list[float] = []
        for children, parent in zip(_families(level, branching), totals, strict=True):
            below, variance = _sum(children)
            moved = [value + (parent - below) * part / variance for value, part in children]
            finer += nearest(moved, parent)
        totals = finer
    return totals


def equal_cuts(records: Sequence[float], bins: int) -> tuple[int, ...]:
    """Return the cuts that make the bins' numbers of records as equal as possible.

    The cuts minimise the sum of squares of the bins' records. So a value that many records share
    gets a bin of its own, and the other bins share the rest evenly.

    Args:
        records: Number of records at each position, nonnegative.
        bins: Number of bins, at most the number of positions.

    Returns:
        `bins` - 1 distinct cuts in ascending order, from 1 to the number of positions - 1; a cut c
        lies before position c.
    """
    positions = len(records)
    if not 1 <= bins <= positions:
        raise ValueError(f"{positions} positions are not cut into {bins} bins.")
    even = max(math.fsum(records) * EVEN, 1.0) / positions
    below = np.array([0.0, *accumulate(count + even for count in records)])
    least = below * below  # smallest sum for the first c positions in one bin
    came_from: list[NDArray[np.int64]] = []
    for made in range(2, bins + 1):
        least, before = _one_more(least, below, made)
        came_from.append(before)
    cuts = [positions]
    for before in reversed(came_from):
        cuts.append(int(before[cuts[-1]]))
    return tuple(reversed(cuts[1:]))


def _one_more(
    least: NDArray[np.float64], below: NDArray[np.float64], made: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the smallest sums with one more bin, for every end, and where that bin begins.

    The start of the last bin does not decrease with the end of the range. So ends are processed in
    the order of a bisection, all of one depth together, and each search is limited by the results
    of its neighbours.

    Args:
        least: Smallest sums with one bin fewer, by the end of the range.
        below: Number of records before each cut.
        made: Number of bins including the new one; an end has at least that many positions before
            it.
    """
    last = len(below) - 1
    found = np.full(last + 1, np.inf)
    begins = np.zeros(last + 1, dtype=np.int64)
    # Ranges of ends still to process, and the range in which their last bin may begin.
    ranges = np.array([[made, last, made - 1, last - 1]], dtype=np.int64)
    while ranges.size:
        end = (ranges[:, 0] + ranges[:, 1]) // 2
        low, high = ranges[:, 2], np.minimum(ranges[:, 3], end - 1)
        size = high - low + 1
        starts = np.cumsum(size) - size
        which = np.repeat(np.arange(len(end)), size)
        begin = np.arange(size.sum()) - starts[which] + low[which]
        step = below[end[which]] - below[begin]
        total = least[begin] + step * step
        smallest = np.minimum.reduceat(total, starts)
        hits = np.flatnonzero(total == smallest[which])
        first = begin[hits[np.searchsorted(hits, starts)]]
        found[end], begins[end] = smallest, first
        left = np.stack([ranges[:, 0], end - 1, low, first], axis=1)
        right = np.stack([end + 1, ranges[:, 1], first, ranges[:, 3]], axis=1)
        ranges = np.concatenate([left, right])
        ranges = ranges[ranges[:, 0] <= ranges[:, 1]]
    return found, begins


def _families(
    children: Sequence[tuple[float, float]], branching: int
) -> list[Sequence[tuple[float, float]]]:
    return [children[start : start + branching] for start in range(0, len(children), branching)]


def _sum(children: Sequence[tuple[float, float]]) -> tuple[float, float]:
    # `fsum` rounds exactly, so that neither the order nor the version of Python matters.
    return math.fsum(value for value, _ in children), math.fsum(part for _, part in children)


def _shift_to_sum(values: Sequence[float], total: float) -> list[float]:
    """Return the numbers nearest to `values` that sum to `total`."""
    shift = (math.fsum(values) - total) / len(values)
    return [value - shift for value in values]


def _nonnegative(values: Sequence[float], total: float) -> list[float]:
    """Return the nonnegative numbers nearest to `values` that sum to `total`."""
    if total <= 0.0:
        return [0.0] * len(values)
    ordered = sorted(values, reverse=True)
    shift = 0.0
    for number, value in enumerate(ordered, start=1):
        shift_if = (math.fsum(ordered[:number]) - total) / number
        if value <= shift_if:
            break
        shift = shift_if
    return [max(value - shift, 0.0) for value in values]


_CLEAR = 2.0
"""Least excess of the sum of squared differences over that of the noise alone for which levels are
told apart, in standard deviations of the latter. Otherwise the weights would follow the noise."""
_UNIT = 1000  # weights are thousandths of a record


def most_frequent(order: Iterable[int], group_of: Sequence[int], number: int) -> tuple[int, ...]:
    """Return the first levels of an order, ascending, without the last one of any group.

    Args:
        order: All levels, the most frequent first.
        group_of: Group of each level.
        number: Number of levels to return; at most that of all levels less that of the groups.

    >>> most_frequent([2, 0, 1, 3], [0, 0, 1, 1], 2)
    (0, 2)
    >>> most_frequent([2, 3, 0, 1], [0, 0, 1, 1], 2)
    (0, 2)
    """
    left: dict[int, int] = {}
    for group in group_of:
        left[group] = left.get(group, 0) + 1
    found: list[int] = []
    for level in order:
        if len(found) < number and left[group_of[level]] > 1:
            left[group_of[level]] -= 1
            found.append(level)
    return tuple(sorted(found))


def pieces_of_levels(
    counts: Sequence[int], group_of: Sequence[int], kept: Iterable[int], variance: float
) -> Pieces:
    """Return runs of levels that are equally likely within their group, and their weights.

    The counts of a group's levels that are not kept are shrunk towards their mean by a James-Stein
    factor, and those below 0 become 0. If noise may explain their differences, the levels are
    equally likely.

    Args:
        counts: Noisy count of each level.
        group_of: Group of each level.
        kept: Levels that are kept; their weight has no meaning.
        variance: Noise variance of a count, in records squared.

    Returns:
        First level and weight of each run. In every group, a level that is not kept has a positive
        weight.
    """
    own = {*kept}
    members: dict[int, list[int]] = {}
    for level, group in enumerate(group_of):
        if level not in own:
            members.setdefault(group, []).append(level)
    weight_of: dict[int, int] = {}
    for levels in members.values():
        mean = math.fsum(counts[level] for level in levels) / len(levels)
        apart = math.fsum((counts[level] - mean) ** 2 for level in levels)
        noise = (len(levels) - 1) * variance
        clear = apart > noise + _CLEAR * math.sqrt(2 * noise * variance)
        factor = 1 - noise / apart if clear else 0.0
        weights = [
            max(math.floor((mean + factor * (counts[level] - mean)) * _UNIT + 0.5), 0)
            for level in levels
        ]
        if not any(weights):
            weights = [1] * len(levels)
        weight_of.update(zip(levels, weights, strict=True))
    found: list[tuple[int, int]] = []
    each = -1
    for level in range(len(group_of)):
        weight = weight_of.get(level, max(each, 0))
        if weight == each:
            found[-1] = (found[-1][0], found[-1][1] + weight)
        else:
            found.append((level, weight))
        each = weight
    return tuple(found)


_SPLIT = 2.0
"""Splitting threshold. The expected sum of squares of the noise alone is its variance times the
number of parts minus 1; at twice that, signal and noise are expected to be equal.
"""


def pieces_of(records: Sequence[float], cuts: Sequence[int], variance: float) -> Pieces:
    """Return the pieces of bins within which values are spread evenly, and their weights.

    Args:
        records: Estimated records at each position, nonnegative, from `quantile_tree.estimate`.
        cuts: First positions of the bins after the first, from `quantile_tree.equal_cuts`.
        variance: Noise variance of the count of a group of any width, in records squared.

    Returns:
        First position and weight of each piece. Every bin has a piece of positive weight, and no
        two adjacent pieces of a bin have weight 0.
    """
    positions = len(records)
    below = [0.0, *accumulate(records)]
    found: list[tuple[int, int]] = []
    groups = list(_groups(below, variance))
    for low, high in pairwise((0, *cuts, positions)):
        inside = [
            (max(start, low), (below[end] - below[start]) / (end - start), min(end, high))
            for start, end in groups
            if start < high and end > low
        ]
        weights = [
            (start, math.floor(density * (end - start) * _UNIT + 0.5))
            for start, density, end in inside
        ]
        if not any(weight for _, weight in weights):
            weights = [(low, 1)]
        found += [
            piece
            for number, piece in enumerate(weights)
            if number == 0 or piece[1] or weights[number - 1][1]
        ]
    return tuple(found)


def _groups(below: Sequence[float], variance: float) -> Iterator[tuple[int, int]]:
    """Yield the first position and the end of each group with evenly spread records, in order.

    Args:
        below: Records before each cut.
        variance: Noise variance of a group's count.
    """
    positions = len(below) - 1
    levels = widths(positions)

    def taken_apart(start: int, end: int, depth: int) -> Iterator[tuple[int, int]]:
        if depth < len(levels):
            edges = [start + place for place in group_edges(end - start, levels[depth])]
            each = (below[end] - below[start]) / (end - start)
            uneven = math.fsum(
                (below[high] - below[low] - each * (high - low)) ** 2
                for low, high in pairwise(edges)
            )
            parts = len(edges) - 1
            if parts == 1 or uneven > _SPLIT * (parts - 1) * variance:
                for low, high in pairwise(edges):
                    yield from taken_apart(low, high, depth + 1)
                return
        yield start, end

    return taken_apart(0, positions, 0)
