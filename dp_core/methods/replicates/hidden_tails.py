"""Prior means of the counts at the ends of a number's range, where noise hides the levels.

Incomes have many levels far from the others, with few records or none. Counts cannot be negative,
so under a flat prior a draw gives each of them about .9 standard deviations of noise. These records
would dominate the errors of means, standard deviations and correlations.

So each hidden level has an exponential prior. From the count c of the last level that stands out,
its mean follows one of many curves: c r^(j^p) at the j-th hidden level, with p from 1 (a geometric
series) to 2 (like a normal tail), or c (1 + j)^(-a) (like a Pareto tail). The curves are weighted
by the likelihood of the noisy counts if each curve were the counts themselves. Each set draws its
own curve; the centre has their weighted mean.

Some hidden levels do not follow a curve, such as a code for the highest incomes. So in the draws, a
hidden level can be an exception, with a larger prior mean, in as many sets as its noisy count makes
likely. The share of exceptions is learned from all hidden levels of the column. The centre has no
exceptions, which makes it more accurate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.methods.mixture_weights import mixture_beliefs
from dp_core.methods.replicates.centred_draws import stratified_uniforms, systematic_choices
from dp_core.methods.replicates.posterior.truncation import Floats, log_exponential_density

_BY_CHANCE = 0.006
"""Expected number of runs of adjacent levels of one length whose sum stands out by noise alone."""
_MANY = 25  # levels; with fewer, sums must stand out as clearly as with so many
# Curves of a tail. How often intervals of means and standard deviations cover with them, by kind of
# tail, is in `benchmarks/hidden_tails.py`.
_RATIOS = np.concatenate([[0.0], np.linspace(0.04, 0.97, 32)])  # r
_POWERS = (1.0, 1.5, 2.0)  # p; all curves of one power together have prior weight 1
_PARETO = (1.2, 1.8, 2.5, 4.0)  # a
_PARETO_WEIGHT = 0.6  # prior weight of each Pareto curve
_EXCEPTION = 3.5  # prior mean of an exceptional count, in standard deviations of the noise
_SHARE = 0.9  # of exceptions, before any level is seen; too few make intervals too short
_SHARE_LEVELS = 4.0  # weight of this share, in levels
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
    ends = [
        (outwards, _first_hidden(counts[outwards], stddev[outwards]))
        for outwards in (order, order[::-1])
    ]
    crossed = sum(first for _, first in ends) <= order.size  # no level stands out by itself
    for outwards, first in ends:
        hidden = outwards[first:]
        if hidden.size and not crossed:
            start = max(float(counts[outwards[first - 1]]), 1.0)
            curves, weights = _weighted_curves(counts[hidden], stddev[hidden], start)
            at = np.minimum(np.arange(hidden.size), curves.shape[1] - 1)
            middle[hidden] = np.maximum(weights @ curves, _LEAST)[at]
            own = curves[systematic_choices(weights, sets, rng)]
            draws[:, hidden] = np.maximum(own, _LEAST)[:, at]
    hidden = np.flatnonzero(np.isfinite(middle))
    if hidden.size:
        exception = np.maximum(_EXCEPTION * stddev[hidden], _LEAST)
        likely = _likely_exceptions(counts[hidden], stddev[hidden], middle[hidden], exception)
        exceptional = stratified_uniforms(sets, hidden.size, rng) < likely
        usual = draws[:, hidden]
        draws[:, hidden] = np.where(exceptional, np.maximum(usual, exception), usual)
    return PriorMeans(middle, draws)


def _first_hidden(counts: Floats, stddev: Floats) -> int:
    """Return the first place from which no run of counts stands out from noise.

    Args:
        counts: Noisy counts in the order of a column's values, shape (levels,).
        stddev: Standard deviations of their noise, same shape.
    """
    from scipy.special import ndtri

    clear = -float(ndtri(_BY_CHANCE / max(counts.size, _MANY)))
    sums = np.concatenate([[0.0], np.cumsum(counts)])
    variances = np.concatenate([[0.0], np.cumsum(stddev**2)])
    first, width = 0, 1
    while width <= counts.size:
        noise = np.sqrt(variances[width:] - variances[:-width])
        places = np.flatnonzero(sums[width:] - sums[:-width] > clear * noise)
        first = max(first, int(places.max(initial=-1)) + 1)
        width = max(width + 1, 4 * width // 3)
    return first


def _weighted_curves(counts: Floats, stddev: Floats, start: float) -> tuple[Floats, Floats]:
    """Return the curves of a tail, shape (curves, hidden levels), and their posterior weights.

    Args:
        counts: Noisy counts of the hidden levels, from the inside out.
        stddev: Standard deviations of their noise, same shape.
        start: Count of the last level that stands out, in records.
    """
    place = np.arange(1.0, min(counts.size, _LONGEST) + 1)
    ratios = [_RATIOS[:, None] ** place**power for power in _POWERS]
    pareto = [(1 + place)[None, :] ** -power for power in _PARETO]
    before = [
        *(np.full(_RATIOS.size, 1 / _RATIOS.size) for _ in _POWERS),
        np.full(len(_PARETO), _PARETO_WEIGHT),
    ]
    curves = start * np.concatenate([*ratios, *pareto])
    off = (counts[:_LONGEST] - curves) / np.maximum(stddev[:_LONGEST], 1e-9)
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
    log_ratios = log_exponential_density(counts, stddev, exception)
    log_ratios -= log_exponential_density(counts, stddev, usual)
    log_likelihood = np.column_stack([np.clip(log_ratios, -50, 50), np.zeros(counts.size)])
    shares = np.array([_SHARE, 1 - _SHARE])
    found = mixture_beliefs(log_likelihood, shares, worth=_SHARE_LEVELS, rounds=_ROUNDS - 1)
    return found[:, 0]
