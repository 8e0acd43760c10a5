"""The chances of a private choice, exactly: by the scores and the scale that the drawing is handed.

Draws of the choice are held to these laws by `tests/distributions/test_noise.py`, and the whole way
through the curator is audited by draws in `test_audit.py`. What is left of a statistic is how far
its scores move and what sensitivity the kernel takes for them; that takes no draws.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from dp_core.client.curator import Curator
from dp_core.kernel.mechanisms import private_choice
from dp_core.kernel.questions.statistic import Statistic


def exponential_mechanism(scores: NDArray[np.int64], scale: float) -> NDArray[np.float64]:
    """Return the chances of the largest score with Gumbel noise."""
    weights = np.exp((scores - scores.max()) / scale)
    return weights / weights.sum()


def permute_and_flip(scores: NDArray[np.int64], scale: float) -> NDArray[np.float64]:
    """Return the chances of the largest score with exponential noise.

    McKenna & Sheldon (2020), Algorithm 1, by going through every order.
    """
    heads = np.exp((scores - scores.max()) / scale)
    chance = np.zeros(len(scores))
    orders = list(itertools.permutations(range(len(scores))))
    for order in orders:
        reached = 1.0 / len(orders)
        for candidate in order:
            chance[candidate] += reached * heads[candidate]
            reached *= 1 - heads[candidate]
    return chance


def chances(
    patch: pytest.MonkeyPatch, curator: Curator, statistic: Statistic, cost: Fraction
) -> NDArray[np.float64]:
    """Return with what chance the kernel chooses each entry, for a charge of `cost`."""
    asked = []

    def noise(scores: NDArray[np.int64], scale: Fraction, *, gumbel: bool) -> int:
        law = exponential_mechanism if gumbel else permute_and_flip
        asked.append(law(scores, float(scale)))
        return 0

    with patch.context() as here:
        # In place of the sampler: the kernel computes, charges and hands over as ever.
        here.setattr(private_choice, "noisy_max", noise)
        curator.choose("select", "x", statistic, cost)
    (found,) = asked
    return found


def loss(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the largest privacy loss between two laws of a choice: a pure epsilon."""
    return float(np.abs(np.log(first) - np.log(second)).max())
