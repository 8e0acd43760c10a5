"""Relative entropy (Kullback-Leibler divergence) from the real table to the synthetic one."""

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
    p = np.asarray(real, dtype=np.float64)
    q = np.asarray(synthetic, dtype=np.float64)
    if p.shape != q.shape:
        raise ValueError(f"Tables of shapes {p.shape} and {q.shape} cannot be compared.")
    if smoothing < 0 or p.size == 0 or p.min() < 0 or q.min() < 0 or p.sum() <= 0:
        raise ValueError(
            "Relative entropy needs counts that are not negative, and not all 0 in the real table."
        )
    held = p > 0
    p_held = p[held] / p.sum()
    whole = float(q.sum()) + smoothing
    q_held = q[held] + smoothing / q.size
    if whole <= 0 or not q_held.all():
        return math.inf
    # Equal tables must give 0 exactly, and rounding must not give less.
    return max(0.0, float(np.dot(p_held, np.log(p_held * whole / q_held))))
