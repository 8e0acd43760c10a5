"""How values are spread within bins that were chosen privately: piece by piece, not evenly.

The noisy counts by which bins are chosen say more than where a bin ends: how many records they
found in its parts. Pieces are ranges of positions of the column's public grid, within which values
are spread evenly; a bin is made of one or more of them. All of this is post-processing.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Pieces: TypeAlias = tuple[tuple[int, int], ...]
"""First position, and weight, of each piece, in order; the first begins at 0. Weights are
thousandths of a record, and those of a bin's pieces are not all 0."""


def weights_of(edges: Sequence[int], pieces: Pieces) -> NDArray[np.float64]:
    """Return the weight of each range between edges; a piece's is shared by width.

    Args:
        edges: From 0 to the end of the last piece; every piece begins at one of them.
        pieces: Of the column.
    """
    starts = np.array([start for start, _ in pieces])
    weights = np.array([weight for _, weight in pieces], dtype=np.float64)
    ends = np.append(starts[1:], edges[-1])
    of = np.searchsorted(starts, np.asarray(edges[:-1]), side="right") - 1
    return np.asarray(weights[of] * np.diff(edges) / (ends - starts)[of])


def spread(
    bins: NDArray[Any], edges: Sequence[int], pieces: Pieces, *, rng: np.random.Generator
) -> tuple[NDArray[np.intp], tuple[int, ...]]:
    """Return a piece for each bin, drawn by the weights of its pieces.

    Args:
        bins: Codes, shape (rows,).
        edges: Of the bins, as positions, from 0 to the end of the last piece; not necessarily those
            that were chosen.
        pieces: Of the column.
        rng: Generator of post-processing.

    Returns:
        Shape (rows,), and the edges of the pieces: those of the bins are among them.
    """
    finer = tuple(sorted({*edges, *(start for start, _ in pieces)}))
    place = np.searchsorted(finer, edges)
    weights = weights_of(finer, pieces)
    for first, last in pairwise(place.tolist()):
        if not weights[first:last].any():
            weights[first:last] = np.diff(finer[first : last + 1])
    below = np.concatenate([[0.0], np.cumsum(weights)])
    low, high = below[place[:-1]][bins], below[place[1:]][bins]
    at = np.searchsorted(below, low + rng.random(bins.size) * (high - low), side="right") - 1
    # Where a sum was rounded up to the next bin's first piece.
    return np.clip(at, place[:-1][bins], place[1:][bins] - 1), finer
