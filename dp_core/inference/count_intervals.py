"""Intervals from noisy counts: of ratios, of their differences, and of quantiles.

An interval of a quantile keeps the bins that no test excludes. Of K bins in order, let N be the
number of records and C_k the number in the bins below edge k. If a value x with F(x-) <= q <= F(x)
lies in bin b, where F is the share of records up to x, then

    D_b <= 0 <= D_(b+1),    D_k = C_k - q N.

D_k is a linear functional of the counts, so its estimate has the distribution of the noise (as the
numerator of Fieller's interval of the share C_k / N). Bin b is kept unless D_b is significantly
above 0 or D_(b+1) significantly below 0. Each of these two tests errs with a probability of at most
(1 - level)/2, and only those at the edges of the bin that contains x can exclude x. So the kept
bins contain x with at least the stated probability. The tests at all edges need not be right at
once. This holds for every x between the two middle values of a median, too: if x is an edge, D is 0
there, and each of the two tests at that edge excludes one of its sides.

Within the first and the last of these bins, the same test is made at places between their edges.
It has the error of the density within the bin besides the noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats: TypeAlias = NDArray[np.float64]


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
    given = (numerator, denominator, variance, denominator_variance, covariance, quantile)
    n, d, vn, vd, c, q = np.broadcast_arrays(*(np.asarray(each, dtype=float) for each in given))
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


@dataclass(frozen=True, slots=True, eq=False)
class QuantileBins:
    """The bins that may contain a quantile, and its estimate; every array has one entry a group.

    Attributes:
        determined: Whether the number of records can be distinguished from 0.
        first, last: First and last bin of the interval.
        place: Bin of the estimate.
        part: Part of that bin's records below the estimate, from 0 to 1.
        low_part, high_part: The same for the ends of the interval in the first and last bin.
        low_part_without_bins, high_part_without_bins: The same if the distribution of the records
            in every bin were known.
    """

    determined: NDArray[np.bool_]
    first: NDArray[np.intp]
    last: NDArray[np.intp]
    place: NDArray[np.intp]
    part: Floats
    low_part: Floats
    high_part: Floats
    low_part_without_bins: Floats
    high_part_without_bins: Floats


def cut_weights(bins: int, q: float) -> Floats:
    """Return the weights of the counts in D_k = C_k - q N, shape (bins + 1, bins).

    >>> cut_weights(2, 0.5)
    array([[-0.5, -0.5],
           [ 0.5, -0.5],
           [ 0.5,  0.5]])
    """
    if not 0 < q < 1:
        raise ValueError(f"A quantile is between 0 and 1, not {q}.")
    return np.tri(bins + 1, bins, -1) - q


class PlaceErrors(NamedTuple):
    """How uncertain places within bins are, as parts of the bin.

    Attributes:
        means: Standard error of the mean place of each bin's records, shape (groups, bins).
        anywhere: Part of its records that may be at any place, same shape.
        rounded: Part of the bin over which rounding may bring its records together.
        quantile: Half-width of an interval in standard errors.
    """

    means: Floats
    anywhere: Floats
    rounded: float
    quantile: float


def quantile_bins(
    deviations: Floats, half_widths: Floats, errors: PlaceErrors | None = None
) -> QuantileBins:
    """Return which bins may contain a quantile, and where its estimate is.

    Args:
        deviations: Estimates of D_k, shape (groups, bins + 1).
        half_widths: Half of the width of the two-sided interval of each, same shape.
        errors: How uncertain places within bins are; None (the default) if bins have one value.

    Returns:
        Arrays of shape (groups,). A group is determined if its number of records, the last
        deviation minus the first, is above the sum of their half-widths, which is the half-width of
        that number. An estimate is always inside its interval.
    """
    d = np.asarray(deviations, dtype=np.float64)
    bins = d.shape[1] - 1
    # Rounding errors of sums exclude no edge.
    h = np.asarray(half_widths, dtype=np.float64) + 1e-9 * np.abs(d).max(axis=1, keepdims=True)
    determined = d[:, -1] - d[:, 0] > h[:, -1] + h[:, 0]

    # Noisy deviations need not ascend. The mean of their running maximum from below and minimum
    # from above does, and equals them where they ascend.
    rising = np.maximum.accumulate(d, axis=1)
    rising = (rising + np.minimum.accumulate(d[:, ::-1], axis=1)[:, ::-1]) / 2
    above = rising[:, 1:] >= 0
    place = np.where(above.any(axis=1), above.argmax(axis=1), bins - 1)
    part = _crossing(rising, place)

    kept = (d[:, :-1] <= h[:, :-1]) & (d[:, 1:] >= -h[:, 1:])
    kept[np.arange(len(d)), place] = True
    first, last = kept.argmax(axis=1), bins - 1 - kept[:, ::-1].argmax(axis=1)
    low_part = _crossing(d + h, first, below=0.0)
    high_part = _crossing(d - h, last, below=1.0)
    without = low_part, high_part
    if errors is not None:
        low_part = np.minimum(_first_place(d, h, first, errors), low_part)
        turned = d[:, ::-1] * -1, h[:, ::-1], bins - 1 - last
        means, anywhere, *rest = errors
        mirrored = PlaceErrors(means[:, ::-1], anywhere[:, ::-1], *rest)
        high_part = np.maximum(1 - _first_place(*turned, mirrored), high_part)
    return QuantileBins(determined, first, last, place, part, low_part, high_part, *without)


_PLACES = np.linspace(0.0, 1.0, 65)
"""Parts of a bin's records at which is tested whether a quantile may be there."""


