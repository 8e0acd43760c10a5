"""Noisy sums of columns and of pairs, from the second moments of a declared analysis.

Posterior sets are drawn given these sums. So they show the relations of a declared analysis even if
the noise of the tables hides them, and a number has the variance that was measured.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dp_core.client.released import Totals
from dp_core.kernel.counting.domain import Clique
from dp_core.methods.declared.declared_moments import MeasuredMoments, measured_moments
from dp_core.methods.declared.declared_regression import (
    Codes,
    DeclaredRegression,
    Floats,
    own_ends,
    own_places,
)
from dp_core.methods.declared.whitening import positive
from dp_core.methods.replicates.posterior.known_sums import KnownSums
from dp_core.schema.definition import Column, Schema

MOST_SUMS = 100
"""Largest number of sums of a pair; larger pairs are left to their tables."""
_MISJUDGED = 0.3  # relative error of the model records about what the limit takes


def told_sums(
    regression: DeclaredRegression,
    answer: Totals,
    codes: Codes,
    records: float,
    schema: Schema,
    scores: Mapping[str, Floats],
) -> dict[Clique, KnownSums]:
    """Return the noisy sums of each number and of each pair of columns, in the schema's order.

    Columns that may be missing are left out, because the sums are over complete records.

    Args:
        regression: The regression.
        answer: Its noisy `SecondMoments`.
        codes: Model records without missing values, shape (records, columns).
        records: Number of records of the file without missing values.
        schema: Schema of the release.
        scores: Mean value of each code of the numeric columns, in the unit of the column.
    """
    told = _Told.of(regression, answer, codes, records)
    places = own_places(regression.together, schema)
    names = [
        name
        for name in schema.domain.columns
        if name in places and schema.column(name).missing_code is None
    ]
    features = {name: _features(regression, schema.column(name), scores) for name in names}
    found: dict[Clique, KnownSums] = {}
    for name in names:
        if not schema.column(name).levels:
            spread = _spread(schema.column(name))
            found[name,] = _of_number(told, places[name][0], features[name][0], spread)
    for one, other in itertools.combinations(names, 2):
        pairs = list(itertools.product(places[one], places[other]))
        if len(pairs) <= MOST_SUMS:
            weights = [
                np.multiply.outer(first, second)
                for first, second in itertools.product(features[one], features[other])
            ]
            sides = [told.centred[:, [pair[side] for pair in pairs]] for side in (0, 1)]
            found[one, other] = told.sums(sides[0], sides[1], weights)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Told:
    """Noisy moments of transformed features.

    Attributes:
        measured: The noisy moments.
        records: Number of records of the file without missing values.
        constant: The constant 1 as a combination of the transformed features, shape (features,).
        means: Mean of each feature, shape (features,).
        centred: Each feature minus its mean, as a combination of the transformed features, shape
            (features, features).
    """

    measured: MeasuredMoments
    records: float
    constant: Floats
    means: Floats
    centred: Floats

    @classmethod
    def of(
        cls, regression: DeclaredRegression, answer: Totals, codes: Codes, records: float
    ) -> _Told:
        measured = measured_moments(regression, answer, codes, records)
        back: Floats = np.asarray(np.linalg.inv(measured.transform), dtype=np.float64)
        means = regression.together.matrix(codes).mean(axis=0)
        means = means / means[0]
        centred = np.asarray(back - np.outer(back[:, 0], means), dtype=np.float64)
        return cls(measured, records, back[:, 0], means, centred)

    def sums(self, first: Floats, second: Floats, weights: Sequence[Floats]) -> KnownSums:
        """Return the sums over the records of the products of combinations of features.

        Args:
            first: Combinations of the transformed features, shape (features, sums).
            second: Their factors, also as combinations, same shape.
            weights: Value of each product by cell, one array for each sum.
        """
        values = np.einsum("ki,kl,li->i", first, self.measured.noisy, second)
        missed = np.einsum("ki,kl,li->i", first, self.measured.lost, second)
        first, second = (self.measured.factors[:, None] * each for each in (first, second))
        both, across = (first.T @ first) * (second.T @ second), first.T @ second
        # The noise of a symmetric matrix whose entries off the diagonal have half of its variance.
        noise = self.measured.variance / 2 * (both + across * across.T)
        noise = noise + np.diag((_MISJUDGED * missed) ** 2)
        scale = np.sqrt(np.maximum(np.diag(noise), 1e-300))
        steady = positive(noise / np.outer(scale, scale)) * np.outer(scale, scale)
        return KnownSums(np.array(weights), self.records * values, self.records**2 * steady)


def _of_number(told: _Told, place: int, feature: Floats, spread: Floats) -> KnownSums:
    """Return the sums of a number and of its square, both about the mean."""
    about, mean = told.centred[:, place], told.means[place]
    weights = [feature - mean, (feature - mean) ** 2 + spread]
    return told.sums(
        np.column_stack([about, about]), np.column_stack([told.constant, about]), weights
    )


def _features(
    regression: DeclaredRegression, column: Column, scores: Mapping[str, Floats]
) -> list[Floats]:
    """Return the mean value of each feature of a column by its codes, each of shape (codes,)."""
    if column.levels or (column.name == regression.outcome.name and not regression.linear):
        levels = np.arange(column.size)
        return [np.asarray(levels == level, dtype=np.float64) for level in range(1, column.bins)]
    low, high = own_ends(column)
    numbers = scores[column.name] - column.scale.zero
    return [np.asarray((2 * numbers - low - high) / (high - low))]


def _spread(column: Column) -> Floats:
    """Return the variance of a number's feature within each bin, as values are drawn."""
    low, high = own_ends(column)
    widths = np.diff([float(edge) for edge in column.edges])
    least = 0.0 if column.type.continuous else 1.0
    return np.asarray(np.maximum(widths**2 - least, 0.0) / 3 / (high - low) ** 2)
