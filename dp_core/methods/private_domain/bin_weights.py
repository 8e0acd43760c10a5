"""Distribution of records within chosen bins, from the noisy counts that chose them.

A group of positions is split if its parts are more uneven than the noise explains; otherwise its
records are spread evenly over it. The criterion is that of Mallows' Cp: a group is split if the
expected squared error of equal parts exceeds that of the noisy parts. All computations are
elementary operations in a fixed order, as in `quantile_tree`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

from dp_core.methods.private_domain.quantile_tree import group_edges, widths
from dp_core.schema.bin_pieces import Pieces

_CLEAR = 2.0
"""Splitting threshold. The expected sum of squares of the noise alone is its variance times the
number of parts minus 1; at twice that, signal and noise are expected to be equal.
"""
_UNIT = 1000  # weights are thousandths of a record


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
            if parts == 1 or uneven > _CLEAR * (parts - 1) * variance:
                for low, high in pairwise(edges):
                    yield from taken_apart(low, high, depth + 1)
                return
        yield start, end

    return taken_apart(0, positions, 0)
