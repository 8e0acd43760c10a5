"""Model averaging: of several models each draws its part, by weights that the spec states."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Literal, Protocol

import numpy as np

from dp_core.tables.dataset import Dataset

By = Literal["record", "set"]
"""Whether every set is a mixture of the models' records, or the work of one of them."""


class Drawing(Protocol):
    """What averaging needs of a model."""

    def sample(self, rows: int, *, rng: np.random.Generator) -> Dataset:
        """Return so many records."""


def check_weights(models: Sequence[str], weights: Sequence[Fraction]) -> None:
    """Refuse what is no average.

    Raises:
        ValueError: naming the option.
    """
    if len(models) < 2 or len(set(models)) != len(models):
        raise ValueError("models names at least two methods, each once.")
    if weights and len(weights) != len(models):
        raise ValueError(f"weights has {len(weights)} numbers for {len(models)} models.")
    if any(weight <= 0 for weight in weights):
        raise ValueError("weights are above 0; leave out a model that is to count nothing.")


def parts(models: Sequence[str], weights: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """Return each model's part, summing to exactly 1; equal parts where no weights are stated.

    >>> parts(("gum", "pgm"), (Fraction(3), Fraction(1)))
    (Fraction(3, 4), Fraction(1, 4))
    """
    stated = tuple(weights) or (Fraction(1),) * len(models)
    return tuple(weight / sum(stated, Fraction(0)) for weight in stated)


def shares_of(rows: int, weights: Sequence[Fraction]) -> tuple[int, ...]:
    """Return how many of `rows` records each model draws, by largest remainders.

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
    by: By,
    rng: np.random.Generator,
) -> Dataset:
    """Return records of several models, in random order.

    Args:
        models: At least one.
        weights: Their parts, summing to 1.
        rows: Number of records.
        by: `record`: of every set each model draws its part. `set`: one model, chosen by the
            weights, draws the whole set, so that the sets differ as the models do; Hoeting,
            Madigan, Raftery & Volinsky (1999), where they are posterior probabilities.
        rng: Same state, same records.
    """
    if by == "set":
        chosen = rng.choice(len(models), p=[float(weight) for weight in weights])
        return models[chosen].sample(rows, rng=rng)
    drawn = [
        model.sample(number, rng=rng)
        for model, number in zip(models, shares_of(rows, weights), strict=True)
    ]
    codes = np.concatenate([data.codes for data in drawn], axis=1)
    return Dataset(drawn[0].domain, np.ascontiguousarray(codes[:, rng.permutation(rows)]))
