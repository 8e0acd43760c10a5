"""Common estimators of one set, each with its variance, ready to be combined."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

Estimate = tuple[float, float]
"""An estimate and its estimated variance."""


def mean(values: ArrayLike) -> Estimate:
    """Return the mean of at least two values, and s^2/n."""
    x = _sample(values, 2)
    return float(x.mean()), float(x.var(ddof=1) / x.size)


def proportion(hits: ArrayLike) -> Estimate:
    """Return the share of values that are true, and p (1 - p)/n."""
    p = float(_sample(hits, 1).mean())
    return p, p * (1 - p) / np.size(hits)


def variance(values: ArrayLike) -> Estimate:
    """Return the sample variance s^2 and its variance, with the sample's own kurtosis.

    The kurtosis is the excess kurtosis (0 for normal values), estimated by moments.
    """
    x = _sample(values, 2)
    away = x - x.mean()
    second = float(np.mean(away**2))
    kurtosis = float(np.mean(away**4)) / second**2 - 3 if second > 0 else 0.0
    found = float(x.var(ddof=1))
    # With few values, estimated moments can give a negative variance.
    return found, max(variance_of_variance(found, x.size, kurtosis), 0.0)


def correlation(first: ArrayLike, second: ArrayLike) -> Estimate:
    """Return Pearson's r and (1 - r^2)^2/(n - 2)."""
    x, y = _sample(first, 3), _sample(second, 3)
    if x.size != y.size:
        raise ValueError(f"{x.size} values and {y.size} values do not form pairs.")
    if not (x.std() > 0 and y.std() > 0):
        raise ValueError("A column with a single value has no correlation.")
    r = float(np.clip(np.corrcoef(x, y)[0, 1], -1, 1))
    return r, variance_of_correlation(r, x.size)


def variance_of_variance(s2: float, n: int, kurtosis: float = 0.0) -> float:
    """Return Var(s^2) = s^4 (2/(n - 1) + kurtosis/n); exact for the true moments.

    Args:
        s2: The variance.
        n: Number of values, at least 2.
        kurtosis: Fourth standardised moment minus 3.

    >>> variance_of_variance(2.0, 11)
    0.8
    """
    return s2**2 * (2 / (n - 1) + kurtosis / n)


def variance_of_correlation(r: float, n: int) -> float:
    """Return Var(r) = (1 - r^2)^2/(n - 2), for normal values.

    Bowen and Liu (2020) print 1 - r^2 without the square, which is correct only for r = 0.

    >>> variance_of_correlation(0.5, 102)
    0.005625
    """
    return (1 - r**2) ** 2 / (n - 2)


def _sample(values: ArrayLike, least: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 1 or x.size < least:
        raise ValueError(f"A sample must be one list of at least {least} values.")
    if not np.isfinite(x).all():
        raise ValueError("A value is missing or not finite; remove these rows first.")
    return x
