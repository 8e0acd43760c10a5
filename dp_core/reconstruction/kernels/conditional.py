"""Draws of some columns given others: one alias table for each combination of the given codes."""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

from dp_core.reconstruction.kernels.alias import _build

_PIECE = 1 << 18  # draws at a time: their random words stay in cache


@dataclass(frozen=True, slots=True, eq=False)
class ConditionalTable:
    """Distributions over cells 0..size-1, one for each given state.

    Attributes:
        keep: Shape (states, size), out of 2^32: how often a visit keeps its cell.
        alias: Shape (states, size): the cell taken otherwise.
    """

    keep: NDArray[np.uint64]
    alias: NDArray[np.int64]

    @classmethod
    def build(cls, weights: NDArray[np.float64]) -> ConditionalTable:
        """Return the table for nonnegative weights, shape (states, size); each row has some."""
        scaled = weights * (weights.shape[1] / weights.sum(axis=1, keepdims=True))
        return cls(*_build_rows(np.ascontiguousarray(scaled)))

    def draw(
        self, states: NDArray[np.int64], out: NDArray[np.int64], *, rng: np.random.Generator
    ) -> None:
        """Fill `out`, shape (rows,), with a draw for the state of each row."""
        for start in range(0, out.size, _PIECE):
            piece = slice(start, start + _PIECE)
            words = rng.integers(0, 1 << 64, size=out[piece].size, dtype=np.uint64)
            _draw_rows(words, states[piece], self.keep, self.alias, out[piece])


@numba.njit(nogil=True, cache=True)
def _build_rows(scaled):  # type: ignore[no-untyped-def]
    keep = np.empty(scaled.shape, dtype=np.uint64)
    alias = np.empty(scaled.shape, dtype=np.int64)
    for state in range(scaled.shape[0]):
        keep[state], alias[state] = _build(scaled[state])
    return keep, alias


@numba.njit(nogil=True, cache=True)
def _draw_rows(words, states, keep, alias, out):  # type: ignore[no-untyped-def]
    size = np.uint64(keep.shape[1])
    for row in range(words.size):
        # High half picks the cell, low half decides whether it keeps the visit.
        cell = ((words[row] >> np.uint64(32)) * size) >> np.uint64(32)
        low = words[row] & np.uint64(0xFFFFFFFF)
        state = states[row]
        out[row] = cell if low < keep[state, cell] else alias[state, cell]
