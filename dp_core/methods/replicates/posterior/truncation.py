"""Normal variables that are known to be nonnegative, as counts are."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_LEAST = 1e-9  # standard deviation in records; smaller ones are treated as this
IN_SETS = 0.5
"""Part of the records added by truncation that `lowered` leaves in the draws of sets. It is a
compromise: without the prior, intervals of large cells in a sparse table cover less often; with a
rate at which truncation adds nothing to the total, those of counts of one or two standard errors
do."""
_BISECTIONS = 30
_LEAST_PART = 1e-6  # smallest variance after truncation, relative to that before


def truncated(mean: Floats, stddev: Floats, scores: Floats) -> Floats:
    """Return draws of normal variables given that they are not negative.

    A standard normal score is mapped to the quantile of the truncated distribution with the same
    probability. So draws keep the order of their scores and nearly their correlation. Far from zero
    they are `mean + stddev * scores`.

    Args:
        mean: Means before truncation, in records, any shape.
        stddev: Standard deviations before truncation, in records, same shape.
        scores: Standard normal scores; their shape may have leading axes.
    """
    from scipy.special import log_ndtr, ndtr, ndtri

    spread = np.maximum(stddev, _LEAST)
    # Upper tails are used: where almost everything is cut off, lower tails round to 1.
    above = ndtr(-scores) * ndtr(mean / spread)
    drawn = mean - spread * ndtri(np.clip(above, 1e-300, 1 - 1e-16))
    # Far in the tail the truncated variable is nearly exponential.
    far = -log_ndtr(-scores) * spread / np.maximum(-mean / spread, 1.0)
    return np.asarray(np.where(mean < -30 * spread, far, np.maximum(drawn, 0.0)))


def central_counts(mean: Floats, stddev: Floats, possible: NDArray[np.bool_]) -> Floats:
    """Return the medians of counts given that none is negative and what they add up to.

    Args:
        mean: Means before truncation, in records, any shape.
        stddev: Standard deviations before truncation, in records, same shape.
        possible: Which counts can be positive, same shape; the others are 0.
    """
    found, spread = np.zeros_like(mean), stddev[possible]
    usual = lowered(mean[possible], spread, left=0.0)
    found[possible] = truncated(usual, spread, np.zeros(spread.shape))
    return found


def truncated_variance(mean: Floats, stddev: Floats) -> Floats:
    """Return the variances of normal variables given that they are not negative.

    Args:
        mean: Means before truncation, in records.
        stddev: Standard deviations before truncation, in records, same shape.
    """
    spread = np.maximum(stddev, _LEAST)
    cut = -mean / spread
    hazard = _hazard(cut)
    # Far in the tail the terms cancel; the truncated variable is then nearly exponential.
    part = np.where(cut < 30, 1 + cut * hazard - hazard**2, 1 / np.maximum(cut, 1.0) ** 2)
    return np.asarray(spread**2 * np.maximum(part, _LEAST_PART))


def truncated_mean(mean: Floats, stddev: Floats) -> Floats:
    """Return the means of normal variables given that they are not negative.

    Args:
        mean: Means before truncation, in records.
        stddev: Standard deviations before truncation, in records, same shape.
    """
    spread = np.maximum(stddev, _LEAST)
    cut = -mean / spread
    hazard = _hazard(cut)
    return np.where(cut > 30, spread / np.maximum(cut, 1.0), mean + spread * hazard)


def _hazard(cut: Floats) -> Floats:
    """Return the density of a standard normal variable over its upper tail; constant beyond 30."""
    from scipy.special import log_ndtr

    near = np.minimum(cut, 30.0)  # beyond it the exponent overflows
    return np.asarray(np.exp(-0.5 * near**2 - 0.5 * math.log(2 * math.pi) - log_ndtr(-near)))


def log_exponential_density(counts: Floats, stddev: Floats, means: Floats) -> Floats:
    """Return the log density of noisy counts whose prior is exponential, up to a constant.

    Args:
        counts: Counts with normal noise, in records, any shape.
        stddev: Standard deviations of the noise, in records.
        means: Means of the priors, in records. All three broadcast.
    """
    from scipy.special import log_ndtr

    noise = np.maximum(stddev, _LEAST)
    off = noise / means - counts / noise
    return np.asarray(off**2 / 2 + log_ndtr(-off) - np.log(means))


def lowered(mean: Floats, stddev: Floats, *, left: float) -> Floats:
    """Return means of small cells that are lowered, so that truncation adds less to the table.

    Truncation increases the mean of every cell near zero. Since the total is fixed, the large cells
    of a table with many such cells would lose as many records. So small cells get an exponential
    prior, with a rate estimated from the table (empirical Bayes).

    Args:
        mean: Means before truncation, in records, any shape.
        stddev: Standard deviations before truncation, in records, same shape.
        left: Part of the records added by truncation that remains: 0 for the most accurate table,
            `IN_SETS` for draws.
    """
    spread = np.maximum(stddev, _LEAST)
    added = float((truncated_mean(mean, spread) - mean).sum())
    if added <= 0:
        return mean
    from scipy.special import ndtr

    # The rate acts on cells below two standard deviations.
    slope = ndtr(2.0 - mean / spread) * spread**2
    wanted = float(mean.sum()) + left * added
    low, high = 0.0, 1 / float(np.median(spread))
    for _ in range(_BISECTIONS):
        if float(truncated_mean(mean - high * slope, spread).sum()) <= wanted:
            break
        low, high = high, 2 * high
    for _ in range(_BISECTIONS):
        rate = (low + high) / 2
        above = float(truncated_mean(mean - rate * slope, spread).sum()) > wanted
        low, high = (rate, high) if above else (low, rate)
    return np.asarray(mean - high * slope)
