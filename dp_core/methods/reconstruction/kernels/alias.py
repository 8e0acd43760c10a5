"""Independent draws from a table, at a few nanoseconds each (Walker 1977; Vose 1991)."""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.codes import Codes

_PIECE = 1 << 18  # number of draws at a time, so that their random words stay in cache


@dataclass(frozen=True, slots=True, eq=False)
class AliasTable:
    """An alias table for drawing from a distribution over cells 0..size-1.

    Attributes:
        keep: Probability that a visited cell is kept, times 2^32, shape (size,).
        alias: Cell that is taken otherwise, shape (size,).
    """

    keep: NDArray[np.uint64]
    alias: NDArray[np.int64]

    @classmethod
    def build(cls, values: NDArray[np.float64]) -> AliasTable:
        """Return the table for weights of any shape, cells in C order; uniform if all are 0."""
        weights = np.ascontiguousarray(values, dtype=np.float64).ravel()
        total = weights.sum()
        if not total > 0:
            weights, total = np.ones_like(weights), float(weights.size)
        return cls(*_build(weights * (weights.size / total)))

    def draw(self, out: Codes | NDArray[np.int64], *, rng: np.random.Generator) -> None:
        """Fill `out`, shape (rows,), with independent draws."""
        for start in range(0, out.size, _PIECE):
            piece = out[start : start + _PIECE]
            _draw(
                rng.integers(0, 1 << 64, size=piece.size, dtype=np.uint64),
                self.keep,
                self.alias,
                piece,
            )


@numba.njit(nogil=True, cache=True)
def _build(scaled):  # type: ignore[no-untyped-def]
    size = scaled.size
    keep = np.full(size, 1 << 32, dtype=np.uint64)
    alias = np.arange(size)
    small = np.empty(size, dtype=np.int64)
    large = np.empty(size, dtype=np.int64)
    n_small = n_large = 0
    biggest = 0
    for cell in range(size):
        if scaled[cell] > scaled[biggest]:
            biggest = cell
        if scaled[cell] < 1.0:
            small[n_small] = cell
            n_small += 1
        else:
            large[n_large] = cell
            n_large += 1
    while n_small > 0 and n_large > 0:
        n_small -= 1
        low = small[n_small]
        high = large[n_large - 1]
        keep[low] = np.uint64(scaled[low] * 4294967296.0)
        alias[low] = high
        scaled[high] -= 1.0 - scaled[low]
        if scaled[high] < 1.0:
            n_large -= 1
            small[n_small] = high
            n_small += 1
    # Rounding can leave a cell without a partner; a cell of weight 0 must not be kept then.
    while n_small > 0:
        n_small -= 1
        low = small[n_small]
        if scaled[low] < 0.5:
            keep[low] = 0
            alias[low] = biggest
    return keep, alias


@numba.njit(nogil=True, cache=True)
def _draw(words, keep, alias, out):  # type: ignore[no-untyped-def]
    size = np.uint64(keep.size)
    for row in range(words.size):
        # The high half chooses the cell, the low half decides whether it is kept.
        cell = ((words[row] >> np.uint64(32)) * size) >> np.uint64(32)
        low = words[row] & np.uint64(0xFFFFFFFF)
        out[row] = cell if low < keep[cell] else alias[cell]
