"""What noisy entries of an interaction say of its table. Public."""

from __future__ import annotations

from math import prod, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.questions.linear_questions import Interaction, contrast_weights, squared_norm


def implied_table(of: Interaction, values: NDArray[Any]) -> NDArray[np.float64]:
    """Return the table that entries imply, shape `of.sizes`, in records.

    It adds up to 0 along every axis. Of exact entries it is the orthogonal projection of the
    counts: rows have the norms that they have, not K.

    Args:
        of: The interaction.
        values: Entries, shape (length,).
    """
    table = np.asarray(values, dtype=np.float64).reshape([size - 1 for size in of.sizes])
    for axis, size in enumerate(of.sizes):
        along = (-1, *[1] * (table.ndim - 1))
        steps = np.arange(1, size).reshape(along)
        weights = contrast_weights(size, len(of.sizes)).reshape(along)
        part = np.moveaxis(table, axis, 0) / (weights * steps * (steps + 1))
        found = np.zeros((size, *part.shape[1:]))
        found[:-1] = np.cumsum(part[::-1], axis=0)[::-1]
        found[1:] -= steps * part
        table = np.moveaxis(found, 0, axis)
    return np.ascontiguousarray(table)


def steps_of_a_record(of: Interaction) -> float:
    """Return the steps of the entries that are one record: the product of the columns' K."""
    return prod(sqrt(squared_norm(size, len(of.sizes))) for size in of.sizes)


def cell_variance(of: Interaction, variance: float) -> float:
    """Return s^2, records squared, such that the noise of `implied_table` has covariance s^2 P.

    P is the projection. So the interaction is known as from a whole table with noise of variance
    s^2 in every cell. A column's rows differ from the norm K by 1 in 64 at most, and those of two
    codes not at all.

    Args:
        of: The interaction.
        variance: Variance of the noise on each entry, in steps squared.
    """
    return variance / steps_of_a_record(of) ** 2


def cell_stddev(of: Interaction, stddev: float) -> float:
    """Return the standard deviation of the noise in a cell of `implied_table`, records.

    Args:
        of: The interaction.
        stddev: Standard deviation of the noise on each entry, in steps.
    """
    return stddev / steps_of_a_record(of) * sqrt(of.length / prod(of.sizes))
