"""Statistics of a number as functions of counts by bin, and how a record and a bin change them.

In each group, let c_b be the number of records in bin b, with the mean m_b and the variance v_b of
their values there. With n = sum c, mu = sum c m / n, s^2 = sum c (m^2 + v) / n - mu^2 and
T = sum c m:

- *Standard deviation*: s.
- *Gini coefficient*: sum_bd c_b D_bd c_d / (2 n T), with D_bd = |m_b - m_d| between two bins and,
  for values that are even within a bin, 2 sqrt(v_b / 3) within it (Gini 1912; Sen 1973).
- *Top share*: the part of T that the given part of the records with the largest values have.

The derivatives by the counts are the influence function of each statistic (Hampel 1974, J. Amer.
Statist. Assoc. 69), so that an error of the counts changes the statistic by their product, to first
order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class BinMoments:
    """Values within the bins of a number.

    Attributes:
        means, variances: Of the values in each bin, shape (bins,).
    """

    means: Floats
    variances: Floats


@dataclass(frozen=True, slots=True, eq=False)
class BinStatistic:
    """A statistic of each group with its derivatives.

    Attributes:
        values: The statistic, shape (groups,); NaN where the counts do not determine it.
        weights: Its derivatives by the counts, shape (groups, bins).
        by_mean, by_variance: Its derivatives by the mean and by the variance of the values in each
            bin, shape (groups, bins).
    """

    values: Floats
    weights: Floats
    by_mean: Floats
    by_variance: Floats


def standard_deviation(counts: Floats, bins: BinMoments) -> BinStatistic:
    """Return the standard deviation of each group.

    Args:
        counts: Records by group and bin, at least 0, shape (groups, bins).
        bins: Values within the bins.
    """
    size, mean, deviation = _moments(counts, bins)
    off = bins.means - mean
    weights = (off**2 + bins.variances - deviation**2) / (2 * deviation * size)
    by_mean = counts * off / (deviation * size)
    by_variance = counts / (2 * deviation * size)
    return BinStatistic(deviation[:, 0], weights, by_mean, by_variance)


def gini_coefficient(counts: Floats, bins: BinMoments) -> BinStatistic:
    """Return the Gini coefficient of each group of a number that is not negative.

    Args:
        counts: Records by group and bin, at least 0, shape (groups, bins).
        bins: Values within the bins.
    """
    size, total = _or_nan(counts.sum(axis=1)), _or_nan(counts @ bins.means)
    apart = np.abs(bins.means[:, None] - bins.means) + np.diag(2 * np.sqrt(bins.variances / 3))
    away = counts @ apart
    value = ((away * counts).sum(axis=1, keepdims=True)) / (2 * size * total)
    sides = counts @ np.sign(bins.means - bins.means[:, None])
    inside = 1 / np.sqrt(3 * np.maximum(bins.variances, 1e-300)) * (bins.variances > 0)
    return BinStatistic(
        value[:, 0],
        away / (size * total) - value / size - value * bins.means / total,
        counts * (sides / (size * total) - value / total),
        counts**2 * inside / (2 * size * total),
    )


def top_share(counts: Floats, bins: BinMoments, part: float) -> BinStatistic:
    """Return the part of the total that the records with the largest values have, in each group.

    Args:
        counts: Records by group and bin, at least 0, shape (groups, bins).
        bins: Values within the bins, in ascending order, at least 0.
        part: Part of the records, above 0 and below 1.
    """
    size, total = _or_nan(counts.sum(axis=1)), _or_nan(counts @ bins.means)
    above = np.cumsum(counts[:, ::-1], axis=1)[:, ::-1]
    taken = np.clip((part * size - (above - counts)) / np.maximum(counts, 1e-300), 0.0, 1.0)
    taken = np.where(counts > 0, taken, above <= part * size)
    half = np.sqrt(3 * bins.variances)  # of the length of the bin
    inner = (1 - taken) * half
    value = (counts * taken * (bins.means + inner)).sum(axis=1, keepdims=True) / total
    place = np.argmax((taken < 1) & (taken > 0) | (above - counts < part * size), axis=1)
    row = np.arange(len(counts))
    least = (bins.means + half * (1 - 2 * taken))[row, place][:, None]
    beyond = np.where(taken >= 1, bins.means - least, taken**2 * half)
    beyond = np.where(taken <= 0, 0.0, beyond)
    steep = math.sqrt(3) / 2 / np.sqrt(np.maximum(bins.variances, 1e-300)) * (bins.variances > 0)
    return BinStatistic(
        value[:, 0],
        (beyond + part * least - value * bins.means) / total,
        counts * (taken - value) / total,
        counts * taken * (1 - taken) * steep / total,
    )


def _moments(counts: Floats, bins: BinMoments) -> tuple[Floats, Floats, Floats]:
    """Return the size, mean and standard deviation of groups, shape (groups, 1); NaN if 0."""
    size = _or_nan(counts.sum(axis=1))
    mean = (counts @ bins.means)[:, None] / size
    spread = (counts * ((bins.means - mean) ** 2 + bins.variances)).sum(axis=1, keepdims=True)
    return size, mean, _or_nan(np.sqrt(spread / size)[:, 0])


def _or_nan(values: Floats) -> Floats:
    """Return values that are above 0, otherwise NaN, with one more axis."""
    return np.where(values > 0, values, np.nan)[:, None]


Function: TypeAlias = Callable[[Floats, BinMoments, float], BinStatistic]
STATISTICS: dict[str, Function] = {
    "standard deviation": lambda counts, bins, _: standard_deviation(counts, bins),
    "gini coefficient": lambda counts, bins, _: gini_coefficient(counts, bins),
    "top share": top_share,
}
"""By measure, the statistic of counts by bin, of the values within the bins, and of a part."""
