"""Trends of pairs of ordered columns: one noisy sum each, at the price of one count.

The trend of a pair is the sum, over the records that have both values, of the product of the two
columns' scaled codes. A scaled code is the distance of the code from the column's mean, in units of
two standard deviations, cut to [-1, 1]; both follow from noisy one-way tables. So a record changes
a trend by at most 1, as it does a count, and correlations of many pairs cost less than one table of
a few hundred cells. A column of two levels is ordered, too.

The kernel answers a trend as the score of a regression of the one code on the other at 0
(`Scores`), which is minus the trend.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import Released, Totals
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.questions.descriptions import fields_from_json, fields_json
from dp_core.kernel.questions.regressions.features import ONE, Features, Number
from dp_core.kernel.questions.regressions.gradients import COEFFICIENT
from dp_core.kernel.questions.regressions.shortened import UNIT, Scores
from dp_core.methods.code_values import scores_of
from dp_core.methods.replicates.posterior.known_sums import KnownSums
from dp_core.schema.definition import Schema

Floats = NDArray[np.float64]

UNITS = ONE * UNIT
"""Units of a score in one record."""
_REACH = 2  # standard deviations of a column's codes that are scaled to 1
_CLEAR = 4.0  # standard deviations of its noise above which a level's count enters the moments


@dataclass(frozen=True, slots=True)
class Trend:
    """The trend of a pair, to be measured. Public.

    Attributes:
        one: Scale of the first column's codes.
        other: Scale of the second column's codes.
        weight: Part of the measuring budget.
    """

    one: Number
    other: Number
    weight: Fraction

    @property
    def pair(self) -> Clique:
        """The two columns."""
        return self.one.name, self.other.name

    def to_json(self) -> dict[str, Any]:
        """Return plain values that define the trend."""
        scales = [fields_json(scale) for scale in (self.one, self.other)]
        return {"scales": scales, "weight": str(self.weight)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Trend:
        """Return the trend that `to_json` described."""
        one, other = (fields_from_json(Number, scale) for scale in document["scales"])
        return cls(one, other, Fraction(document["weight"]))

    def question(self) -> Scores:
        """Return the question whose only entry is minus the trend, in 1/(`ONE` `UNIT`)."""
        return Scores(
            features=Features((self.one,)),
            transform=(0, COEFFICIENT),
            length_limit=UNITS,
            outcome=self.other,
            at=(0, 0),
        )


def ordered_columns(schema: Schema) -> dict[str, int]:
    """Return the number of ordered codes of each ordered column; larger codes mean missing.

    Columns of numbers, of ranked levels and of two levels are ordered.
    """
    ordered = {*scores_of(schema)}
    return {
        column.name: column.bins
        for column in schema.columns
        if column.bins > 1 and (column.name in ordered or column.bins == 2)
    }


def scale_of(name: str, counts: Floats, noise: float, positions: int) -> Number | None:
    """Return how a column's codes are scaled, by its noisy one-way table.

    Only levels that stand out from noise count: the noise of the empty levels of wide bounds would
    make any column look wide.

    Args:
        name: The column.
        counts: Estimated counts, in records, shape (codes,).
        noise: Standard deviation of their noise, in records.
        positions: Number of ordered codes; the counts of larger codes are left out.

    Returns:
        The scale; None if fewer than two levels stand out.
    """
    weights = counts[:positions] * (counts[:positions] > _CLEAR * noise)
    clear = np.flatnonzero(weights)
    if clear.size < 2:
        return None
    codes = np.arange(positions)
    mean = float(np.average(codes, weights=weights))
    spread = float(np.average((codes - mean) ** 2, weights=weights)) ** 0.5
    farthest = max(mean - clear[0], clear[-1] - mean)
    # In half steps, about the middle of the range.
    return Number.line(
        name,
        positions,
        centre=round(2 * mean - (positions - 1)),
        reach=max(round(2 * min(_REACH * spread, farthest)), 1),
    )


def scaled_codes(number: Number, size: int) -> Floats:
    """Return the scaled value of each code, between -1 and 1; 0 for missing."""
    return np.asarray(number.scaled(np.arange(size)) / ONE, dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class NoisyTrend:
    """A measured trend. Public.

    Attributes:
        pair: The two columns.
        weights: Product of the scaled codes of each cell, shape of the pair's table.
        value: Noisy trend, in records.
        variance: Variance of its noise, records squared.
    """

    pair: Clique
    weights: Floats
    value: float
    variance: float

    def beyond(self, expected: Floats) -> KnownSums:
        """Return the trend of the deviation from expected counts, in records, of the pair."""
        rest = self.value - float((self.weights * expected).sum())
        return KnownSums(self.weights[None], np.array([rest]), np.array([[self.variance]]))


def trends_of(domain: Domain, released: Sequence[Released]) -> list[NoisyTrend]:
    """Return the trends among released results: the scores that the measuring budget paid for.

    Args:
        domain: All columns.
        released: Noisy results of one measurement.
    """
    found = []
    for item in released:
        if not is_trend(item):
            continue
        assert isinstance(item.of, Scores)
        pair = domain.project(item.of.clique)
        # As the kernel adds them up, to the last digit.
        cells = np.indices(pair.sizes).reshape(2, -1).T
        weights = -item.of.vectors(cells)[:, 0].reshape(pair.sizes) / UNITS
        noisy = -float(item.values[0]) / UNITS
        found.append(NoisyTrend(pair.columns, weights, noisy, item.variance / UNITS**2))
    return found


def is_trend(item: Released) -> TypeGuard[Totals]:
    """Return whether a released result is a trend: a score that the measuring budget paid for."""
    return isinstance(item, Totals) and item.stage == "measure" and isinstance(item.of, Scores)
