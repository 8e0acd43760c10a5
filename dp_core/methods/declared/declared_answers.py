"""Coefficients of a declared regression, from its noisy sums and the synthetic sets.

The scores S were measured at public coefficients a. The estimate b is the vector of coefficients
under which the expected mean score at a equals S. The distribution of the predictors, and the
effect of the length limit, are taken from a synthetic set and corrected by the noisy second
moments. Each set gives one estimate. The differences between them show the uncertainty of what the
noisy sums do not measure, and Rubin's rule (1987) combines them. A set in which the regression
itself has no solution is used too, with more records if it lacks a level (`determining_records`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import Totals
from dp_core.kernel.questions.regressions.features import ONE, Levels
from dp_core.kernel.questions.regressions.shortened import LONGEST, UNIT, Scores
from dp_core.methods.declared.class_model import chances_of, information
from dp_core.methods.declared.declared_moments import Moments, estimated_moments
from dp_core.methods.declared.declared_questions import (
    MODEL_RECORDS,
    coefficients_of,
    own_residuals,
    residual_variance,
)
from dp_core.methods.declared.declared_regression import Codes, DeclaredRegression, Floats, sizes_of
from dp_core.methods.declared.whitening import from_whole

_STEPS = 12
_MISJUDGED = 0.5  # relative error of a set about the effect of the length limit
_USUAL_MOVE = 3.0  # of each coordinate, in standard deviations of the residuals or in logits
_STEP = 0.05  # step of a numeric derivative, in standard deviations of the residuals
_COLLINEAR = 1e-9  # smallest eigenvalue of the correlations at which coefficients are determined
_LEAST = 8  # number of added records of each level


@dataclass(frozen=True, slots=True, eq=False)
class DeclaredFit:
    """Coefficients of a declared regression given one set.

    Attributes:
        coefficients: In the units of the features, shape (residuals, features).
        noise: Their covariance from noise and errors of the model records, shape (k, k) for the k
            coefficients, level by level.
        sampling: Their covariance from the sampling of the file, same shape.
    """

    coefficients: Floats
    noise: Floats
    sampling: Floats

    @property
    def covariance(self) -> Floats:
        """Covariance of the coefficients, shape (k, k)."""
        return self.noise + self.sampling

    def with_earlier(self, earlier: DeclaredFit) -> DeclaredFit:
        """Return both estimates weighted by the precision of their noise."""
        part = np.linalg.solve(self.noise + earlier.noise, self.noise).T
        apart = (earlier.coefficients - self.coefficients).ravel()
        moved = (part @ apart).reshape(self.coefficients.shape)
        return DeclaredFit(
            self.coefficients + moved, _symmetric(self.noise - part @ self.noise), self.sampling
        )


def declared_fits(
    regression: DeclaredRegression,
    moments: Totals,
    scores: Sequence[Totals],
    sets: Sequence[Codes],
    *,
    records: float,
) -> tuple[DeclaredFit, ...]:
    """Return the coefficients given each set.

    Args:
        regression: The regression.
        moments: Noisy `SecondMoments` of the release.
        scores: Noisy `Scores` of the release, in the order in which they were measured.
        sets: Records of each set, shape (records, columns), in stored codes and in the order of
            `DeclaredAnalysis.columns`; records with missing values are left out.
        records: Number of records of the file without missing values.
    """
    complete = [codes[regression.complete(codes)] for codes in sets]
    together = np.concatenate(
        [thinned(codes, MODEL_RECORDS // len(complete)) for codes in complete]
    )
    found = estimated_moments(regression, moments, together, records)
    return tuple(
        reduce(
            lambda earlier, later: later.with_earlier(earlier),
            (_fit(regression, found, each, codes, records) for each in scores),
        )
        for codes in complete
    )


def coefficients_near(
    regression: DeclaredRegression, moments: Moments, scores: Totals, codes: Codes, records: float
) -> Floats:
    """Return the coefficients that scores imply with model records, shape (residuals, features).

    Args:
        regression: The regression.
        moments: Estimated moments of the file.
        scores: Noisy `Scores` of the release.
        codes: Model records without missing values, shape (records, columns).
        records: Number of records of the file without missing values.
    """
    return _fit(regression, moments, scores, codes, records).coefficients


def thinned(codes: Codes, most: int) -> Codes:
    """Return evenly spaced records: all, or fewer than twice `most`."""
    return codes[:: max(1, len(codes) // max(most, 1))]


def _fit(
    regression: DeclaredRegression, moments: Moments, scores: Totals, codes: Codes, records: float
) -> DeclaredFit:
    of = scores.of
    assert isinstance(of, Scores)
    p, q = regression.features.width, regression.residuals
    at = from_whole(of.at, q)
    unit = float(UNIT * ONE)
    wanted = scores.values / (unit * max(records, 1.0))
    variance = scores.variance / (unit * max(records, 1.0)) ** 2
    codes = determining_records(regression, thinned(codes, 2 * MODEL_RECORDS), moments)
    # Coordinates in which the transformed predictors of the file have unit second moments.
    steady = moments.x + np.eye(p) * 0.5 / max(records, 1.0)
    basis = np.linalg.cholesky(np.linalg.inv(steady))
    x = regression.x(codes)
    w = x @ basis
    model: _Number | _Classes = (
        _Number(regression, of, codes, x, w, moments)
        if regression.linear
        else _Classes(of, codes, x, w, at)
    )
    # A weak prior for the difference: a direction that the scores do not determine, such as that
    # of a level without records, must not distort the other coefficients.
    usual = 1 / (_USUAL_MOVE * model.reach) ** 2
    weight = variance * usual
    found = np.zeros(q * p)
    for _ in range(_STEPS):
        mean, slope = model.response(found)
        towards = slope.T @ (mean / unit - wanted) - weight * found
        step = _inverse(slope, weight) @ towards
        reach = float(np.sqrt(((w @ step.reshape(q, p).T) ** 2).mean()))
        found = found + step * min(1.0, model.reach / max(reach, 1e-300))
        if reach < 1e-6:
            break
    # The second moments of the set's predictors differ from the file's. So the same difference of
    # scores implies another difference of coefficients; `own` corrects for that.
    own = np.kron(np.eye(q), w.T @ w / len(w) + np.eye(p) * 0.5 / max(records, 1.0))
    move = own @ found
    _, slope = model.response(found)
    spread = _inverse(slope, weight)
    inverse = own @ spread @ slope.T
    covariance = variance * own @ spread @ own.T
    # Only the set shows what the length limit takes, and it may show this wrongly.
    taken = _MISJUDGED * inverse * (model.taken(found) / unit)
    covariance = covariance + taken @ taken.T
    # Only the set shows how much of the move the limit hides, too.
    apparent = np.linalg.pinv(model.slope_without_limit(found), rcond=1e-6) @ slope @ found
    hidden = _MISJUDGED * own @ (found - apparent)
    covariance = covariance + np.outer(hidden, hidden)
    # Moving one record's information to the file's second moments keeps it symmetric.
    values, vectors = np.linalg.eigh(own)
    root = (vectors * np.sqrt(values)) @ vectors.T
    known = model.information(found) * max(records, 1.0) + usual * np.eye(q * p)
    sampling = root @ np.linalg.inv(known) @ root
    out = np.kron(np.eye(q), basis)
    # The second moments err too, which scales the move.
    moved = (out @ move).reshape(q, p)
    drawn = np.linalg.solve(moments.drawn_x, moments.x) @ moved.T - moved.T
    apart = drawn.transpose(0, 2, 1).reshape(len(drawn), -1)
    noise = out @ covariance @ out.T + apart.T @ apart / len(apart)
    return DeclaredFit(at + moved, _symmetric(noise), _symmetric(out @ sampling @ out.T))


def _symmetric(matrix: Floats) -> Floats:
    return np.asarray((matrix + matrix.T) / 2)


def _inverse(slope: Floats, weight: float) -> Floats:
    """Return the inverse of the slope's square with a weight on its diagonal."""
    square = slope.T @ slope + weight * np.eye(len(slope))
    return np.asarray(np.linalg.pinv(square, rcond=1e-12, hermitian=True))


