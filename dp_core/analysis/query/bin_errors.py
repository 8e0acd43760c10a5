"""How far answers about a number may be off because tables do not show where in its bin a value is.

An estimate represents each bin by the density that is fitted to the noisy counts. How far the mean
of a bin may be from that of its density follows from the same counts
(`dp_core.methods.bin_density.bin_bias`). The errors of two groups are nearly the same, because
the same values are frequent in both, so they cancel in a difference, except for a part.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from dp_core.analysis.query.asked_counts import Asked
from dp_core.inference.questions.question import Condition
from dp_core.methods.bin_density.bin_bias import BinBias, bin_bias, unknown_bias
from dp_core.methods.reconstruction.estimates.area_parts import Floats
from dp_core.methods.reconstruction.estimates.pooled_functionals import (
    covariance,
    estimate,
    unobserved,
)
from dp_core.methods.reconstruction.estimates.pooled_parts import Pooled
from dp_core.schema.definition import Column

OF_GROUP = 0.1
"""Part of the variance of the mean of a bin that is a group's own. With it, differences between
groups of 31 columns in 6 kinds of bins are covered in .96 of all cases."""
ROUNDED = 0.1
"""Standard error of a quantile in its bin by rounding, in lengths of the bin: a quantile is a value
of the file, which may be a round number. With it, the same columns are covered in .97."""


@dataclass(frozen=True, slots=True, eq=False)
class BinErrors:
    """Errors of sums of values, one for each group.

    Attributes:
        column: The number.
        errors: Independent errors of each sum, shape (..., bins + 1) (`BinBias.errors`).
        own: Variance of each sum that it has in common with no other, shape (...): because the
            density in bins may lean towards the group's mean, and values are drawn.
    """

    column: Column
    errors: Floats
    own: Floats

    def covariance(self, other: BinErrors) -> Floats:
        """Return the covariance with other sums of the same groups; with itself, the variance.

        Errors in other bins, such as those of another column, are taken as independent.
        """
        if other.column.edges != self.column.edges:
            return np.zeros(self.own.shape)
        common = np.sum(self.errors * other.errors, axis=-1)
        return np.asarray(common + self.own if self is other else (1 - OF_GROUP) * common)

    def over(self, counts: Floats) -> BinErrors:
        """Return the errors of the sums divided by counts, shape (...); 0 if none is above 0."""
        parts = np.where(counts > 0, 1 / np.where(counts > 0, counts, 1.0), 0.0)
        return BinErrors(self.column, self.errors * parts[..., None], self.own * parts**2)

    def flat(self) -> BinErrors:
        """Return the errors with the groups on one axis, row by row."""
        errors = self.errors.reshape(-1, self.errors.shape[-1])
        return BinErrors(self.column, errors, self.own.ravel())

    def at(self, places: Sequence[int]) -> BinErrors:
        """Return the errors of some groups, which are on one axis."""
        index = np.array(places, dtype=np.intp)
        return BinErrors(self.column, self.errors[index], self.own[index])


def bin_errors(
    pooled: Pooled, asked: Asked, conditions: Iterable[Condition] = (), *, sampling: bool = False
) -> BinErrors:
    """Return the errors of the sums of a number's values in the groups of a question.

    Args:
        pooled: The noisy tables, which determine the counts.
        asked: The question, or its part about one wave.
        conditions: Conditions besides `where`.
        sampling: Whether the file is a sample, so that values within bins are drawn; False by
            default.
    """
    column = asked.schema.column(str(asked.question.number))
    records = asked.apart(estimate(pooled, asked.by_bin(conditions)), column.bins)
    records = np.maximum(records, 0.0)
    bias = bias_of(pooled, asked)
    own = np.square(bias.tilts(records))
    if sampling:
        own = own + records @ bias.spread**2
    return BinErrors(column, bias.errors(records, bias.doubts(records)), own)


def places_in_bins(pooled: Pooled, asked: Asked) -> tuple[Floats, Floats]:
    """Return how little is known of the place of a quantile in each bin, as parts of the bin.

    Args:
        pooled: The noisy tables.
        asked: The question.

    Returns:
        The standard error of the mean place of the bin's values, and the part of its records that
        may be at any place; shape (groups, bins) each, in the order of `asked.labels()`.
    """
    column, found = asked.schema.column(str(asked.question.number)), bias_of(pooled, asked)
    records = asked.apart(estimate(pooled, asked.by_bin()), column.bins)
    records = np.maximum(records, 0.0).reshape(-1, column.bins)
    low, high = (each[: column.bins] for each in asked.bounds)
    length = np.where(high > low, high - low, math.inf)
    errors, anywhere = found.doubts(records) / length, found.anywhere(records)
    # If a bin's mean is as uncertain as that of one value at any place in it, nothing is known.
    anywhere = np.maximum(anywhere, np.minimum(math.sqrt(12) * errors, 1.0) ** 4)
    return np.hypot(errors, ROUNDED), anywhere


def bias_of(pooled: Pooled, asked: Asked) -> BinBias:
    """Return what the bins of a question's number do; see `bin_errors`.

    If the counts do not tell, values may be anywhere in their bins.
    """
    column = asked.schema.column(str(asked.question.number))
    counts, found = asked.all_by_bin(), None
    if not unobserved(pooled, counts):
        variance = float(np.mean(covariance(pooled, counts, counts)))
        found = bin_bias(column, estimate(pooled, counts), math.sqrt(max(variance, 0.0)))
    return unknown_bias(column) if found is None else found
