"""Simulation 2 of the comparative study (Bowen & Liu 2020, section 4.2): one normal number.

    PYTHONPATH=. python -m benchmarks.papers.figures run simulation-2

Numbers from N(0, sigma^2), moved into [-3 sigma, 4 sigma] (or [-4 sigma, 4 sigma], as in the
supplement), n = 20, 100 and 1000, epsilon e^-4 to e^4. Everything scales with sigma, so it is 1. As
the paper has it, one record is replaced and n is public, but a histogram's sensitivity is 1. The
number of its bins follows Scott's rule with the public sigma: 6, 10 and 20 (8 sigma: 7, 11 and 23),
where the paper's, from the sample's deviation, are 7, 10 and 21 in the median.

`published` is MODIPS as published: noise on the mean and on the variance, each with half of
epsilon/5, at sensitivities R/n and R^2/n. Its noise is continuous and seeded and protects nobody.
All other private sets are those of the library, whose `modips` measures sums and squares about the
middle of the range, at R and R^2/4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.papers.comparative import SETS

SIZES = (20, 100, 1000)
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Setting:
    """One scenario.

    Attributes:
        size: n, public.
        low, high: Public bounds.
        bins: Of the histograms, public; 0 for Scott's rule: a width of 3.5 n^(-1/3).
    """

    size: int
    low: float = -3.0
    high: float = 4.0
    bins: int = 0

    @property
    def width(self) -> float:
        """R."""
        return self.high - self.low

    def __post_init__(self) -> None:
        if not self.bins:
            bins = math.ceil(self.width * self.size ** (1 / 3) / 3.5 - 1e-9)
            object.__setattr__(self, "bins", bins)


def normal_sets(
    mean: Floats, variance: Floats, setting: Setting, rng: np.random.Generator
) -> Floats:
    """Return sets by posterior draws of mean and variance: the prior is 1/sigma^2.

    Args:
        mean: Of each set, any shape.
        variance: Of each set, of the same shape.
        setting: Of the simulation.
        rng: For the draws.

    Returns:
        Records, one more axis of `size`; those out of bounds are moved to them.
    """
    n = setting.size
    mean = np.clip(mean, setting.low, setting.high)
    variance = np.clip(variance, 0.0, setting.width**2 / 4 * n / (n - 1))
    drawn = (n - 1) * variance / rng.chisquare(n - 1, variance.shape)
    centre = mean + np.sqrt(drawn / n) * rng.standard_normal(mean.shape)
    found = rng.standard_normal((*mean.shape, n))
    found *= np.sqrt(drawn)[..., None]
    found += centre[..., None]
    return np.clip(found, setting.low, setting.high, out=found)


def published(data: Floats, epsilon: float, setting: Setting, rng: np.random.Generator) -> Floats:
    """Return m sets by MODIPS as published, shape (repeats, m, n)."""
    shape, each = (len(data), SETS), epsilon / SETS / 2
    noisy = data.mean(1)[:, None] + rng.laplace(0, setting.width / data.shape[1] / each, shape)
    scale = setting.width**2 / data.shape[1] / each
    variance = data.var(1, ddof=1)[:, None] + rng.laplace(0, scale, shape)
    return normal_sets(noisy, variance, setting, rng)


def multiple(data: Floats, _: float, setting: Setting, rng: np.random.Generator) -> Floats:
    """Return m sets without any privacy, shape (repeats, m, n)."""
    shape = (len(data), SETS)
    mean = np.broadcast_to(data.mean(1)[:, None], shape)
    return normal_sets(mean, np.broadcast_to(data.var(1, ddof=1)[:, None], shape), setting, rng)
