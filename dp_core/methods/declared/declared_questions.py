"""The noisy sums that a declared regression asks for, from model records. Public.

A regression asks for its second moments, then for scores at the coefficients that the moments
imply, then for scores at the coefficients that the first scores imply. So a question depends on
earlier answers. It also depends on model records, which a release makes from its noisy tables and
which determine scales and length limits. Inaccurate model records cost precision. They hardly bias
the answer, because the last coefficients are near those of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.questions.regressions.features import ONE
from dp_core.kernel.questions.regressions.shortened import LONGEST, UNIT, Scores, SecondMoments
from dp_core.kernel.questions.statistic import Sum
from dp_core.methods.declared.class_model import chances_of, fitted_classes
from dp_core.methods.declared.declared_moments import Moments, features_of
from dp_core.methods.declared.declared_regression import Codes, DeclaredRegression, Floats
from dp_core.methods.declared.whitening import whitening, whole

MODEL_RECORDS = 1 << 13
"""Largest number of model records."""
PARTS: Mapping[str, Fraction] = {
    "moments": Fraction(1, 5),
    "scores-1": Fraction(1, 5),
    "scores-2": Fraction(3, 5),
}
"""Part of a regression's budget for each of its sums, in their order."""
LEAST_OF_NUMBER = 5.0
"""Least length limit of the scores of a number, in mean lengths: model records do not show the
tails of a number."""
USUAL_LIMITS = {"moments": 1.6, "linear": 8.0, "levels": 2.0}
"""Length limits in typical files, in mean lengths, of the second moments and of the scores of
numbers and of levels. With them, forecasts of the width of intervals agree best with
`benchmarks/questions.py`."""
SCORES = ("scores-1", "scores-2")
"""The sums that are scores, in their order; the last one gives the answer."""

_MISJUDGED = 1.0  # relative error of the model records about what the limit takes
_LIMITS = (0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.6, 8.0, 11.0, 16.0, 23.0, 32.0)  # in mean lengths
_PROBE = 1 << 10  # length limit with which noise is looked up
_MOST_NOISE = 2.0**50  # largest standard deviation of an entry's noise
_PRIOR_RECORDS = 1.0  # weight of the penalty on logistic coefficients, in records

Noise = Callable[[Sum], float]
"""Returns the standard deviation of a question's noise at its budget, in the question's unit."""


def moments_question(
    regression: DeclaredRegression, codes: Codes, records: float, noise: Noise
) -> SecondMoments:
    """Return the question for the second moments of the columns.

    Args:
        regression: The regression.
        codes: Model records without missing values, shape (records, columns).
        records: Number of records of the file without missing values.
        noise: Noise of a question at its budget.
    """
    z = features_of(regression, codes)
    transform = whole(whitening(z.T @ z / len(z), records))
    long = SecondMoments(features=regression.together, transform=transform, length_limit=LONGEST)
    limit = _limit(long.vectors(codes), records, _relative(long, noise), float(UNIT**2))
    return SecondMoments(features=regression.together, transform=transform, length_limit=limit)


def scores_question(
    regression: DeclaredRegression,
    codes: Codes,
    records: float,
    moments: Moments,
    at: Floats,
    noise: Noise,
    rng: np.random.Generator,
) -> Scores:
    """Return the question for the scores at given coefficients.

    Args:
        regression: The regression.
        codes: Model records without missing values, shape (records, columns).
        records: Number of records of the file without missing values.
        moments: Estimated moments of the file.
        at: Coefficients near those of the file, shape (residuals, features).
        noise: Noise of a question at its budget.
        rng: Generator for post-processing.
    """
    transform = whole(whitening(moments.x, records))

    def question(limit: int) -> Scores:
        return Scores(
            outcome=regression.outcome,
            features=regression.features,
            transform=transform,
            at=whole(at),
            length_limit=limit,
        )

    residual = modelled_residuals(regression, codes, at, moments, rng)
    long = question(LONGEST)
    vectors = long.vectors_of(codes, residual)
    least = LEAST_OF_NUMBER if regression.linear else 0.0
    limit = _limit(vectors, records, _relative(long, noise), float(UNIT * ONE), least)
    return question(limit)


