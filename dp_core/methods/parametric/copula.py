"""Correlations of a Gaussian copula from tables of its columns in groups."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_LARGEST = 0.995
"""Largest correlation of a pair."""
_STEPS = 399  # correlations at which the expected rank correlation is computed
_NODES = 32  # of the integral of the normal distribution function
_LEAST = 1e-6  # smallest eigenvalue of a correlation matrix


def correlation_of(
    table: NDArray[np.float64],
    rows: NDArray[np.float64],
    columns: NDArray[np.float64],
    *,
    variance: float = 0.0,
) -> float:
    """Return the normal correlation that gives the rank correlation of a table of groups.

    The rank correlation is the mean product of the groups' ranks (Spearman's, with the middle rank
    of each group). It is linear in the table, so noise of mean 0 leaves it unbiased. For two by two
    groups the solution is the same as for Kendall's tau, and is called the tetrachoric correlation.

    Args:
        table: Noisy proportions, shape (rows, columns); they need not sum to 1.
        rows: Proportion of each row's group, nonnegative, summing to 1.
        columns: Proportion of each column's group, in the same way.
        variance: Noise variance of each proportion of the table. The rank correlation is multiplied
            by the part of its square that is not expected from noise (at least 0). By default it is
            not changed.

    >>> half = np.array([0.5, 0.5])
    >>> round(correlation_of(np.array([[1 / 3, 1 / 6], [1 / 6, 1 / 3]]), half, half), 3)
    0.5
    """
    first, second = _ranks(rows), _ranks(columns)
    wanted = float(first @ table @ second)
    noise = variance * float((first**2).sum() * (second**2).sum())
    if noise:
        wanted *= max(0.0, 1.0 - noise / wanted**2) if wanted else 0.0
    correlations = np.sin(np.linspace(-1, 1, _STEPS) * np.arcsin(_LARGEST))
    joint = _normal(_limits(rows), _limits(columns), correlations)
    cells = np.diff(np.diff(joint, axis=1), axis=2)
    expected = np.einsum("r,crs,s->c", first, cells, second)
    if expected[-1] - expected[0] < 1e-9:
        # A column whose records are all in one group has no information.
        return 0.0
    return float(np.interp(wanted, np.maximum.accumulate(expected), correlations))


def positive_definite(correlation: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a positive definite correlation matrix near a symmetric one with diagonal 1.

    Eigenvalues are raised to a small positive number, and the diagonal is scaled back to 1
    (Rousseeuw & Molenberghs 1993, as in the paper of DPCopula).
    """
    values, vectors = np.linalg.eigh(correlation)
    if values[0] >= _LEAST:
        return correlation
    raised = (vectors * np.maximum(values, _LEAST)) @ vectors.T
    diagonal = np.sqrt(np.diag(raised))
    return np.asarray(raised / np.outer(diagonal, diagonal))


def _ranks(parts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the middle rank of each group, from -1 to 1, with mean 0."""
    return np.asarray(2 * np.cumsum(parts) - parts - parts.sum())


def _limits(parts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the normal quantiles that divide the groups, with both ends."""
    from scipy.special import ndtri

    inner = np.clip(np.cumsum(parts)[:-1], 0.0, 1.0)
    return np.asarray(np.clip(ndtri(np.concatenate([[0.0], inner, [1.0]])), -40.0, 40.0))


def _normal(
    first: NDArray[np.float64], second: NDArray[np.float64], correlations: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the bivariate normal distribution function.

    With r = sin(t), its derivative in t is exp(-(x^2 + y^2 - 2 x y sin t)/(2 cos^2 t))/(2 pi)
    (Drezner & Wesolowsky 1990).

    Returns:
        Shape (correlations, first, second).
    """
    from scipy.special import ndtr

    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    angle = np.arcsin(correlations)[:, None, None, None]
    turn = angle * (nodes + 1) / 2
    x, y = first[None, :, None, None], second[None, None, :, None]
    power = (x**2 + y**2 - 2 * x * y * np.sin(turn)) / (2 * np.cos(turn) ** 2)
    added = (np.exp(-power) @ weights) * angle[..., 0] / (4 * np.pi)
    return np.asarray(np.outer(ndtr(first), ndtr(second)) + added)
