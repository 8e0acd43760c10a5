"""The one way to test a distribution: accept the true one, reject one that is 20 % off."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

FALSE_ALARM = 1e-9
"""Probability with which one such test fails by chance."""


def discrete_laplace(scale: float, reach: int) -> NDArray[np.float64]:
    """Return P(Z = z) for z = -reach..reach; the ends hold the tails."""
    z = np.arange(-reach, reach + 1)
    alpha = np.exp(-1 / scale)
    mass = (1 - alpha) / (1 + alpha) * alpha ** np.abs(z)
    mass[[0, -1]] = alpha**reach / (1 + alpha)
    return mass


def discrete_gaussian(scale: float, reach: int) -> NDArray[np.float64]:
    """Return P(Z = z) for z = -reach..reach; the ends hold the tails."""
    far = np.arange(-int(20 * scale) - reach, int(20 * scale) + reach + 1)
    mass = np.exp(-(far**2) / (2 * scale**2))
    mass /= mass.sum()
    inside = mass[np.abs(far) <= reach].copy()
    tail = mass[far > reach].sum()
    inside[[0, -1]] += tail
    return inside


def fits(noise: NDArray[np.int64], mass: NDArray[np.float64]) -> float:
    """Return the p-value of the chi-square test of whole-number noise against a distribution.

    Args:
        noise: Draws.
        mass: Of -reach..reach, the ends holding the tails.
    """
    reach = len(mass) // 2
    seen = np.bincount(np.clip(noise, -reach, reach) + reach, minlength=len(mass))
    expected = mass * noise.size
    # Cells with few expected draws are joined with their neighbours towards the middle.
    order = np.argsort(np.abs(np.arange(len(mass)) - reach), kind="stable")[::-1]
    joined_seen, joined_expected, held_seen, held_expected = [], [], 0.0, 0.0
    for cell in order:
        held_seen += seen[cell]
        held_expected += expected[cell]
        if held_expected >= 20:
            joined_seen.append(held_seen)
            joined_expected.append(held_expected)
            held_seen = held_expected = 0.0
    joined_seen[-1] += held_seen
    joined_expected[-1] += held_expected
    scaled = np.array(joined_expected) * (sum(joined_seen) / sum(joined_expected))
    return float(stats.chisquare(joined_seen, scaled).pvalue)


def epsilon_at_least(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> float:
    """Return a lower bound on epsilon from how often an event happened on two neighbours.

    Holds with probability 1 - FALSE_ALARM (Clopper-Pearson on both frequencies).
    """
    low, high = _at_least(first), _at_most(second)
    return float(np.log(low / high)) if low > 0 else -np.inf


def delta_at_least(first: NDArray[np.bool_], second: NDArray[np.bool_], epsilon: float) -> float:
    """Return a lower bound on delta at `epsilon` from how often an event happened on neighbours.

    Holds with probability 1 - FALSE_ALARM (Clopper-Pearson on both frequencies).
    """
    return float(_at_least(first) - np.exp(epsilon) * _at_most(second))


def _at_least(happened: NDArray[np.bool_]) -> float:
    yes, size = int(happened.sum()), happened.size
    return float(stats.beta.ppf(FALSE_ALARM / 2, yes, size - yes + 1)) if yes else 0.0


def _at_most(happened: NDArray[np.bool_]) -> float:
    yes, size = int(happened.sum()), happened.size
    return float(stats.beta.ppf(1 - FALSE_ALARM / 2, yes + 1, size - yes)) if yes < size else 1.0
