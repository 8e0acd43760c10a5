"""Levels that are kept, and the weights of the others, from one vector of noisy counts.

The noisy counts choose the levels and say how records are spread over the others, which are drawn
again in the sets. All computations are elementary operations in a fixed order, as in
`quantile_tree`, so that anyone can repeat them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

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