class _Number:
    """Mean scores of a set's records under other coefficients of a linear regression."""

    def __init__(
        self,
        regression: DeclaredRegression,
        of: Scores,
        codes: Codes,
        x: Floats,
        w: Floats,
        moments: Moments,
    ) -> None:
        self._of, self._codes, self._w = of, codes, w
        self._long = replace(of, length_limit=LONGEST)
        best = coefficients_of(regression, x, moments, len(x))
        self._variance = residual_variance(moments, best)
        own = own_residuals(x, regression.y(codes))
        self._own = own * np.sqrt(self._variance / max(float(own @ own) / len(own), 1e-12))
        self.reach = float(np.sqrt(self._variance))

    def response(self, move: Floats) -> tuple[Floats, Floats]:
        """Return the mean score at coefficients `move` from `of.at`, and minus its derivative."""
        mean = self._mean(move, self._of)
        return mean, self._slope(move, self._of, mean)

    def slope_without_limit(self, move: Floats) -> Floats:
        """Return minus the derivative of the mean score without a length limit."""
        return self._slope(move, self._long, self._mean(move, self._long))

    def _slope(self, move: Floats, of: Scores, mean: Floats) -> Floats:
        step = _STEP * float(np.sqrt(self._variance))
        slope = np.empty((len(move), len(move)))
        for place in range(len(move)):
            other = move.copy()
            other[place] += step
            slope[:, place] = (mean - self._mean(other, of)) / (step * UNIT * ONE)
        return slope

    def _mean(self, move: Floats, of: Scores) -> Floats:
        return np.asarray(of.vectors_of(self._codes, self._residual(move)).mean(axis=0))

    def _residual(self, move: Floats) -> NDArray[np.int64]:
        found = np.rint(-(self._own + self._w @ move) * ONE)
        return np.asarray(found.astype(np.int64)[:, None])

    def taken(self, move: Floats) -> Floats:
        """Return by how much the length limit changes each score, mean absolute value."""
        residual = self._residual(move)
        long, cut = (of.vectors_of(self._codes, residual) for of in (self._long, self._of))
        return np.asarray(np.abs(long - cut).mean(axis=0))

    def information(self, _move: Floats) -> Floats:
        """Return the mean information of a record, without a length limit."""
        return np.asarray(self._w.T @ self._w / len(self._w) / self._variance)