def _first_place(d: Floats, h: Floats, bins: NDArray[np.intp], errors: PlaceErrors) -> Floats:
    """Return the part of a bin's records below the first place that no test excludes.

    A place is excluded if the number of records up to it is significantly below the quantile's.
    That number has the noise of the edges on both sides, and the error of the density in the bin:
    if the mean of the places in a bin has the standard error e, the part p of its records up to a
    place has 6 e p (1 - p), as for densities that are linear in the bin, but at most that of one
    record. Records that may be at any place are all below it, and so are those that rounding may
    have brought there.

    Args:
        d: Estimates of D_k, shape (groups, bins + 1).
        h: Half-widths of their intervals, same shape.
        bins: The bin of each group, shape (groups,).
        errors: How uncertain places within bins are.
    """
    row, p = np.arange(len(d)), _PLACES
    ends = [(each[row, bins][:, None], each[row, bins + 1][:, None]) for each in (d, h)]
    value, half = (left + (right - left) * p for left, right in ends)
    rounded = np.minimum(errors.rounded, 1 - p)
    records = np.maximum(ends[0][1] - ends[0][0], 0.0)
    error = np.minimum(6 * errors.means[row, bins][:, None] * p * (1 - p), np.sqrt(p * (1 - p)))
    most = value + records * np.maximum(errors.anywhere[row, bins][:, None] * (1 - p), rounded)
    kept = most + np.hypot(half, errors.quantile * records * error) >= 0
    # Between two places that are tested, the quantile may be at any.
    first = np.where(kept.any(axis=1), kept.argmax(axis=1), len(p) - 1)
    return np.asarray(p[np.maximum(first - 1, 0)])


def rounded_up(half_widths: Floats, variances: Floats) -> Floats:
    """Return half-widths; those of noise below one record are rounded up to whole records.

    Noise of counts is a whole number, and so small that its distribution is not close to a
    continuous one.

    Args:
        half_widths: Half-widths of intervals, in records, shape (...).
        variances: Variances of the noise, same shape.
    """
    whole = np.ceil(half_widths - 1e-9)
    return np.asarray(np.where(variances < 1, np.maximum(whole, half_widths), half_widths))


def _crossing(values: Floats, places: NDArray[np.intp], below: float = 0.5) -> Floats:
    """Return where values cross 0 within a bin if they are linear in it, from 0 to 1.

    Args:
        values: Values at the edges, shape (groups, bins + 1).
        places: The bin of each group, shape (groups,).
        below: Result where the values do not ascend in the bin; 0.5 by default.
    """
    row = np.arange(len(values))
    left, right = values[row, places], values[row, places + 1]
    found = np.full(len(values), below)
    np.divide(-left, right - left, out=found, where=right > left)
    return np.asarray(np.clip(found, 0.0, 1.0))
