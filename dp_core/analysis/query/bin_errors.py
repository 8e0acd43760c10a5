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
from dp_core.analysis.query.sources import Sources
from dp_core.inference.count_intervals import PlaceErrors
from dp_core.inference.questions.question import Condition
from dp_core.methods.bin_density.bin_bias import BinBias, bin_bias, unknown_bias
from dp_core.methods.bin_density.fitting import ends_of
from dp_core.methods.reconstruction.estimates.area_parts import Floats
from dp_core.methods.reconstruction.estimates.pooled_functionals import (
    covariance,
    estimate,
    unobserved,
)
from dp_core.methods.reconstruction.estimates.pooled_parts import Pooled
from dp_core.metrics.noise_quantiles import central_quantile
from dp_core.schema.definition import Column

OF_GROUP = 0.1
"""Part of the variance of a bin's mean that two groups do not have in common. Chosen like
`dp_core.methods.bin_density.bin_bias.TOGETHER`: at least .96 of differences were covered."""
HEAPS_OF_GROUP = 0.5
"""The same part of the variance by heaps: two groups may have theirs in other places, as wages at
the minimum of a region."""
ROUNDED = 0.1
"""Part of a bin over which rounding may bring records together, for a quantile, which may be a
round number itself."""


@dataclass(frozen=True, slots=True, eq=False)
class BinErrors:
    """Errors of sums of values, one for each group.

    Attributes:
        column: The number.
        errors: Standard deviations of independent errors of each sum, shape (..., bins + 2)
            (`BinBias.errors_of_totals`).
        own: Variance of each sum that no other sum shares, shape (...): the density of its group
            may differ within bins, and with sampling, values are drawn.
    """

    column: Column
    errors: Floats
    own: Floats

    @property
    def variance(self) -> Floats:
        """Variance of each sum, shape (...)."""
        return np.asarray(np.sum(np.square(self.errors), axis=-1) + self.own)

    def covariance(self, other: BinErrors) -> Floats:
        """Return the covariance with the sums of other groups, or of another wave or release.

        Errors in other bins, such as those of another column, are taken as independent.
        """
        if other.column.edges != self.column.edges:
            return np.zeros(self.own.shape)
        common = np.full(self.errors.shape[-1], 1 - OF_GROUP)
        common[-2] = 1 - HEAPS_OF_GROUP
        return np.asarray((self.errors * other.errors) @ common)

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
    sources: Sources, asked: Asked, conditions: Iterable[Condition] = (), *, sampling: bool = False
) -> BinErrors:
    """Return the errors of the sums of a number's values in the groups of a question.

    Args:
        sources: What the question is answered from; the tables determine the counts.
        asked: The question, or its part about one wave.
        conditions: Conditions besides `where`.
        sampling: Whether the file is a sample, so that values within bins are drawn; False by
            default.
    """
    column = asked.number_column
    records = records_by_bin(sources, asked, conditions)
    bias = bias_of(sources.pooled, asked)
    own = np.square(bias.tilts(records))
    if sampling:
        own = own + records @ bias.spread**2
    return BinErrors(column, bias.errors_of_totals(records), own)


def place_errors(sources: Sources, asked: Asked, level: float) -> PlaceErrors:
    """Return how uncertain the places of quantiles in bins are, in the order of `asked.labels()`.

    Args:
        sources: What the question is answered from.
        asked: The question.
        level: Confidence level of its interval.
    """
    column, found = asked.number_column, bias_of(sources.pooled, asked)
    records = records_by_bin(sources, asked).reshape(-1, column.bins)
    first, last = ends_of(column)
    length = np.where(last > first, last - first, math.inf)
    errors, anywhere = found.doubts(records) / length, found.anywhere(records)
    # If a bin's mean is as uncertain as one value at any place in it, nothing is known. The power
    # keeps the part small where the mean is known better.
    anywhere = np.maximum(anywhere, np.minimum(math.sqrt(12) * errors, 1.0) ** 4)
    return PlaceErrors(errors, anywhere, ROUNDED, float(central_quantile(level)))


def records_by_bin(sources: Sources, asked: Asked, conditions: Iterable[Condition] = ()) -> Floats:
    """Return the numbers of records by bin of a question's number, at least 0, by group.

    They are those of the sets if these tell the question, otherwise those of the tables.
    """
    cells = asked.by_bin(conditions)
    counts = None if sources.set_counts is None else sources.set_counts.sums(cells)
    if counts is None:
        counts = np.maximum(estimate(sources.pooled, cells), 0.0)
    return asked.with_last_axis(counts, asked.number_column.bins)


def bias_of(pooled: Pooled, asked: Asked) -> BinBias:
    """Return what the bins of a question's number do; see `bin_errors`.

    If the counts do not tell, values may be anywhere in their bins.
    """
    column = asked.number_column
    counts, found = asked.all_by_bin(), None
    if not unobserved(pooled, counts):
        variance = float(np.mean(covariance(pooled, counts, counts)))
        found = bin_bias(column, estimate(pooled, counts), math.sqrt(max(variance, 0.0)))
    return unknown_bias(column) if found is None else found
