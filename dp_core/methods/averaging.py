"""Model averaging: several models each draw an equal part of the records."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

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


def parts(models: Sequence[str]) -> tuple[Fraction, ...]:
    """Return the equal parts of the models, summing to exactly 1.

    Weights fitted to the confidential file would have to be paid for.

    >>> parts(("gum", "pgm"))
    (Fraction(1, 2), Fraction(1, 2))
    """
    return (Fraction(1, len(models)),) * len(models)


def shares_of(rows: int, weights: Sequence[Fraction]) -> tuple[int, ...]:
    """Return the number of records that each model draws, by the largest-remainder method.

    >>> shares_of(10, (Fraction(2, 3), Fraction(1, 3)))
    (7, 3)
    """
    exact = [rows * weight for weight in weights]
    found = [math.floor(number) for number in exact]
    order = sorted(range(len(found)), key=lambda index: found[index] - exact[index])
    for index in order[: rows - sum(found)]:
        found[index] += 1
    return tuple(found)


def draw(
    models: Sequence[Sampler],
    weights: Sequence[Fraction],
    rows: int,
    *,
    rng: np.random.Generator,
) -> Dataset:
    """Return records of several models, each with its part of the records, in random order.

    Args:
        models: Models to draw from, at least one.
        weights: Part of each model, summing to 1.
        rows: Number of records.
        rng: Generator; same state, same records.
    """
    drawn = [
        model.sample(number, rng=rng)
        for model, number in zip(models, shares_of(rows, weights), strict=True)
    ]
    codes = np.concatenate([data.codes for data in drawn], axis=1)
    return Dataset(drawn[0].domain, np.ascontiguousarray(codes[:, rng.permutation(rows)]))
