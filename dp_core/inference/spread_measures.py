"""Measures of spread and inequality as functions of counts by bin, with their derivatives.

In each group, let c_b be the number of records in bin b, with the mean m_b and the variance v_b of
their values there. With n = sum c, mu = sum c m / n, s^2 = sum c (m^2 + v) / n - mu^2 and
T = sum c m:

- *Standard deviation*: s, with the divisor n.
- *Gini coefficient*: sum_bd c_b D_bd c_d / (2 n T), with D_bd = |m_b - m_d| between two bins and,
  for values that are even within a bin, 2 sqrt(v_b / 3) within it (Gini 1912; Sen 1973).
- *Top share*: the part of T that the given part of the records with the largest values have; values
  are even within the bin that has only some of these records.

The derivatives by the counts are the influence function of each measure (Hampel 1974, J. Amer.
Statist. Assoc. 69), so that an error of the counts changes the measure by their product, to first
order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

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
class Spread:
    """A measure of each group with its derivatives.

    Attributes:
        values: The measure, shape (groups,); NaN where the counts do not determine it.
        by_count, by_mean, by_variance: Its derivatives by the count of each bin, and by the mean
            and the variance of the values in it, shape (groups, bins).
    """

    values: Floats
    by_count: Floats
    by_mean: Floats
    by_variance: Floats


@dataclass(frozen=True, slots=True)
class SpreadMeasure:
    """A measure that `query` answers.

    Attributes:
        of: Returns the measure from counts by group and bin, at least 0, shape (groups, bins), from
            the values within the bins, in ascending order, and from a part of the records.
        unit: Unit: `number` (that of the column), `share` (1 is all) or `coefficient`.
        possible: Returns the smallest and largest possible measure of several values between two
            bounds, from these and the part.
        needs_zero: Whether it is of amounts: of numbers that have a total, and are not negative.
    """

    of: Callable[[Floats, BinMoments, float], Spread]
    unit: Literal["number", "share", "coefficient"]
    possible: Callable[[Floats, Floats, float], tuple[Floats | float, Floats | float]]
    needs_zero: bool


def standard_deviation(counts: Floats, bins: BinMoments, part: float = 0.0) -> Spread:
    """Return the standard deviation of each group; arguments as for `SpreadMeasure.of`."""
    del part
    size = _or_nan(counts.sum(axis=1))
    mean = (counts @ bins.means)[:, None] / size
    off = bins.means - mean
    spread = (counts * (off**2 + bins.variances)).sum(axis=1)
    deviation = _or_nan(np.sqrt(spread / size[:, 0]))
    return Spread(
        deviation[:, 0],
        (off**2 + bins.variances - deviation**2) / (2 * deviation * size),
        counts * off / (deviation * size),
        counts / (2 * deviation * size),
    )


def gini_coefficient(counts: Floats, bins: BinMoments, part: float = 0.0) -> Spread:
    """Return the Gini coefficient of each group; arguments as for `SpreadMeasure.of`."""
    del part
    size, total = _or_nan(counts.sum(axis=1)), _or_nan(counts @ bins.means)
    distances = np.abs(bins.means[:, None] - bins.means) + np.diag(2 * np.sqrt(bins.variances / 3))
    from_all = counts @ distances
    value = (from_all * counts).sum(axis=1, keepdims=True) / (2 * size * total)
    signs = counts @ np.sign(bins.means - bins.means[:, None])
    steepness = _inverse_root(3 * bins.variances)
    return Spread(
        value[:, 0],
        from_all / (size * total) - value / size - value * bins.means / total,
        counts * (signs / (size * total) - value / total),
        counts**2 * steepness / (2 * size * total),
    )


def top_share(counts: Floats, bins: BinMoments, part: float) -> Spread:
    """Return the share in the total of the largest values; arguments as for `SpreadMeasure.of`.

    A part f of the records of a bin belongs to them: 1 above a threshold, 0 below it.
    """
    size, total = _or_nan(counts.sum(axis=1)), _or_nan(counts @ bins.means)
    above = np.cumsum(counts[:, ::-1], axis=1)[:, ::-1] - counts
    wanted = part * size - above
    f = np.clip(wanted / np.maximum(counts, 1e-300), 0.0, 1.0)
    f = np.where(counts > 0, f, wanted >= 0)
    half = np.sqrt(3 * bins.variances)  # of the length of the bin
    value = (counts * f * (bins.means + (1 - f) * half)).sum(axis=1, keepdims=True) / total
    place = np.argmax((f > 0) & (wanted > 0), axis=1)  # the lowest such bin
    threshold = (bins.means + half * (1 - 2 * f))[np.arange(len(counts)), place][:, None]
    # The mean in each bin of what values have beyond the threshold.
    beyond = np.where(f >= 1, bins.means - threshold, f**2 * half)
    return Spread(
        value[:, 0],
        (beyond + part * threshold - value * bins.means) / total,
        counts * (f - value) / total,
        counts * f * (1 - f) * 1.5 * _inverse_root(3 * bins.variances) / total,
    )


def _or_nan(values: Floats) -> Floats:
    """Return values that are above 0, otherwise NaN, with one more axis."""
    return np.where(values > 0, values, np.nan)[:, None]


def _inverse_root(values: Floats) -> Floats:
    """Return 1 divided by the square root of values; 0 for 0."""
    return np.asarray((values > 0) / np.sqrt(np.maximum(values, 1e-300)))


SPREAD_MEASURES = {
    "standard deviation": SpreadMeasure(
        standard_deviation, "number", lambda least, most, _: (0.0, (most - least) / 2), False
    ),
    "gini coefficient": SpreadMeasure(gini_coefficient, "coefficient", lambda *_: (0.0, 1.0), True),
    "top share": SpreadMeasure(top_share, "share", lambda _, __, part: (part, 1.0), True),
}
"""The measures by their names in questions."""
