"""The largest error of any cell, as in the l-infinity bounds of the literature."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def max_cell_error(first: ArrayLike, second: ArrayLike) -> float:
    """Return the largest difference of a cell's proportions in two tables.

    Each table is normalised to sum 1 first; a table whose sum is not positive counts as zeros.
    Hardt, Ligett and McSherry (2012), Definition 1.1, with proportions instead of counts.

    >>> max_cell_error([1, 1, 2], [2, 1, 1])
    0.25
    """
    a = np.asarray(first, dtype=np.float64)
    b = np.asarray(second, dtype=np.float64)
    if a.shape != b.shape:
        raise ValueError(f"Tables of shapes {a.shape} and {b.shape} cannot be compared.")
    if not a.size:
        return 0.0
    total_a, total_b = float(a.sum()), float(b.sum())
    a = a / total_a if total_a > 0 else np.zeros_like(a)
    b = b / total_b if total_b > 0 else np.zeros_like(b)
    return float(np.abs(a - b).max())
