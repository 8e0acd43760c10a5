"""Random generators of post-processing, derived from the seed of the plan."""

from __future__ import annotations

import numpy as np


def generator(seed: int, purpose: str, number: int) -> np.random.Generator:
    """Return the generator of one piece of post-processing; the seed belongs to the plan."""
    return np.random.default_rng([seed, number, *purpose.encode()])