def coefficients_of(
    regression: DeclaredRegression, x: Floats, moments: Moments, records: float
) -> Floats:
    """Return the coefficients that moments imply, shape (residuals, features).

    Args:
        regression: The regression.
        x: Features of model records, shape (records, features).
        moments: Estimated moments of the file.
        records: Number of records of the file without missing values.
    """
    if regression.linear:
        return np.asarray(np.linalg.solve(moments.x, moments.xy).T)
    prior = _PRIOR_RECORDS / max(records, 1.0)
    return fitted_classes(x, moments.xy.T, moments.x, prior=prior)


def residual_variance(moments: Moments, at: Floats) -> float:
    """Return the variance of a linear regression's residuals at coefficients, at least 1e-8."""
    found = moments.yy - 2 * at @ moments.xy + at @ moments.x @ at.T
    return max(float(found[0, 0]), 1e-8)


def modelled_residuals(
    regression: DeclaredRegression,
    codes: Codes,
    at: Floats,
    moments: Moments,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Return residuals that the file may have at given coefficients, in units of 1/`ONE`.

    For a linear regression they are the residuals of the model records, scaled to the variance that
    the moments imply. For an outcome of levels they are drawn from the logistic model.

    Args:
        regression: The regression.
        codes: Model records without missing values, shape (records, columns).
        at: Coefficients, shape (residuals, features).
        moments: Estimated moments of the file.
        rng: Generator for post-processing.

    Returns:
        Whole numbers, shape (records, residuals).
    """
    x = regression.x(codes)
    if regression.linear:
        own = own_residuals(x, regression.y(codes))
        scale = np.sqrt(residual_variance(moments, at) / max(float(own @ own) / len(own), 1e-12))
        return np.asarray(np.rint(-own * scale * ONE), dtype=np.int64)[:, None]
    chances = chances_of(x, at)
    first = 1 - chances.sum(axis=1, keepdims=True)
    levels = np.cumsum(np.hstack([first, chances]), axis=1)[:, :-1]
    drawn = (rng.random((len(x), 1)) >= levels).sum(axis=1)
    indicators = drawn[:, None] == np.arange(1, chances.shape[1] + 1)
    return np.asarray(np.rint((chances - indicators) * ONE), dtype=np.int64)


def own_residuals(x: Floats, y: Floats) -> Floats:
    """Return the residuals of the least-squares regression of y on x, shape (records,)."""
    return np.asarray(y - x @ np.linalg.lstsq(x, y, rcond=None)[0])


def _relative(question: SecondMoments | Scores, noise: Noise) -> float:
    """Return the noise of a question relative to its length limit, whatever the limit is."""
    return noise(replace(question, length_limit=_PROBE)) / _PROBE


def _limit(
    vectors: NDArray[np.int64], records: float, noise: float, unit: float, least: float = 0.0
) -> int:
    """Return the length limit with the least expected error.

    The error has two parts: the noise, which grows with the limit, and the remaining bias from what
    the limit takes, which falls with it.

    Args:
        vectors: Vectors of the model records without a limit, shape (records, entries).
        records: Number of records of the file.
        noise: Standard deviation of the noise of an entry, relative to the limit.
        unit: The number 1 in the unit of the entries.
        least: Least limit, in mean lengths; 0 by default.
    """
    found = vectors / unit
    lengths = np.sqrt((found**2).sum(axis=1))
    mean = max(float(lengths.mean()), 1e-6)
    sizes = np.abs(found)
    power = max(float((lengths**2).mean()), 1e-300)
    errors = []
    limits = [max(each, least) for each in _LIMITS]
    for times in limits:
        kept = np.minimum(1.0, times * mean / np.maximum(lengths, 1e-300))
        lost = ((1 - kept) @ sizes) / len(sizes)
        random = found.shape[1] * (noise * times * mean / max(records, 1.0)) ** 2
        # The part of the signal that remains: the limit also weakens the response to coefficients.
        left = float((kept * lengths**2).mean()) / power
        errors.append((random + _MISJUDGED**2 * float(lost @ lost)) / max(left, 1e-6) ** 2)
    best = limits[int(np.argmin(errors))] * mean * unit
    # Noise must be drawn in 64 bits.
    drawable = min(LONGEST, _MOST_NOISE / max(noise, 1e-300))
    return int(np.clip(round(best), 1, max(1, int(drawable))))
