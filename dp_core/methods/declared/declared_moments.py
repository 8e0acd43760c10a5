"""Second moments of a declared regression's columns, from noisy sums and model records."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from dp_core.client.released import Totals
from dp_core.kernel.questions.regressions.features import ONE
from dp_core.kernel.questions.regressions.shortened import LONGEST, UNIT, SecondMoments
from dp_core.methods.declared.declared_regression import Codes, DeclaredRegression, Floats
from dp_core.methods.declared.whitening import from_whole, positive

DRAWS = 200
"""Number of draws of what the moments may be."""

_CHANCE = 3.0
"""Standard deviations of the noise by which model records may differ from a noisy moment."""
_LEAST = 1e-30  # divisor in place of 0
_TWICE = 181 / 128  # factor of the entries off the diagonal


@dataclass(frozen=True, eq=False)
class Moments:
    """Estimated mean second moments of the features of the predictors and of the outcome.

    Features z are those of the predictors, p, and then of the outcome, q. Their combinations w =
    z'T have moments of about 1.

    Attributes:
        scaled: Mean of w w', shape (p + q, p + q).
        errors: Standard deviation of the error of each entry, same shape.
        transform: T, shape (p + q, p + q).
        predictors: p, the number of features of the predictors.
    """

    scaled: Floats
    errors: Floats
    transform: Floats
    predictors: int

    @property
    def all(self) -> Floats:
        """Mean of z z', shape (p + q, p + q)."""
        return self._unscaled(self.scaled)

    @cached_property
    def drawn_x(self) -> Floats:
        """Draws of what the mean of x x' may be, shape (draws, p, p); always the same."""
        drawn = np.random.default_rng(0).normal(size=(DRAWS, *self.errors.shape))
        triangle = np.triu(drawn * self.errors)
        errors = triangle + np.triu(triangle, 1).transpose(0, 2, 1)
        found = [self._unscaled(positive(self.scaled + each)) for each in errors]
        return np.array(found)[:, : self.predictors, : self.predictors]

    def _unscaled(self, scaled: Floats) -> Floats:
        back = np.linalg.inv(self.transform)
        return np.asarray(back.T @ scaled @ back)

    @property
    def x(self) -> Floats:
        """Mean of x x', shape (p, p)."""
        return self.all[: self.predictors, : self.predictors]

    @property
    def xy(self) -> Floats:
        """Mean of x y', shape (p, q)."""
        return self.all[: self.predictors, self.predictors :]

    @property
    def yy(self) -> Floats:
        """Mean of y y', shape (q, q)."""
        return self.all[self.predictors :, self.predictors :]


def features_of(regression: DeclaredRegression, codes: Codes) -> Floats:
    """Return the features of predictors and outcome, shape (records, features)."""
    return np.asarray(regression.together.matrix(codes) / ONE)


def estimated_moments(
    regression: DeclaredRegression, answer: Totals, codes: Codes, records: float
) -> Moments:
    """Return the moments of the file.

    What the length limit took from the sums is estimated from the model records and added
    (`measured_moments`). The noisy moments are then shrunk towards those of the model records, the
    more the larger their noise is (James and Stein 1961), but hardly where these differ from them
    by more than chance.

    Args:
        regression: The regression.
        answer: Noisy `SecondMoments`.
        codes: Model records without missing values, shape (records, columns).
        records: Number of records of the file without missing values.
    """
    measured = measured_moments(regression, answer, codes, records)
    w = features_of(regression, codes) @ measured.transform
    expected = w.T @ w / len(w)
    least = measured.variance / 2 * (1 + np.eye(len(expected)))
    noise = least * np.outer(measured.factors, measured.factors) ** 2
    # In variances of the noise, which may be 0.
    apart = np.maximum((measured.noisy - expected) ** 2 / (noise + _LEAST), _LEAST)
    usual = max(0.0, 1 - 1 / float(apart.mean()))
    # An entry that model records miss by more than chance is as measured, however good the others.
    part = np.where(apart > _CHANCE**2, np.maximum(1 - 1 / apart, usual), usual)
    return Moments(
        positive(expected + part * (measured.noisy - expected)),
        # If nothing shows it, the model records may still err as much as most of the noise.
        np.sqrt(np.maximum(part * noise, least / 2)),
        measured.transform,
        regression.features.width,
    )


class MeasuredMoments(NamedTuple):
    """Noisy moments of the transformed features w = z'T.

    Attributes:
        noisy: Noisy mean of w w', corrected for the length limit, shape (features, features).
        lost: What the limit takes from this mean in the model records, same shape.
        transform: T, same shape.
        variance: Noise variance of an entry of the diagonal before this correction; entries off
            the diagonal have half of it.
        factors: Factor of each feature by which the correction multiplies the noise of its entries,
            shape (features,).
    """

    noisy: Floats
    lost: Floats
    transform: Floats
    variance: float
    factors: Floats


def measured_moments(
    regression: DeclaredRegression, answer: Totals, codes: Codes, records: float
) -> MeasuredMoments:
    """Return the noisy moments of the transformed features.

    Args:
        regression: The regression.
        answer: Noisy `SecondMoments`.
        codes: Model records without missing values, shape (records, columns).
        records: Number of records of the file without missing values.
    """
    of = answer.of
    assert isinstance(of, SecondMoments)
    width = regression.together.width
    unit = float(UNIT**2)
    exact = SecondMoments(features=of.features, transform=of.transform, length_limit=LONGEST)
    whole = _square(exact.vectors(codes).mean(axis=0) / unit, width)
    kept = _square(of.vectors(codes).mean(axis=0) / unit, width)
    noisy = _square(answer.values / (unit * max(records, 1.0)), width)
    # If the records lie in an ellipsoid, the limit takes the same part of all moments, whatever the
    # correlations. What it takes beyond that is estimated from the model records.
    part = np.clip(np.diag(kept) / np.maximum(np.diag(whole), 1e-12), 0.05, 1.0)
    # Nothing is known about a level that no model record has, so it is treated as the others.
    unknown = np.diag(whole) <= 1e-12
    part[unknown] = part[~unknown].mean()
    factors = 1 / np.sqrt(part)
    parts = np.outer(factors, factors)
    return MeasuredMoments(
        (noisy - kept) * parts + whole,
        whole - kept,
        from_whole(of.transform, width),
        answer.variance / (unit * max(records, 1.0)) ** 2,
        factors,
    )


def _square(entries: Floats, width: int) -> Floats:
    """Return the symmetric matrix of an upper triangle whose entries off the diagonal are scaled.

    Args:
        entries: Entries of `SecondMoments`, shape (width (width + 1)/2,).
        width: Number of rows.
    """
    found = np.zeros((width, width))
    one, other = np.triu_indices(width)
    found[one, other] = np.where(one == other, entries, entries / _TWICE)
    return np.asarray(found + np.triu(found, 1).T)
