"""Distribution of records within chosen bins and over levels that are not kept.

It follows from the noisy counts that chose the bins or levels. A group of positions is split if its
parts are more uneven than the noise explains; otherwise its records are spread evenly over it. The
criterion is that of Mallows' Cp: a group is split if the expected squared error of equal parts
exceeds that of the noisy parts. Levels that are not kept are drawn again in the sets, with weights
from their counts. All computations are elementary operations in a fixed order, as in
`quantile_tree`, so that anyone can repeat them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise

from dp_core.methods.private_domain.quantile_tree import group_edges, widths
from dp_core.schema.bin_pieces import Pieces

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
