"""Model averaging: several models each draw a part of the records, with public weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Protocol

import numpy as np

from dp_core.kernel.counting.dataset import Dataset


class Drawing(Protocol):
    """The interface that averaging requires of a model."""

    def sample(self, rows: int, *, rng: np.random.Generator) -> Dataset:
        """Return `rows` synthetic records; same `rng` state, same records."""


def check_weights(models: Sequence[str], weights: Sequence[Fraction]) -> None:
    """Check the models and weights of an average.

    Args:
        models: Names of the methods: at least two, each once.
        weights: One positive number per model, or none for equal weights.

    Raises:
        ValueError: if they are not as described; the message names the option.
    """
    if len(models) < 2 or len(set(models)) != len(models):
        raise ValueError("models must name at least two methods, each once.")
    if weights and len(weights) != len(models):
        raise ValueError(f"weights has {len(weights)} numbers for {len(models)} models.")
    if any(weight <= 0 for weight in weights):
        raise ValueError("weights must be above 0; to give a model no weight, leave it out.")


def parts(models: Sequence[str], weights: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """Return each model's part, summing to exactly 1; equal parts without weights.

    >>> parts(("gum", "pgm"), (Fraction(3), Fraction(1)))
    (Fraction(3, 4), Fraction(1, 4))
    """
    stated = tuple(weights) or (Fraction(1),) * len(models)
    return tuple(weight / sum(stated, Fraction(0)) for weight in stated)


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
    models: Sequence[Drawing],
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
