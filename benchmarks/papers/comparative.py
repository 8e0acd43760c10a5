"""What the simulations of the comparative study share (Bowen & Liu 2020, section 4).

`simulation1.py` to `simulation4.py` hold the data, the analyses, and what the library does not
have. `figures/experiments/comparative_experiments.py` runs them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import special

LOGS = tuple(range(-4, 5))
"""Logarithms of the epsilons of the figures."""
SETS = 5
"""m: independent sets, each with its part of epsilon."""


def combine(
    estimates: NDArray[np.float64], variances: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return estimate and half the width of its 95 % interval, from m sets or from one.

    Equations 9 to 11, with the sets along the last axis: T = W + B/m with
    (m - 1)(1 + m W/B)^2 degrees of freedom.
    """
    sets = estimates.shape[-1]
    within = variances.mean(axis=-1)
    if sets == 1:
        return estimates[..., 0], special.ndtri(0.975) * np.sqrt(within)
    between = estimates.var(axis=-1, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        freedom = (sets - 1) * (1 + sets * within / between) ** 2
    # Beyond a million it is normal; so it is where all sets agree.
    freedom = np.nan_to_num(np.minimum(freedom, 1e6), nan=1e6)
    half = special.stdtrit(freedom, 0.975) * np.sqrt(within + between / sets)
    return estimates.mean(axis=-1), half


def moments(
    records: NDArray[np.float64],
) -> tuple[
    tuple[NDArray[np.float64], NDArray[np.float64]],
    tuple[NDArray[np.float64], NDArray[np.float64]],
]:
    """Return mean and variance of each sample (last axis), each with its estimated variance.

    The variance of a sample variance is s^4 (2/(n - 1) + excess kurtosis/n).
    """
    size = records.shape[-1]
    mean = records.mean(axis=-1)
    square = (records - mean[..., None]) ** 2
    second, fourth = square.mean(axis=-1), (square**2).mean(axis=-1)
    kurtosis = np.divide(fourth, second**2, out=np.full(second.shape, 3.0), where=second > 0) - 3
    variance = second * size / (size - 1)
    spread = variance**2 * np.maximum(2 / (size - 1) + kurtosis / size, 0.0)
    return (mean, variance / size), (variance, spread)
