"""Pieces of bins and of groups of levels: how values are distributed within them.

A piece is a range of values within which values are uniform; a bin consists of one or more pieces.
The noisy counts that choose private bins also show how many records each part of a bin has. Within
public bins, the pieces follow a density that is fitted to the noisy counts of neighbouring bins
(`dp_core.methods.bin_density`). For levels, a piece is a run of levels that are equally likely
within their group. All of this is post-processing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

WHOLE = 1_000_000
"""Sum of the weights of a public bin's pieces."""

Pieces: TypeAlias = tuple[tuple[int, int], ...]
"""First position and weight of each piece, in order; the first piece begins at 0. A weight is in
thousandths of a record, and the pieces of a bin do not all have weight 0."""


@dataclass(frozen=True, slots=True)
class BinPieces:
    """Distribution of values within the bins of a column.

    Attributes:
        edges: Edges of the pieces, ascending; every edge of the column's bins is one of them. Dates
            are day ordinals.
        weights: Weight of each piece, relative to the other pieces of its bin.
    """

    edges: tuple[Fraction, ...]
    weights: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.edges) != len(self.weights) + 1 or min(self.weights, default=-1) < 0:
            raise ValueError("Each piece has two edges and a weight of at least 0.")
        if not all(low < high for low, high in pairwise(self.edges)):
            raise ValueError("The edges of pieces must ascend.")

    def places(self, edges: Sequence[Fraction]) -> tuple[int, ...]:
        """Return the index of the first piece of each bin, and last the number of pieces.

        Args:
            edges: Edges of the column's bins.

        Raises:
            ValueError: if a bin begins or ends within a piece, or has no weight.
        """
        index = {edge: place for place, edge in enumerate(self.edges)}
        if edges[0] != self.edges[0] or edges[-1] != self.edges[-1] or not {*edges} <= {*index}:
            raise ValueError("Every edge of a bin must be an edge of a piece.")
        found = tuple(index[edge] for edge in edges)
        if not all(any(self.weights[low:high]) for low, high in pairwise(found)):
            raise ValueError("A bin's pieces must not all have weight 0.")
        return found


def weights_of(edges: Sequence[int], pieces: Pieces) -> NDArray[np.float64]:
    """Return the weight of each range between edges; the weight of a piece is divided by width.

    Args:
        edges: Positions from 0 to the end of the last piece, with the start of every piece.
        pieces: Pieces of the column.
    """
    starts = np.array([start for start, _ in pieces])
    weights = np.array([weight for _, weight in pieces], dtype=np.float64)
    ends = np.append(starts[1:], edges[-1])
    of = np.searchsorted(starts, np.asarray(edges[:-1]), side="right") - 1
    return np.asarray(weights[of] * np.diff(edges) / (ends - starts)[of])


def spread(
    bins: NDArray[Any], edges: Sequence[int], pieces: Pieces, *, rng: np.random.Generator
) -> tuple[NDArray[np.intp], tuple[int, ...]]:
    """Return a piece for each row, drawn by the weights of the pieces in its bin.

    Args:
        bins: Bin of each row, shape (rows,).
        edges: Edges of the bins as positions, from 0 to the end of the last piece. They may differ
            from the bins that were chosen.
        pieces: Pieces of the column.
        rng: Generator for post-processing.

    Returns:
        The piece of each row, shape (rows,), and the edges of the pieces, which include those of
        the bins.
    """
    finer = tuple(sorted({*edges, *(start for start, _ in pieces)}))
    place = np.searchsorted(finer, edges)
    weights = weights_of(finer, pieces)
    for first, last in pairwise(place.tolist()):
        if not weights[first:last].any():
            weights[first:last] = np.diff(finer[first : last + 1])
    return drawn_places(bins, place, weights, rng=rng), finer


def drawn_places(
    bins: NDArray[Any],
    first: NDArray[Any],
    weights: NDArray[np.float64],
    *,
    rng: np.random.Generator,
) -> NDArray[np.intp]:
    """Return a place for each row, drawn by the weights of the places in its bin.

    Args:
        bins: Bin of each row, shape (rows,).
        first: First place of each bin, and last the number of places; no bin that a row is in has
            weight 0.
        weights: Weight of each place.
        rng: Generator for post-processing.
    """
    below = np.concatenate([[0.0], np.cumsum(weights)])
    low, high = below[first[:-1]][bins], below[first[1:]][bins]
    at = np.searchsorted(below, low + rng.random(bins.size) * (high - low), side="right") - 1
    # A rounded sum may lead to the first place of the next bin.
    return np.asarray(np.clip(at, first[:-1][bins], first[1:][bins] - 1))
