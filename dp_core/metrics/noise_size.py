"""Expected size of discrete noise, in records."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Noise = Literal["laplace", "gaussian"]


@lru_cache(maxsize=4096)
def expected_absolute(noise: Noise, scale: float, shares: int = 1) -> float:
    """Return E|Z| of one cell's noise Z, in records.

    With `shares` above 1, Z is a whole number of shares, and `scale` and the result are in units of
    so many shares.

    Discrete Laplace with parameter a = exp(-1/scale): 2a / (1 - a^2). Discrete Gaussian: the sum
    over its mass function; from sigma = 20 on the continuous value sigma sqrt(2/pi), which then
    agrees to better than 1e-3 of itself.

    >>> round(expected_absolute("gaussian", 100.0), 3)
    79.788
    """
    _check(noise, scale)
    if shares > 1:
        return expected_absolute(noise, scale * shares) / shares
    if noise == "laplace":
        # 2a/(1 - a^2) = 1/sinh(1/scale), which does not cancel for large scales.
        return 1 / math.sinh(1 / scale) if 1 / scale < 700 else 0.0
    if scale >= 20:
        return scale * math.sqrt(2 / math.pi)
    values, mass = _gaussian_mass(scale)
    return float(np.dot(values, mass))


@lru_cache(maxsize=4096)
def half_width(noise: Noise, scale: float, coverage: float = 0.95) -> int:
    """Return the least whole t with P(|Z| <= t) >= coverage, in records.

    >>> half_width("gaussian", 10.0), half_width("laplace", 10.0)
    (20, 30)
    """
    _check(noise, scale)
    if noise == "laplace":
        # P(|Z| > t) = 2 a^(t+1) / (1 + a)
        a = math.exp(-1 / scale)
        if a == 0:
            return 0
        bound = (1 - coverage) * (1 + a) / 2
        return max(0, math.ceil(-scale * math.log(bound) - 1 - 1e-12))
    if scale >= 1e5:
        return math.ceil(NormalDist().inv_cdf((1 + coverage) / 2) * scale)
    values, mass = _gaussian_mass(scale)
    return int(values[np.searchsorted(np.cumsum(mass), coverage)])


def half_width_in_units(noise: Noise, scale: float, shares: int, coverage: float = 0.95) -> float:
    """Return `half_width` of noise on whole numbers of shares, in units of `shares` shares.

    Args:
        noise: Kind of noise.
        scale: Scale of the noise, in units.
        shares: Shares of a unit; 1 for noise on records.
        coverage: Least probability that the noise is within the half-width; 0.95 by default.

    >>> half_width_in_units("laplace", 10.0, 1), half_width_in_units("laplace", 0.1, 12)
    (30, 0.25)
    """
    if shares == 1:
        return half_width(noise, scale, coverage)
    return half_width(noise, scale * shares, coverage) / shares


def expected_tvd(noise: Noise, scale: float, *, cells: int, records: float) -> float:
    """Return the expected TVD of a table from noise alone, half of the expected L1 distance.

    Args:
        noise: Kind of noise.
        scale: Scale of the noise, records.
        cells: Number of cells of the table.
        records: Number of records the table counts, at least 1.
    """
    return cells * expected_absolute(noise, scale) / (2 * max(records, 1.0))


def _gaussian_mass(scale: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return |Z| = 0, 1, ... and their probabilities for the discrete Gaussian."""
    values = np.arange(0, math.ceil(12 * scale) + 3, dtype=np.float64)
    mass = np.exp(-((values / scale) ** 2) / 2)
    mass[1:] *= 2
    return values, mass / mass.sum()


def _check(noise: str, scale: float) -> None:
    if noise not in ("laplace", "gaussian"):
        raise ValueError(f"Noise is laplace or gaussian, not {noise!r}.")
    if not (math.isfinite(scale) and scale > 0):
        raise ValueError("The scale of noise must be a positive number of records.")
