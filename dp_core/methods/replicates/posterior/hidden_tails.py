"""Prior means of the counts at the ends of a number's range, where noise hides the levels.

An income has many levels far out with few records or none. Counts are not negative, so a flat prior
gives each of them about half a deviation of noise. These records are far from all others. They
would change means, deviations and correlations more than everything else does.

So each hidden level has an exponential prior, whose mean falls from the last level that stands out
along one of many curves: c r^(j^p) at the j-th hidden level, with a p from 1 (a geometric series)
to 2 (the tail of a normal distribution), or c (1 + j)^(-a), the tail of a Pareto distribution. The
curves are weighted by how well they fit the noisy counts of the tail (Bayes's rule). Each set draws
its own curve.

Files have exceptions, such as a code for the highest incomes. So in the draws, each hidden level
may have a prior with the mean of an exception instead, in as many sets as its noisy count makes
likely. How frequent exceptions are is learned from all hidden levels of the column. The centre,
which is to be the most accurate, has none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.methods.replicates.centred_draws import shared_out
from dp_core.methods.replicates.posterior.truncation import Floats, log_exponential_density

_CLEAR = 3.5
"""Smallest sum of adjacent counts that stands out, in standard deviations of its noise."""
_RATIOS = np.concatenate([[0.0], np.linspace(0.04, 0.97, 32)])
_POWERS = (1.0, 1.5, 2.0)
_PARETO = (1.2, 1.8, 2.5, 4.0)
"""With these two, intervals of means and standard deviations of generated numbers with normal,
gamma, lognormal and zero-inflated tails cover (`benchmarks/hidden_tails.py`)."""
_PARETO_WEIGHT = 0.6  # prior weight of each, relative to that of a power
_EXCEPTION = 3.5  # prior mean of an exceptional count, in standard deviations of the noise
_EXCEPTIONS = 0.9, 4.0
"""Part of exceptions before any level is seen, and the number of levels for which it counts. With
these and `_EXCEPTION`, intervals of shares below 1 % cover as often as those of means."""
_ROUNDS = 30  # of the EM algorithm that learns how frequent exceptions are
_LONGEST = 1 << 12  # levels of a tail; the counts of further ones are that of the last
_LEAST = 1e-3  # smallest prior mean of a count, records


@dataclass(frozen=True, slots=True, eq=False)
class PriorMeans:
    """Means of the exponential priors of a column's counts, in records; infinite for flat priors.

    Attributes:
        middle: Those of the centre, shape (levels,).
        draws: Those of the sets, shape (sets, levels).
    """

    middle: Floats
    draws: Floats


def prior_means(
    counts: Floats, stddev: Floats, order: NDArray[np.intp], sets: int, rng: np.random.Generator
) -> PriorMeans:
    """Return the prior means of a column's counts: infinite but for hidden levels at its ends.

    Args:
        counts: Noisy counts, shape (levels,), in records.
        stddev: Standard deviations of their noise, same shape, in records.
        order: Levels in the order of their values; without those that have no value, such as
            missing, and without impossible ones.
        sets: Number of sets.
        rng: Generator; same state, same draws.
    """
    middle, draws = np.full(counts.size, np.inf), np.full((sets, counts.size), np.inf)
    for outwards in (order, order[::-1]):
        last = _last_clear(counts[outwards], stddev[outwards])
        if last is None:
            continue
        hidden = outwards[last + 1 :]
        start = max(float(counts[outwards[last]]), 1.0)
        curves, weights = _fitted(counts[hidden], stddev[hidden], start)
        if hidden.size:
            at = np.minimum(np.arange(hidden.size), curves.shape[1] - 1)
            middle[hidden] = np.maximum(weights @ curves, _LEAST)[at]
            draws[:, hidden] = np.maximum(curves[shared_out(weights, sets, rng)], _LEAST)[:, at]
    hidden = np.flatnonzero(np.isfinite(middle))
    if hidden.size:
        exception = np.maximum(_EXCEPTION * stddev[hidden], _LEAST)
        likely = _likely_exceptions(counts[hidden], stddev[hidden], middle[hidden], exception)
        places = np.argsort(rng.random((sets, hidden.size)), axis=0)
        exceptional = places + rng.random(hidden.size) < sets * likely
        usual = draws[:, hidden]
        draws[:, hidden] = np.where(exceptional, np.maximum(usual, exception), usual)
    return PriorMeans(middle, draws)


def _last_clear(counts: Floats, stddev: Floats) -> int | None:
    """Return the last place whose count, with some of those after it, stands out from noise.

    Args:
        counts: Noisy counts in the order of a column's values, shape (levels,).
        stddev: Standard deviations of their noise, same shape.

    Returns:
        The place; None if no count stands out.
    """
    sums = np.concatenate([[0.0], np.cumsum(counts)])
    variances = np.concatenate([[0.0], np.cumsum(stddev**2)])
    last, width = -1, 1
    while width <= counts.size:
        noise = np.sqrt(variances[width:] - variances[:-width])
        clear = np.flatnonzero(sums[width:] - sums[:-width] > _CLEAR * noise)
        last = max(last, int(clear.max(initial=-1)))
        width = max(width + 1, 4 * width // 3)
    return last if last >= 0 else None


def _fitted(counts: Floats, stddev: Floats, start: float) -> tuple[Floats, Floats]:
    """Return the curves of a tail, shape (curves, hidden levels), and their posterior weights.

    Args:
        counts: Noisy counts of the hidden levels, from the inside out.
        stddev: Standard deviations of their noise, same shape.
        start: Count of the last level that stands out, in records.
    """
    seen = slice(_LONGEST)
    place = np.arange(1.0, min(counts.size, _LONGEST) + 1)
    ratios = [_RATIOS[:, None] ** place**power for power in _POWERS]
    pareto = [(1 + place)[None, :] ** -power for power in _PARETO]
    before = [
        *(np.full(_RATIOS.size, 1 / _RATIOS.size) for _ in _POWERS),
        np.full(len(_PARETO), _PARETO_WEIGHT),
    ]
    curves = start * np.concatenate([*ratios, *pareto])
    off = (counts[seen] - curves) / np.maximum(stddev[seen], 1e-9)
    fits = np.log(np.concatenate(before)) - 0.5 * np.einsum("ij,ij->i", off, off)
    weights = np.exp(fits - fits.max())
    return curves, weights / weights.sum()


def _likely_exceptions(
    counts: Floats, stddev: Floats, usual: Floats, exception: Floats
) -> NDArray[np.float64]:
    """Return the posterior probability that each hidden level of a column is an exception.

    Args:
        counts: Noisy counts, shape (levels,), in records.
        stddev: Standard deviations of their noise, same shape.
        usual: Prior means of usual counts, same shape.
        exception: Prior means of exceptional counts, same shape.
    """
    told = log_exponential_density(counts, stddev, exception)
    told -= log_exponential_density(counts, stddev, usual)
    ratios = np.exp(np.clip(told, -50, 50))
    before, seen = _EXCEPTIONS
    part, found = before, ratios
    for _ in range(_ROUNDS):
        found = part * ratios / (part * ratios + 1 - part)
        part = (float(found.sum()) + seen * before) / (found.size + seen)
    return found
