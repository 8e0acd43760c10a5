"""Draws for m sets that are centred, and scaled for Rubin's rule.

The mean of the draws would be a common error of all sets, so it is subtracted. Then they are
multiplied by sqrt(m/(m + 1)). So the expectation of (1 + 1/m) B, and not that of B, is the variance
of an independent draw.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray


def centred(draws: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return draws that sum to 0 over the sets, scaled for Rubin's rule.

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


def shared_out(
    probabilities: NDArray[np.float64], sets: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return a choice for each set, as often as its probability says (systematic sampling).

    Args:
        probabilities: Weight of each choice, shape (choices,), not negative.
        sets: Number of sets.
        rng: Generator; same state, same choices.

    Returns:
        Places in `probabilities`, shape (sets,), in random order.
    """
    ends = np.cumsum(probabilities)
    places = (np.arange(sets) + rng.random()) / sets * ends[-1]
    return rng.permutation(np.minimum(np.searchsorted(ends, places), probabilities.size - 1))
