"""Distribution of records within chosen bins, from the noisy counts that chose them.

A group of positions is taken apart where the noise cannot make its parts as uneven as they are;
otherwise its records are spread evenly over it. The rule is that of Mallows' Cp: the squared error
of even parts is then expected to be larger than that of the noisy ones. Every step is of elementary
operations in a fixed order, as those of `quantile_tree`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

from dp_core.methods.private_domain.quantile_tree import group_edges, widths
from dp_core.schema.bin_pieces import Pieces

_CLEAR = 2.0
"""Parts differ from even ones by the noise and by what is there. Squared and summed, the noise is
expected to be its variance times their number less 1: twice as much says there is as much besides.
"""
_UNIT = 1000  # weights are thousandths of a record


def pieces_of(records: Sequence[float], cuts: Sequence[int], variance: float) -> Pieces:
    """Return the pieces of bins within which values are to be spread evenly, and their weights.

    Args:
        records: Estimated at each position, none negative; as of `quantile_tree.estimate`.
        cuts: Between bins, as of `quantile_tree.equal_cuts`.
        variance: Noise variance of the count of a group of any width.

    Returns:
        Of every bin at least one of weight; next to one another not two of none.
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
    """Yield the groups over which records are spread evenly, in order: from and up to a position.

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
