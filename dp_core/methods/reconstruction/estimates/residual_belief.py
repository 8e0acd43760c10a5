"""Shrinkage of noisy residuals: of cells, of tables of two columns, and of single numbers.

A residual is a noisy count minus its prediction from other results. Residuals of cells with large
expected counts are shrunk little, others strongly. The amount is estimated from the residuals
themselves, as the weights of a mixture of normal priors of different widths (adaptive shrinkage:
Stephens, Biostatistics 2017). Public side of the wall.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_WIDTHS = np.array([0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0])
_POWER = 0.75  # a cell of expected count E differs from it by about _WIDTHS * E ** _POWER
_LOW_RANK_SHARE = 0.3  # weight of the low-rank estimate of two columns beside the cellwise one
_SMALLEST = 0.5  # records; cells below it narrow the prior of a table's one number no further
_MIXTURE_ROUNDS = 40


def shrink_table(
    residual: NDArray[np.float64],
    variance: float,
    free: float,
    expected: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return a table's shrunk residual, cell by cell and, for two columns, also by low rank.

    Args:
        residual: Noisy table minus the expected one, projected orthogonally to the smaller tables.
        variance: Noise variance of a cell before this projection, in records squared.
        free: Part of the noise variance that remains in the residual.
        expected: Expected counts from smaller tables, same shape, nonnegative.
    """
    found = shrink_residual(residual, variance * free, expected)
    if residual.ndim == 2 and min(residual.shape) > 2:
        share = _LOW_RANK_SHARE
        found = (1 - share) * found + share * low_rank(residual, variance)
    return found


def shrink_residual(
    residual: NDArray[np.float64],
    variance: float | NDArray[np.float64],
    expected: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the posterior mean of each cell's true residual, given its noisy one.

    The prior of a cell is a mixture of centred normal distributions whose standard deviations are
    fixed multiples of `expected ** 0.75`; the weights of the mixture are those under which the
    table's residuals are most likely (by EM, from equal weights, with a few cells' worth of
    weight on no residual at all).

    Args:
        residual: Noisy count less the expected one, any shape.
        variance: Noise variance, records squared; one for all cells, or the same shape.
        expected: Expected counts from smaller tables, same shape, not negative.
    """
    shrunken = np.zeros(residual.size)
    found = _mixture(residual, variance, expected)
    if found.active.size:
        likelihood, weights = found.likelihood, found.weights
        belief = (likelihood * (found.prior / found.spread)) @ weights / (likelihood @ weights)
        shrunken[found.active] = belief * residual.ravel()[found.active]
    return shrunken.reshape(residual.shape)


def posterior_residual(
    residual: NDArray[np.float64],
    variance: float,
    expected: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the posterior mean and standard deviation of residuals under the learned prior.

    The mean is that of `shrink_residual`.

    Args:
        residual: Noisy count less the expected one, any shape, in records.
        variance: Noise variance of each cell, records squared.
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
    """Return the log likelihood of residuals under the prior that `shrink_residual` learns.

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


def shrink_numbers(
    residuals: Sequence[NDArray[np.float64]],
    variances: Sequence[float],
    expected: Sequence[NDArray[np.float64]],
) -> list[NDArray[np.float64]]:
    """Return the shrunk residuals of tables with one degree of freedom, under one common prior.

    A single table of 2 x 2 cells cannot determine a prior, but many together can.

    Args:
        residuals: Residual of each table, equal in all cells except for the sign.
        variances: Noise variance of the cells of each table, records squared.
        expected: Expected counts of each table from smaller tables.
    """
    sizes = [float(np.abs(each).max()) for each in residuals]
    # The number is the same in all cells, so its prior is as narrow as that of the smallest cells.
    width = [float((np.maximum(e, _SMALLEST) ** (-2 * _POWER)).sum()) for e in expected]
    found = shrink_residual(
        np.array(sizes), np.array(variances), np.array(width) ** (-0.5 / _POWER)
    )
    return [
        each * (size / largest) if largest else each
        for each, size, largest in zip(residuals, found, sizes, strict=True)
    ]


def low_rank(residual: NDArray[np.float64], variance: float) -> NDArray[np.float64]:
    """Return the low-rank part of a table of two columns that exceeds the noise.

    Dependence between two columns is mostly of low rank (one scale against another), while noise is
    spread over all ranks. Singular values are shrunk optimally for squared error: those below
    `sqrt(variance) * (sqrt(p) + sqrt(q))` are treated as noise (Gavish and Donoho, IEEE Trans. Inf.
    Theory 2017, equation 7).

    Args:
        residual: Noisy counts minus the expected ones; rows and columns sum to 0.
        variance: Noise variance of each cell, in records squared.
    """
    left, values, right = np.linalg.svd(residual, full_matrices=False)
    p, q = residual.shape[0] - 1, residual.shape[1] - 1
    relative = np.square(values) / variance
    inner = np.square(relative - p - q) - 4 * p * q
    kept = relative > (math.sqrt(p) + math.sqrt(q)) ** 2
    shrunken = np.sqrt(np.maximum(inner, 0.0) / np.maximum(relative, 1e-300) * variance) * kept
    return np.asarray((left * shrunken) @ right)


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
    """Return the estimated prior; arguments are those of `shrink_residual`."""
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