class _Classes:
    """Mean scores of a set's records under other coefficients of a logistic regression."""

    reach = 1.0

    def __init__(self, of: Scores, codes: Codes, x: Floats, w: Floats, at: Floats) -> None:
        self._w, self._before = w, x @ at.T
        self._residuals = len(at)
        there = chances_of(x, at)
        # Vectors of a record for each level that its outcome may have.
        self._vectors: list[Floats] = []
        self._taken: list[Floats] = []
        long = replace(of, length_limit=LONGEST)
        for level in range(self._residuals + 1):
            own = np.arange(1, self._residuals + 1) == level
            residual = np.rint((there - own) * ONE).astype(np.int64)
            vectors = of.vectors_of(codes, residual).astype(np.float64)
            self._vectors.append(vectors)
            self._taken.append(long.vectors_of(codes, residual) - vectors)

    def _chances(self, move: Floats) -> Floats:
        logits = self._before + self._w @ move.reshape(self._residuals, -1).T
        return chances_of(logits, np.eye(self._residuals))

    def response(self, move: Floats) -> tuple[Floats, Floats]:
        """Return the mean score at coefficients `move` from `of.at`, and minus its derivative."""
        mean = _mixed(self._chances(move), self._vectors)
        return mean.mean(axis=0), self._slope(move, self._vectors, mean)

    def slope_without_limit(self, move: Floats) -> Floats:
        """Return minus the derivative of the mean score without a length limit."""
        long = [one + other for one, other in zip(self._vectors, self._taken, strict=True)]
        return self._slope(move, long, _mixed(self._chances(move), long))

    def _slope(self, move: Floats, vectors: Sequence[Floats], mean: Floats) -> Floats:
        chances, first = self._chances(move), vectors[0]
        width, rows = self._w.shape[1], len(self._w)
        slope = np.empty((first.shape[1], self._residuals, width))
        for k in range(self._residuals):
            # d p_l / d logit_k = p_l ([l = k] - p_k)
            change = chances[:, k : k + 1] * (vectors[k + 1] - mean)
            slope[:, k, :] = -(change.T @ self._w) / rows
        return slope.reshape(first.shape[1], -1) / (UNIT * ONE)

    def taken(self, move: Floats) -> Floats:
        """Return by how much the length limit changes each score, mean absolute value."""
        sizes = [np.abs(each) for each in self._taken]
        return np.asarray(_mixed(self._chances(move), sizes).mean(axis=0))

    def information(self, move: Floats) -> Floats:
        """Return the mean information of a record, without a length limit."""
        return information(self._w, self._chances(move))


