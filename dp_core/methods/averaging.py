"""Model averaging: several models each draw an equal part of the records."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dp_core.kernel.counting.dataset import Dataset
from dp_core.methods.reconstruction.reconstructor import Sampler


def check_models(models: Sequence[str]) -> None:
    """Check the names of the methods of an average.

    Raises:
        ValueError: if they are not at least two, each once, or if one is an average itself.
    """
    if len(models) < 2 or len(set(models)) != len(models):
        raise ValueError("models must name at least two methods, each once.")
    if "average" in models:
        raise ValueError("An average cannot contain another average; name its models directly.")


def draw(models: Sequence[Sampler], rows: int, *, rng: np.random.Generator) -> Dataset:
    """Return records of several models in random order, of each the same number to within one.

    Weights fitted to the confidential file would have to be paid for.

    Args:
        models: Models to draw from, at least one.
        rows: Number of records.
        rng: Generator; same state, same records.
    """
    each, left = divmod(rows, len(models))
    drawn = [model.sample(each + (at < left), rng=rng) for at, model in enumerate(models)]
    codes = np.concatenate([data.codes for data in drawn], axis=1)
    return Dataset(drawn[0].domain, np.ascontiguousarray(codes[:, rng.permutation(rows)]))
