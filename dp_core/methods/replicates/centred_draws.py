"""Draws for m sets that are centred, and shortened as Rubin's rule needs.

The mean of the draws would be a common error of all sets, so it is subtracted; that leaves
(1 - 1/m) of the variance. The factor sqrt(m/(m + 1)) makes it (m - 1)/(m + 1) of the variance, so
that (1 + 1/m) B, and not B, has the variance of the draws in expectation.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray


def centred(draws: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return draws that sum to 0 over the sets, shortened for Rubin's rule.

    Args:
        draws: Independent draws, shape (sets, ...), at least 2 sets.
    """
    sets = len(draws)
    return np.asarray((draws - draws.mean(axis=0)) * math.sqrt(sets / (sets + 1)))


def centred_normals(
    sets: int, shape: tuple[int, ...], rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return centred draws of standard normal variables, shape (sets, *shape)."""
    return centred(rng.normal(size=(sets, *shape)))
