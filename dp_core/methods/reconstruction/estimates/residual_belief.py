"""Shrinkage of noisy residuals of cells.

A residual is a noisy count minus its prediction from other results. Residuals of cells with large
expected counts are shrunk little, others strongly. The amount is estimated from the residuals
themselves, as the weights of a mixture of normal priors of different widths (adaptive shrinkage:
Stephens, Biostatistics 2017). Public side of the wall.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_WIDTHS = np.array([0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0])
_POWER = 0.75  # a cell of expected count E differs from it by about _WIDTHS * E ** _POWER
_MIXTURE_ROUNDS = 40


def posterior_residual(
    residual: NDArray[np.float64],
    variance: float | NDArray[np.float64],
    expected: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the posterior mean and standard deviation of each cell's true residual.

    The prior of a cell is a mixture of centred normal distributions whose standard deviations are
    fixed multiples of `expected ** 0.75`; the weights of the mixture are those under which the
    table's residuals are most likely (by EM, from equal weights, with a few cells' worth of
    weight on no residual at all).

    Args:
        residual: Noisy count less the expected one, any shape, in records.
        variance: Noise variance, records squared; one for all cells, or the same shape.
        expected: Expected counts from smaller tables, same shape, not negative.
    """
    mean, spread = np.zeros(residual.size), np.zeros(residual.size)
    found = _mixture(residual, variance, expected)
    if found.active.size:
        belief = found.likelihood * found.weights
        belief /= belief.sum(axis=1, keepdims=True)
        trust = found.prior / found.spread
        means = trust * residual.ravel()[found.active][:, None]
        centre = (belief * means).sum(axis=1)
        second = (belief * (trust * (found.spread - found.prior) + means**2)).sum(axis=1)
        mean[found.active] = centre
        spread[found.active] = np.sqrt(np.maximum(second - centre**2, 0.0))
    return mean.reshape(residual.shape), spread.reshape(residual.shape)


def evidence(
    residual: NDArray[np.float64],
    variance: float | NDArray[np.float64],
    expected: NDArray[np.float64],
) -> float:
    """Return the log likelihood of residuals under the prior that `posterior_residual` learns.

    Args:
        residual: Noisy count less the expected one, any shape.
        variance: Noise variance of each cell, records squared.
        expected: Expected counts from smaller tables, same shape, not negative.
    """
    found = _mixture(residual, variance, expected)
    return float((np.log(found.likelihood @ found.weights) + found.most).sum())


def believed(
    common: NDArray[np.float64],
    residual: NDArray[np.float64],
    variance: float | NDArray[np.float64],
    expected: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the common prediction of a residual, weighted by the evidence for it.

    The weight protects a pair whose dependence differs from that of all others.

    Args:
        common: Prediction of this pair's residual from all pairs, records.
        residual: Noisy count of this pair less the expected one.
        variance: Noise variance of each cell, records squared.
        expected: Expected counts from smaller tables, same shape, not negative.
    """
    free = max(1.0, (residual.shape[0] - 1) * (residual.shape[1] - 1)) / residual.size
    without = evidence(residual, variance, expected)
    gain = (evidence(residual - common, variance, expected) - without) * free
    return np.asarray(common / (1 + math.exp(min(-gain, 500.0))))


@dataclass(frozen=True, slots=True, eq=False)
class _Mixture:
    """The maximum-likelihood prior of the residuals, and the likelihood of each.

    Attributes:
        active: Indices of the cells that matter; the arrays below are for these cells.
        prior: Prior variance of each cell under each width, in records squared, shape (cells,
            widths).
        spread: Prior variance plus noise variance, same shape.
        likelihood: Likelihood of each cell under each width, up to a factor per cell, same shape.
        most: Logarithm of that factor, shape (cells,).
        weights: Weights of the widths, shape (widths,).
    """

    active: NDArray[np.intp]
    prior: NDArray[np.float64]
    spread: NDArray[np.float64]
    likelihood: NDArray[np.float64]
    most: NDArray[np.float64]
    weights: NDArray[np.float64]


def _mixture(
    residual: NDArray[np.float64],
    variance: float | NDArray[np.float64],
    expected: NDArray[np.float64],
) -> _Mixture:
    """Return the estimated prior; arguments are those of `posterior_residual`."""
    width = np.square(np.multiply.outer(expected.ravel() ** _POWER, _WIDTHS))
    # Cells whose prior is far below the noise stay as expected and do not affect the mixture.
    noise = np.broadcast_to(np.asarray(variance, dtype=np.float64), residual.shape).ravel()
    active = np.flatnonzero((width[:, -1] > 1e-3 * noise) & (noise > 0))
    prior = width[active]
    spread = prior + noise[active, None]
    log_likelihood = -0.5 * (np.log(spread) + np.square(residual.ravel()[active])[:, None] / spread)
    most = log_likelihood.max(axis=1, keepdims=True)
    likelihood = np.exp(log_likelihood - most)
    return _Mixture(active, prior, spread, likelihood, most[:, 0], _weights(likelihood))


def _weights(likelihood: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the maximum-likelihood weights of the widths, shape (widths,).

    Args:
        likelihood: Likelihood of each cell under each width, up to a factor per cell.
    """
    weights = np.full(_WIDTHS.size, 1 / _WIDTHS.size)
    favour = np.full(_WIDTHS.size, 1e-9)
    favour[0] = 4.0
    for _ in range(_MIXTURE_ROUNDS):
        scale = 1.0 / (likelihood @ weights)
        weights = weights * (scale @ likelihood) + favour
        weights /= weights.sum()
    return weights
