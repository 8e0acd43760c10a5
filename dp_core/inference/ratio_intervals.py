"""Confidence sets for ratios and for differences of two ratios; every function takes arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def fieller(
    numerator: ArrayLike,
    denominator: ArrayLike,
    variance: ArrayLike,
    denominator_variance: ArrayLike,
    covariance: ArrayLike,
    quantile: ArrayLike,
) -> tuple[Floats, Floats]:
    """Return Fieller's confidence interval of a ratio (Fieller 1954, Section 3).

    It consists of the r for which numerator - r * denominator is within `quantile` standard
    deviations of 0. If the denominator is not significantly above 0, that set is unbounded, and the
    ratio is not determined.

    Args:
        numerator: Estimates, shape (...).
        denominator: Estimates, same shape.
        variance: Variance of the numerator, same shape.
        denominator_variance: Variance of the denominator, same shape.
        covariance: Covariance of the two, same shape.
        quantile: Half-width of the interval of a sum, in standard deviations, same shape.

    Returns:
        The two ends, shape (...); infinite where the set is unbounded.

    >>> low, high = fieller(50.0, 100.0, 4.0, 0.0, 0.0, 1.96)
    >>> round(float(low), 4), round(float(high), 4)
    (0.4608, 0.5392)
    >>> [float(end) for end in fieller(50.0, 1.0, 4.0, 4.0, 0.0, 1.96)]
    [-inf, inf]
    """
    n, d, vn, vd, c, q = np.broadcast_arrays(
        *[
            np.asarray(each, dtype=np.float64)
            for each in (
                numerator,
                denominator,
                variance,
                denominator_variance,
                covariance,
                quantile,
            )
        ]
    )
    # a r^2 - 2 b r + e <= 0
    a, b, e = d**2 - q**2 * vd, n * d - q**2 * c, n**2 - q**2 * vn
    bounded = (a > 0) & (d > 0)
    root = np.sqrt(np.maximum(b**2 - a * e, 0.0))
    low, high = np.full(n.shape, -np.inf), np.full(n.shape, np.inf)
    np.divide(b - root, a, out=low, where=bounded)
    np.divide(b + root, a, out=high, where=bounded)
    return low, high


def difference_of(
    estimates: tuple[Floats, Floats],
    lows: tuple[Floats, Floats],
    highs: tuple[Floats, Floats],
    correlation: ArrayLike,
) -> tuple[Floats, Floats]:
    """Return an interval of a difference, first minus second, from those of its two terms.

    The distances of the estimates from the ends of their own intervals take the place of standard
    errors, on the side that matters for each end (MOVER: Zou & Donner, Statistics in Medicine 27,
    2008, with the correlation of Zou, Psychological Methods 12, 2007). So the difference of two
    ratios inherits the asymmetry of Fieller's intervals, and is unbounded if one of them is.

    Args:
        estimates: The two estimates, shape (...).
        lows: Lower ends of their intervals, same shape.
        highs: Upper ends, same shape.
        correlation: Correlation of the estimates, same shape.

    >>> low, high = difference_of((np.array(5.0), np.array(2.0)), (np.array(2.0), np.array(-2.0)),
    ...                           (np.array(8.0), np.array(6.0)), 0.0)
    >>> float(low), float(high)
    (-2.0, 8.0)
    """
    (one, two), r = estimates, np.clip(correlation, -1.0, 1.0)
    below = _joint(one - lows[0], highs[1] - two, r)
    above = _joint(highs[0] - one, two - lows[1], r)
    return one - two - below, one - two + above


def _joint(one: Floats, two: Floats, correlation: ArrayLike) -> Floats:
    """Return the length of the difference of two errors; infinite if one of them is."""
    known = np.isfinite(one) & np.isfinite(two)
    one, two = np.where(known, one, 0.0), np.where(known, two, 0.0)
    square = one**2 + two**2 - 2 * np.asarray(correlation) * one * two
    return np.where(known, np.sqrt(np.maximum(square, 0.0)), np.inf)
