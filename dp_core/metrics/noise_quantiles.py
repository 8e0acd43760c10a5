"""Quantiles of sums of noise between one Laplace draw and a normal distribution.

A sum of independent Laplace and normal variables is symmetric. Its variance v and its fourth
cumulant c are sums over the draws; c is 3 v^2 of a Laplace draw and 0 of a normal one. The quantile
is taken from the sum of k equal Laplace draws with the same variance and fourth cumulant,

    k = 3 v^2 / c,    characteristic function (1 + t^2 v / (2 k))^(-k).

Equal draws, one draw (k = 1) and normal noise (k infinite) are exact. The 95 % interval of another
mixture is up to 1.5 % too wide, and at most 0.1 % too narrow
(`tests/dp_core/metrics/test_noise_quantiles.py`). Its half-width is between 1.960 and 2.118
standard deviations.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

_GRID = np.linspace(0.0, 1.0, 17)
"""Values of 1/k at which quantiles are computed; between them they are interpolated."""
_STEP, _STEPS = 0.04, 5000


def effective_draws(variance: ArrayLike, fourth: ArrayLike) -> Any:
    """Return k, the number of equal Laplace draws with this variance and fourth cumulant.

    Args:
        variance: Variance of the sum, shape (...).
        fourth: Fourth cumulant of the sum, same shape; 0 for normal noise.

    Returns:
        At least 1, infinite where the fourth cumulant is 0, shape (...).

    >>> float(effective_draws(2.0, 12.0)), float(effective_draws(2.0, 0.0))
    (1.0, inf)
    """
    variance, fourth = np.broadcast_arrays(np.asarray(variance, float), np.asarray(fourth, float))
    found = np.full(variance.shape, math.inf)
    np.divide(3 * variance**2, fourth, out=found, where=fourth > 1e-12 * variance**2)
    return np.maximum(found, 1.0)


def central_quantile(level: float, draws: ArrayLike = math.inf) -> Any:
    """Return the t with P(|X| <= t) = level, X of variance 1 being a sum of equal Laplace draws.

    Args:
        level: Probability, above 0 and below 1.
        draws: Number of draws, at least 1, not necessarily whole, shape (...); infinite for the
            normal distribution.

    Returns:
        Half-widths in standard deviations, shape (...).

    >>> [round(float(central_quantile(0.95, k)), 2) for k in (1, 2, 10, math.inf)]
    [2.12, 2.06, 1.98, 1.96]
    """
    if not 0 < level < 1:
        raise ValueError(f"A level is between 0 and 1, not {level}.")
    return np.interp(1 / np.asarray(draws, dtype=np.float64), _GRID, _quantiles(level))


@lru_cache(maxsize=64)
def _quantiles(level: float) -> NDArray[np.float64]:
    """Return the quantiles at `_GRID`, by Newton's method on the inverted characteristic function.

    P(|X| <= x) = 2/pi times the integral over t > 0 of sin(t x)/t times the function.
    """
    normal, laplace = NormalDist().inv_cdf((1 + level) / 2), -math.log1p(-level) / math.sqrt(2)
    found = normal + (laplace - normal) * _GRID
    t = _STEP * np.arange(1, _STEPS + 1)
    for place, inverse in enumerate(_GRID[1:-1], start=1):
        weight = (1 + t**2 * (inverse / 2)) ** (-1 / inverse) * (2 / math.pi * _STEP)
        x = found[place]
        for _ in range(20):
            # The trapezoid at t = 0 contributes half of the limits: x and 1.
            inside = _STEP / math.pi * x + float(np.dot(np.sin(t * x) / t, weight))
            density = _STEP / math.pi + float(np.dot(np.cos(t * x), weight))
            step = (level - inside) / density
            x += step
            if abs(step) < 1e-7:
                break
        found[place] = x
    return found
