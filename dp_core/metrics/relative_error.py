"""Errors on a scale that does not depend on the file: what is lost between sample and nothing."""

from __future__ import annotations

import math


def relative_error(error: float, *, floor: float, baseline: float) -> float:
    """Return where an error lies between the floor (0) and the baseline (1).

    Args:
        error: Of a method.
        floor: Of a bootstrap of the real file: what drawing as many records costs by itself.
        baseline: Of columns that are independent: what a method without any dependence reaches.

    Returns:
        0 as near as another sample of the same people, 1 no better than independence; above 1 it
        would be better not to look at dependence at all. NaN where the two do not differ.

    >>> relative_error(0.05, floor=0.01, baseline=0.09)
    0.5
    """
    if not baseline > floor:
        return math.nan
    return (error - floor) / (baseline - floor)


def cost_normalised_error(error: float, numbers: int) -> float:
    """Return an error times the noisy numbers that had to be kept for it.

    CIPHER, Section 3.1: the cost is the number of cells from which the synthetic file is made. The
    paper does not say how a metric is normalised by it; the product is what makes a method of half
    the cells and twice the error equal, as its figures suggest.

    Args:
        error: Of a method, such as an average TVD.
        numbers: Noisy cells and answers that the file was made from.
    """
    return error * numbers
