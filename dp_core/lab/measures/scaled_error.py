"""Errors of tables on scales of the literature: largest cell, relative, normalised by cost."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike


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


def cost_normalised_error(error: float, numbers: int) -> float:
    """Return an error times the number of noisy values that the method used.

    CIPHER, Section 3.1: the cost is the number of cells from which the synthetic file is made. The
    paper does not say how a metric is normalised by it; the product is what makes a method of half
    the cells and twice the error equal, as its figures suggest.

    Args:
        error: Error of a method, such as an average TVD.
        numbers: Number of noisy cells and answers that the file was made from.
    """
    return error * numbers


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
