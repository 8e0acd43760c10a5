"""Second moments of a declared regression's columns, from noisy sums and model records."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dp_core.client.released import Totals
from dp_core.kernel.questions.regressions.features import ONE
from dp_core.kernel.questions.regressions.shortened import LONGEST, UNIT, SecondMoments
from dp_core.methods.declared.declared_regression import Codes, DeclaredRegression, Floats
from dp_core.methods.declared.whitening import from_whole, positive

_TWICE = 181 / 128  # factor of the entries off the diagonal


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Estimated mean second moments of the features of the predictors and of the outcome.

    Attributes:
        all: Mean of z z', shape (p + q, p + q), where z has the p features of the predictors and
            then the q features of the outcome.
        predictors: p, the number of features of the predictors.
        uncertain: Standard deviation of the noise of an entry, for features that are scaled to
            moments of about 1.
    """

    all: Floats
    predictors: int
    uncertain: float

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
    more the larger their noise is (James and Stein 1961).

    Args:
        regression: The regression.
        answer: Noisy `SecondMoments`.
        codes: Model records without missing values, shape (records, columns).
        records: Number of records of the file without missing values.
    """
    found, _, transform, variance = measured_moments(regression, answer, codes, records)
    width = regression.together.width
    w = features_of(regression, codes) @ transform
    expected = w.T @ w / len(w)
    off = width * (width - 1) / 2
    noise = variance * (width + 2 * off / _TWICE**2)
    part = max(0.0, 1 - noise / max(float(((found - expected) ** 2).sum()), 1e-300))
    moments = positive(expected + part * (found - expected))
    back = np.linalg.inv(transform)
    return Moments(back.T @ moments @ back, regression.features.width, float(np.sqrt(variance)))


def measured_moments(
    regression: DeclaredRegression, answer: Totals, codes: Codes, records: float
) -> tuple[Floats, Floats, Floats, float]:
    """Return the noisy moments of the transformed features.

    Args:
        regression: The regression.
        answer: Noisy `SecondMoments`.
        codes: Model records without missing values, shape (records, columns).
        records: Number of records of the file without missing values.

    Returns:
        Four values: the noisy mean of w w', corrected for the length limit, shape (features,
        features); what the limit takes from this mean in the model records, same shape; the
        transform T with w = z'T; and the noise variance of an entry of the diagonal. Entries off
        the diagonal have half of this variance.
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
    parts = np.sqrt(np.multiply.outer(part, part))
    variance = answer.variance / (unit * max(records, 1.0)) ** 2 * float((1 / part).mean()) ** 2
    transform = from_whole(of.transform, width)
    return noisy / parts + whole - kept / parts, whole - kept, transform, variance


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
