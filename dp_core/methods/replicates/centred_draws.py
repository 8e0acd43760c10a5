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


def stratified_uniforms(sets: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return uniform numbers, shape (sets, size), of which each column has one in each m-th part.

    Args:
        sets: Number of sets, m.
        size: Number of columns.
        rng: Generator; same state, same numbers.
    """
    return (np.argsort(rng.random((sets, size)), axis=0) + rng.random(size)) / sets


def systematic_choices(
    weights: NDArray[np.float64], sets: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return a choice for each set, in proportion to the weights (systematic sampling).

    Args:
        weights: Weight of each choice, shape (choices,), not negative.
        sets: Number of sets.
        rng: Generator; same state, same choices.

    Returns:
        Places in `weights`, shape (sets,), in random order.
    """
    ends = np.cumsum(weights)
    places = (np.arange(sets) + rng.random()) / sets * ends[-1]
    return rng.permutation(np.minimum(np.searchsorted(ends, places), weights.size - 1))
