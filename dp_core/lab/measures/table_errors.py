"""Differences of two tables: relative entropy, the largest cell, and errors on relative scales."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike


def relative_entropy(real: ArrayLike, synthetic: ArrayLike, *, smoothing: float = 0.0) -> float:
    """Return D(real || synthetic) of two tables, each normalised to sum 1, in nats.

    It is infinite if a cell with mass in the real table has none in the synthetic one. Sampling
    alone produces such cells, so comparisons of records use `smoothing=1`.

    Args:
        real: Nonnegative counts, the distribution the expectation is over.
        synthetic: Nonnegative counts of the same shape.
        smoothing: Records added to the synthetic table, spread evenly over its cells; 0 by default.

    Returns:
        At least 0; 0 only for equal proportions. Infinite if the synthetic table has no mass.

    Raises:
        ValueError: if shapes differ, a count is negative, or the real table has no mass.

    >>> round(relative_entropy([1, 1], [1, 3]), 9)
    0.143841036
    """
    from scipy import stats

    p = np.asarray(real, dtype=np.float64)
    q = np.asarray(synthetic, dtype=np.float64)
    if p.shape != q.shape:
        raise ValueError(f"Tables of shapes {p.shape} and {q.shape} cannot be compared.")
    if smoothing < 0 or p.size == 0 or p.min() < 0 or q.min() < 0 or p.sum() <= 0:
        raise ValueError(
            "Relative entropy needs counts that are not negative, and not all 0 in the real table."
        )
    q = q + smoothing / q.size
    if q.sum() <= 0:
        return math.inf
    # Rounding must not give less than 0.
    return max(0.0, float(stats.entropy(p.ravel(), q.ravel())))


def relative_error(error: float, *, floor: float, baseline: float) -> float:
    """Return where an error lies between the floor (0) and the baseline (1).

    Args:
        error: Error of a method.
        floor: Error of a bootstrap of the real file, which is sampling error alone.
        baseline: Error of a method that treats all columns as independent.

    Returns:
        0 for an error as small as that of another sample, 1 for one as large as under independence,
        more for a larger one. NaN if the baseline does not exceed the floor.

    >>> relative_error(0.05, floor=0.01, baseline=0.09)
    0.5
    """
    if not baseline > floor:
        return math.nan
    return (error - floor) / (baseline - floor)


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
