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
from dp_core.kernel.questions.regressions.features import Number
from dp_core.methods.declared.declared_moments import measured_moments
from dp_core.methods.declared.declared_regression import Codes, DeclaredRegression, Floats
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
    places, place = {}, 1
    for each in regression.together.all:
        places[each.name] = range(place, place + each.width)
        place += each.width
    features = {
        name: [_feature(regression, schema.column(name), scores, at) for at in range(len(own))]
        for name, own in places.items()
    }
    names = [
        name
        for name in schema.domain.columns
        if name in places and schema.column(name).missing_code is None
    ]
    found: dict[Clique, KnownSums] = {}
    for name in names:
        if not schema.column(name).levels:
            found[name,] = _of_number(
                told, places[name][0], features[name][0], _spread(regression, schema.column(name))
            )
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
        noisy: Mean of w w', shape (features, features).
        lost: What the length limit took from it, estimated from the model records.
        variance: Noise variance of an entry of the diagonal; entries off the diagonal have half of
            it.
        records: Number of records of the file without missing values.
        constant: The constant 1 as a combination of the transformed features, shape (features,).
        means: Mean of each feature, shape (features,).
        centred: Each feature minus its mean, as a combination of the transformed features, shape
            (features, features).
    """

    noisy: Floats
    lost: Floats
    variance: float
    records: float
    constant: Floats
    means: Floats
    centred: Floats

    @classmethod
    def of(
        cls, regression: DeclaredRegression, answer: Totals, codes: Codes, records: float
    ) -> _Told:
        noisy, lost, transform, variance = measured_moments(regression, answer, codes, records)
        back: Floats = np.asarray(np.linalg.inv(transform), dtype=np.float64)
        means = regression.together.matrix(codes).mean(axis=0)
        means = means / means[0]
        centred = np.asarray(back - np.outer(back[:, 0], means), dtype=np.float64)
        return cls(noisy, lost, variance, records, back[:, 0], means, centred)

    def sums(self, first: Floats, second: Floats, weights: Sequence[Floats]) -> KnownSums:
        """Return the sums over the records of the products of combinations of features.

        Args:
            first: Combinations of the transformed features, shape (features, sums).
            second: Their factors, also as combinations, same shape.
            weights: Value of each product by cell, one array for each sum.
        """
        values = np.einsum("ki,kl,li->i", first, self.noisy, second)
        missed = np.einsum("ki,kl,li->i", first, self.lost, second)
        both, across = (first.T @ first) * (second.T @ second), first.T @ second
        # The noise of a symmetric matrix whose entries off the diagonal have half of its variance.
        noise = self.variance / 2 * (both + across * across.T)
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


def _feature(
    regression: DeclaredRegression, column: Column, scores: Mapping[str, Floats], place: int
) -> Floats:
    """Return the mean value of a feature for each code of its column, shape (codes,)."""
    feature = next(each for each in regression.together.all if each.name == column.name)
    if isinstance(feature, Number):
        low, high = regression.low[column.name], regression.high[column.name]
        return np.asarray((scores[column.name] - (low + high) / 2) / ((high - low) / 2))
    return np.asarray(np.arange(column.size) == place + 1, dtype=np.float64)


def _spread(regression: DeclaredRegression, column: Column) -> Floats:
    """Return the variance of a number's feature within each bin, as values are drawn."""
    half = (regression.high[column.name] - regression.low[column.name]) / 2
    widths = np.diff([float(edge) for edge in column.edges])
    least = 0.0 if column.type.continuous else 1.0
    return np.asarray(np.maximum(widths**2 - least, 0.0) / 12 / half**2)
