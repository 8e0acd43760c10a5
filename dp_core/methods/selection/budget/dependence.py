"""Expected dependence of each pair, given noisy dependences. Public side of the wall.

Few of many pairs are strongly dependent, and noise makes others look dependent. The prior is a
mixture of exponential distributions with very different means. The weights of the mixture are
estimated from all pairs together (empirical Bayes), starting from those of typical files.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dp_core.methods.mixture_weights import mixture_beliefs

_MEANS = np.array([0.003, 0.01, 0.03, 0.1, 0.3])  # parts of all records
_USUAL = np.array([0.15, 0.2, 0.25, 0.25, 0.15])  # weights of the means in typical files
_WORTH = 4.0  # prior weight of the typical file, in pairs
_ROUNDS = 60
_STEADY = 60.0  # prior weight, in pairs, if noise also depends on the columns
_GRID = np.concatenate([[0.0], np.geomspace(2e-4, 2.0, 160)])  # parts of all records


def usual(rows: float) -> float:
    """Return the mean L1 distance of pairs from independence in typical files, in records."""
    return float(_MEANS @ _USUAL) * rows


def expected_dependence(
    noisy: NDArray[np.float64], stddev: float, rows: float
) -> NDArray[np.float64]:
    """Return the posterior mean of each pair's dependence given the noisy ones, all positive.

    Args:
        noisy: Noisy L1 distances from independence, in records; may be negative.
        stddev: Standard deviation of the noise of each, in records, positive.
        rows: Number of records.
    """
    means = _MEANS * rows
    log_density, mean = exponential_under_noise(noisy[:, None], stddev, means)
    belief = mixture_beliefs(log_density, _USUAL, worth=_WORTH, rounds=_ROUNDS)
    return np.asarray((belief * mean).sum(axis=1))


def expected_near_products(
    noisy: NDArray[np.float64],
    stddev: NDArray[np.float64],
    rows: float,
    *,
    added: NDArray[np.float64],
    most: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the posterior mean of each pair's dependence given distances from products.

    The noise of the columns and the dependence have independent signs in each cell, so their sum
    has the expected distance `sqrt(dependence^2 + added^2)`.

    Args:
        noisy: Noisy L1 distances of pairs from products of estimated columns, in records.
        stddev: Standard deviation of each, in records, positive.
        rows: Number of records.
        added: Expected distance of each pair if it is independent, in records.
        most: Largest possible dependence of each pair, in records, positive.
    """
    edges = _GRID * rows
    middle, width = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
    apart = (noisy[:, None] - np.hypot(middle, added[:, None])) / stddev[:, None]
    log_likelihood = np.where(
        middle > np.maximum(most, middle[0])[:, None], -np.inf, -0.5 * apart**2
    )
    likelihood = np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True))
    means = (_MEANS * rows)[:, None]
    prior = np.exp(-middle / means) / means * width
    mass = likelihood @ prior.T
    mean = (likelihood * middle) @ prior.T / np.maximum(mass, 1e-300)
    log_mass = np.log(np.maximum(mass, 1e-300))
    belief = mixture_beliefs(log_mass, _USUAL, worth=_STEADY, rounds=_ROUNDS)
    return np.asarray((belief * mean).sum(axis=1))


def exponential_under_noise(
    noisy: NDArray[np.float64], stddev: float, means: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the log density of noisy values under each mean, and the posterior means.

    The sum of an exponential and a normal variable has the density
    `exp(s^2/(2 m^2) - x/m) Phi(x/s - s/m) / m`. Given the sum, the exponential variable has a
    normal distribution with mean `x - s^2/m`, truncated to positive values.
    """
    from scipy.special import log_ndtr

    centre = (noisy - stddev**2 / means) / stddev
    tail = log_ndtr(centre)
    log_density = stddev**2 / (2 * means**2) - noisy / means + tail - np.log(means)
    with np.errstate(over="ignore"):  # not used far below zero
        hazard = np.exp(-0.5 * centre**2 - 0.5 * math.log(2 * math.pi) - tail)
    # Far below zero the two terms cancel to about stddev / -centre.
    far = 1 / np.maximum(-centre, 1.0)
    mean = stddev * np.where(centre < -1e4, far, np.maximum(centre + hazard, 1e-9))
    return log_density, mean