def _mixed(chances: Floats, vectors: Sequence[Floats]) -> Floats:
    """Return the expected vector of each record, given the probabilities of its outcome's levels.

    Args:
        chances: Probabilities of the levels from the second on, shape (records, levels - 1).
        vectors: Vectors of the records for each level, each of shape (records, entries).
    """
    first = vectors[0]
    rest = [chances[:, [k]] * (each - first) for k, each in enumerate(vectors[1:])]
    return np.asarray(first + np.sum(rest, axis=0))


def determining_records(regression: DeclaredRegression, codes: Codes, moments: Moments) -> Codes:
    """Return model records that determine every coefficient: the given ones, with more if needed.

    A synthetic set may lack a level that the file has, or its predictors may be collinear. Such a
    set says nothing about some coefficients, although the noisy sums do.

    The added records have the outcomes of the given ones. Their predictors are independent of each
    other. A level that no given record has is added about as often as the moments say that the file
    has it, and every other level a few times. Numbers are permuted, or drawn uniformly from their
    grid if all given records have the same one. The same records and moments always get the same
    additions.

    Args:
        regression: The regression.
        codes: Records without missing values, shape (records, columns), at least one.
        moments: Estimated moments of the file.
    """
    if _determined(regression.x(codes)):
        return codes
    rng = np.random.default_rng(0)
    sizes = sizes_of(regression)[:-1]
    columns, first = regression.features.names, 1
    wanted = [np.zeros(0, dtype=np.int64)] * len(columns)
    for feature in regression.features.all:
        if isinstance(feature, Levels):
            place = columns.index(feature.name)
            others = moments.x[0, first : first + feature.width] / moments.x[0, 0]
            counts = _to_add(codes[:, place], np.array([1 - others.sum(), *others]))
            wanted[place] = np.repeat(np.arange(len(counts)), counts)
        first += feature.width
    more = max(_LEAST, *map(len, wanted))
    added = codes[np.arange(more) * len(codes) // more].copy()
    for place, levels in enumerate(wanted):
        if len(levels):
            added[:, place] = rng.permutation(np.resize(levels, more))
        elif (codes[:, place] == codes[0, place]).all():
            added[:, place] = rng.integers(0, sizes[place], more)
        else:
            added[:, place] = rng.permutation(added[:, place])
    return np.concatenate([codes, added])


def _to_add(codes: NDArray[np.integer[Any]], parts: Floats) -> NDArray[np.int64]:
    """Return how many records of each level to add.

    Args:
        codes: Levels of the given records.
        parts: Estimated part of the file's records with each level; may be negative.
    """
    records = len(codes)
    lacking = np.bincount(codes, minlength=len(parts)) == 0
    usual = np.rint(np.clip(parts * records, _LEAST, max(_LEAST, records // 2)))
    return np.asarray(np.where(lacking, usual, _LEAST), dtype=np.int64)


def _determined(x: Floats) -> bool:
    length = np.sqrt((x**2).mean(axis=0))
    if not length.all():
        return False
    scaled = x / length
    return bool(np.linalg.eigvalsh(scaled.T @ scaled / len(x))[0] > _COLLINEAR)
