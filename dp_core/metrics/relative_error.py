"""Errors on a scale that does not depend on the file."""

from __future__ import annotations

import math


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
