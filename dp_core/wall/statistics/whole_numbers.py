"""Whole-number arithmetic that no file can make overflow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST = 2**62
"""Largest absolute value of an entry; it leaves room for noise in 64 bits."""

MOST_CODES = 2**16
"""Largest number of codes of a column, because codes have 16 bits."""


def saturated(values: Iterable[int]) -> NDArray[np.int64]:
    """Return whole numbers of any size as 64-bit ones, cut to [-MOST, MOST]."""
    # privacy: a cut never increases a difference; an overflow or an error would reveal the data.
    return np.array([min(max(int(value), -MOST), MOST) for value in values], dtype=np.int64)


def cut(values: NDArray[Any]) -> NDArray[np.int64]:
    """Return an array of whole numbers as 64-bit ones, cut to [-MOST, MOST]."""
    # privacy: a cut never increases the difference of two values.
    return np.asarray(np.clip(values, -MOST, MOST), dtype=np.int64)


def cell_numbers(codes: NDArray[Any], sizes: Sequence[int]) -> NDArray[np.int64]:
    """Return the row-by-row number of each cell, shape (cells,), from its codes in each column."""
    found = np.zeros(len(codes), dtype=np.int64)
    for axis, size in enumerate(sizes):
        found = found * size + codes[:, axis]
    return found
