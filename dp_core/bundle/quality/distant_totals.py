"""The distance of public totals from the noisy tables. Post-processing: the file is not read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dp_core.methods.reconstruction.estimates.pooled_parts import Pooled
from dp_core.schema.structure.public_totals import PublicTotals

_FAR = 0.05
"""A smaller TVD is never far."""
_TIMES = 3.0
"""A TVD is far only above this multiple of the TVD that noise alone would give."""
_LIMIT = 6.0
"""Noise explains a sum of squared errors up to so many standard deviations above its mean."""


@dataclass(frozen=True, slots=True)
class TotalsDistance:
    """The distance of a column's public totals from its noisy counts.

    Attributes:
        column: The column.
        tvd: TVD of their proportions, 0 to 1.
        expected: Approximate TVD that noise alone would give.
    """

    column: str
    tvd: float
    expected: float

    @property
    def is_far(self) -> bool:
        """Whether the distance is more than noise explains, so that relations are distorted."""
        return self.tvd > max(_FAR, _TIMES * self.expected)


def totals_distances(totals: Sequence[PublicTotals], pooled: Pooled | None) -> list[TotalsDistance]:
    """Return the distance of each list of totals whose column was measured.

    Args:
        totals: The public totals.
        pooled: All measurements; None if they cannot be pooled.
    """
    found = []
    for each in totals if pooled is not None else ():
        assert pooled is not None
        counts, variance = pooled.counts((each.column,)), pooled.variance((each.column,))
        if counts is None or variance is None:
            continue
        known = np.maximum(counts, 0.0)
        records = max(float(known.sum()), 1.0)
        shares = np.array(each.counts) / each.records
        tvd = float(np.abs(known / records - shares).sum()) / 2
        # The mean of the absolute value of a normal error.
        error = math.sqrt(2 * max(variance, 0.0) / math.pi) / records
        found.append(TotalsDistance(each.column, tvd, min(1.0, counts.size * error / 2)))
    return found


def explained_by_noise(totals: PublicTotals, pooled: Pooled) -> bool:
    """Return whether noise explains the distance of totals from the noisy counts.

    The sum of the squared differences, each divided by its variance, has the mean n for n levels.
    If errors are independent, the variance of this sum is 5 n at most for Laplace noise, and 2 n
    for normal noise. The limit is six standard deviations above n. Without noisy counts the result
    is true.

    Args:
        totals: Public totals of a column.
        pooled: All measurements, without any totals.
    """
    if pooled.rows is not None and pooled.rows != totals.records:
        return False
    known, nested = np.array(totals.counts, dtype=np.float64), pooled.domain.nested
    if nested is not None and totals.column in nested.columns:
        areas, level = pooled.areas(()), nested.columns.index(totals.column) + 1
        if areas is None or level >= areas.levels or not areas.total:
            return True
        counts, variances = areas.values[level], areas.variance(level)
    else:
        found, variance = pooled.counts((totals.column,)), pooled.variance((totals.column,))
        if found is None or variance is None:
            return True
        counts, variances = found, np.full(known.shape, variance)
    noisy = variances > 0
    squares = (counts - known)[noisy] ** 2 / variances[noisy]
    return float(squares.sum()) <= known.size + _LIMIT * math.sqrt(5 * known.size)
