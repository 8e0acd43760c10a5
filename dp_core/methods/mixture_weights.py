"""Weights of a mixture that are learned from many items together (empirical Bayes)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def mixture_beliefs(
    log_likelihood: NDArray[np.float64],
    usual: NDArray[np.float64],
    *,
    worth: float,
    rounds: int,
) -> NDArray[np.float64]:
    """Return the posterior probability of each component for each item.

    The weights of the components are common to all items. Expectation maximisation finds those of
    the largest posterior density, given usual weights that count as `worth` further items.

    Args:
        log_likelihood: Of each item under each component, shape (items, components), at least one
            item; a constant may be added to each row.
        usual: Weights of the components in typical files, shape (components,), with sum 1.
        worth: Weight of the typical file, as a number of items.
        rounds: Rounds of expectation maximisation.

    Returns:
        Shape (items, components); each row has sum 1.

    >>> far = np.array([[0.0, -50.0], [0.0, -50.0], [-50.0, 0.0]])
    >>> mixture_beliefs(far, np.array([0.5, 0.5]), worth=1.0, rounds=10).round(3).tolist()
    [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    """
    likelihood = np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True))

    def beliefs(weights: NDArray[np.float64]) -> NDArray[np.float64]:
        found = likelihood * weights
        return np.asarray(found / found.sum(axis=1, keepdims=True))

    weights = usual
    for _ in range(rounds):
        weights = beliefs(weights).sum(axis=0) + worth * usual
        weights = weights / weights.sum()
    return beliefs(weights)
