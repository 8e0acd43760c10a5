"""Sums over records of vectors that are cut to a public length, for declared regressions.

What a record adds is a vector of whole numbers that depends on its own codes and on public numbers
only. A vector longer than the `length_limit` is multiplied by limit/length and rounded towards 0.
So the sensitivity follows from the limit, whatever the columns, the transform and the coefficients
are. That is the clipping of gradients by Abadi et al. (2016, Deep learning with differential
privacy, Section 3.1), in whole numbers.

Records that lack a value in one of the columns add 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.privacy import Neighbours
from dp_core.kernel.questions.regressions.features import ONE, Features, Levels, Number
from dp_core.kernel.questions.regressions.gradients import (
    COEFFICIENT,
    PROBABILITY,
    SumOfVectors,
    check_coefficients,
    check_outcome,
    linear,
    outer,
    probabilities,
)
from dp_core.kernel.questions.statistic import ClaimedCodes, records_moved

UNIT = 1 << 10
"""The number 1 in the unit of transformed predictors."""
LONGEST = 1 << 29
"""Largest length limit; with it no product overflows."""
MOST_PREDICTORS = 100
"""Largest number of features, and of transformed predictors."""
MOST_ENTRIES = MOST_PREDICTORS * (MOST_PREDICTORS + 1) // 2
"""Largest number of entries of a vector."""

_LARGEST_PREDICTOR = (1 << 15) - 1  # 32 in units of 1/UNIT
_LARGEST_RESIDUAL = (1 << 18) - 1  # 64 in units of 1/ONE
_TWICE = 181  # 181/128 is just below the square root of 2


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfPredictors(SumOfVectors):
    """A sum of vectors of transformed predictors, each cut to a length."""

    features: Features
    transform: tuple[int, ...]
    length_limit: int

    def __post_init__(self) -> None:
        if not 1 <= self.length_limit <= LONGEST:
            raise ValueError(f"The length limit must be a whole number from 1 to {LONGEST}.")
        if any(isinstance(each, Number) and each.missing for each in self.features.factors):
            raise ValueError("Records with a missing value add 0; `missing` must be false.")
        width = self.features.width
        predictors, left = divmod(len(self.transform), width)
        if left or not 1 <= predictors <= MOST_PREDICTORS or width > MOST_PREDICTORS:
            raise ValueError(f"The transform is a matrix of at most {MOST_PREDICTORS} columns.")
        check_coefficients(self.transform, len(self.transform))

    @property
    def predictors(self) -> int:
        """Number of transformed predictors."""
        return len(self.transform) // self.features.width

    @property
    def reach(self) -> int:
        return self.length_limit

    def transformed(self, cells: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        """Return x'T of each cell in units of 1/`UNIT`, shape (cells, predictors).

        They are at most 32 in size, and 0 for a cell that lacks a value.

        Args:
            cells: Codes, shape (cells, columns), in the order of the features' columns.
        """
        matrix = self.features.matrix(cells)
        by = np.array(self.transform, dtype=np.int64).reshape(self.features.width, -1)
        step = ONE * COEFFICIENT // UNIT
        w = np.clip((matrix @ by + step // 2) // step, -_LARGEST_PREDICTOR, _LARGEST_PREDICTOR)
        values = np.array([each.codes for each in self.features.claimed_codes()], dtype=np.int64)
        there = np.all(cells.astype(np.int64) < values, axis=1, keepdims=True)
        return np.asarray(w * there)

    def norms(self, neighbours: Neighbours) -> tuple[int, int]:
        """Return sqrt(K s), rounded up, for K entries, and s = `furthest`.

        A vector of K entries and length L has an L1 norm of at most L sqrt(K).
        """
        furthest = self.furthest(neighbours)
        return _root_of(furthest * self.length), furthest

    def furthest(self, neighbours: Neighbours) -> int:
        """Return the square of the limit under add-remove, four times that under replace-one.

        A record's vector is at most as long as the limit, because `_shortened` cuts it.
        """
        return (records_moved(neighbours) * self.length_limit) ** 2

    def claimed_codes(self) -> list[ClaimedCodes]:
        # A larger code means missing.
        return [each._replace(or_missing=True) for each in self.features.claimed_codes()]


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondMoments(_OfPredictors):
    """Second moments of transformed predictors: the sum of w w', each record's cut to a length.

    w = x'T/2^16, where x are the features of `features`. The entries are the upper triangle of
    w w', row by row; the entries off the diagonal are multiplied by 181/128. Unit: 1/`UNIT`^2.

    Attributes:
        features: All columns; the first feature is the intercept.
        transform: Public matrix T of shape (features, predictors), in units of 1/`COEFFICIENT`,
            flattened row by row.
        length_limit: Largest length of a record's vector, in the unit of the entries.
    """

    NAME: ClassVar[str] = "second-moments"

    @property
    def length(self) -> int:
        return self.predictors * (self.predictors + 1) // 2

    def vectors(self, cells: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        """Return what a record of each cell adds, shape (cells, length)."""
        w = self.transformed(cells)
        one, other = np.triu_indices(self.predictors)
        products = w[:, one] * w[:, other]
        off = one != other
        # Towards 0, so that the vector does not become longer.
        products[:, off] = _towards_zero(products[:, off] * _TWICE, 128)
        # privacy: (181/128)^2 < 2, so the length is at most that of the matrix w w', which is w'w.
        return _shortened(products, (w**2).sum(axis=1), self.length_limit)

    def furthest(self, neighbours: Neighbours) -> int:
        """Return C^2 under add-remove, with the limit C, and 2 C^2 + 8 C sqrt(K) under replace-one.

        To replace a record is to take its vector a away and to add another, b: |a - b|^2 = |a|^2 +
        |b|^2 - 2 a'b. Let u and v be the vectors before rounding, of the predictors w and z. With f
        = (181/128)^2 and a positive factor, u'v is (1 - f/2) sum w_i^2 z_i^2 + (f/2) (w'z)^2. That
        is not negative, because f < 2. An entry is rounded at most twice, by less than 1 each time,
        so |a - u| and |b - v| are below 2 sqrt(K), for K entries. So a'b = u'v + (a - u)'v +
        a'(b - v) >= -4 C sqrt(K). `sqrt(K)` is rounded up. 4 C^2 always holds, if it is smaller.
        """
        most = _OfPredictors.furthest(self, neighbours)
        if neighbours == "add-remove":
            return most
        return min(most, 2 * self.length_limit**2 + 8 * self.length_limit * _root_of(self.length))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores(_OfPredictors):
    """Scores of a regression: the sum of the products r w, each record's cut to a length.

    w are transformed predictors, as in `SecondMoments`. r are residuals at public coefficients b:
    x'b - y for an outcome that is a number, where y is scaled like a feature; p_k - [y = k], k from
    the second class, for an outcome of levels, where p are the probabilities of the multinomial
    logistic model at b. Unit: 1/(`ONE` `UNIT`). The entries have the axes residual and predictor,
    flattened row by row.

    Attributes:
        outcome: The outcome.
        features: The features x; none is of the outcome.
        transform: As in `SecondMoments`.
        at: Public coefficients, in units of 1/`COEFFICIENT`, shape (residuals, features), flattened
            row by row.
        length_limit: Largest length of a record's vector, in the unit of the entries.
    """

    NAME: ClassVar[str] = "scores"

    outcome: Number | Levels
    at: tuple[int, ...]

    def __post_init__(self) -> None:
        _OfPredictors.__post_init__(self)
        check_outcome(self.outcome.name, self.features)
        if isinstance(self.outcome, Number):
            if self.outcome.missing:
                raise ValueError("Records without an outcome add 0; its `missing` must be false.")
        elif not 2 <= self.outcome.size <= MOST_PREDICTORS:
            raise ValueError(f"An outcome of levels has 2 to {MOST_PREDICTORS} levels.")
        if self.length > MOST_ENTRIES:
            raise ValueError(f"There must be at most {MOST_ENTRIES:,} entries.")
        check_coefficients(self.at, self.residuals * self.features.width)

    @property
    def residuals(self) -> int:
        """Number of residuals of a record."""
        return 1 if isinstance(self.outcome, Number) else self.outcome.size - 1

    @property
    def length(self) -> int:
        return self.residuals * self.predictors

    def vectors(self, cells: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        """Return what a record of each cell adds, shape (cells, length)."""
        matrix = self.features.matrix(cells[:, :-1])
        return self.vectors_of(cells, self.residual(matrix, cells[:, -1]))

    def vectors_of(
        self, cells: NDArray[np.integer[Any]], residual: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return what a record of each cell would add if it had other residuals.

        Args:
            cells: Codes, shape (cells, columns), in the clique's order.
            residual: Residuals in units of 1/`ONE`, shape (cells, residuals).
        """
        w = self.transformed(cells[:, :-1]) * (cells[:, -1:] < self.outcome.claimed_codes().codes)
        # privacy: in 64 bits, because squares of narrower integers overflow.
        residual = np.clip(residual.astype(np.int64), -_LARGEST_RESIDUAL, _LARGEST_RESIDUAL)
        # privacy: each factor is rounded up, so their product is at least the vector's length.
        lengths = _root_above((residual**2).sum(axis=1)) * _root_above((w**2).sum(axis=1))
        return _shortened(outer(residual, w, self.length), lengths, self.length_limit)

    def residual(
        self, matrix: NDArray[np.int64], codes: NDArray[np.integer[Any]]
    ) -> NDArray[np.int64]:
        """Return the residuals in units of 1/`ONE`, shape (cells, residuals).

        Args:
            matrix: Features, shape (cells, features), in units of 1/`ONE`.
            codes: Codes of the outcome, shape (cells,).
        """
        if isinstance(self.outcome, Number):
            return linear(matrix, self.at) - self.outcome.scaled(codes)[:, None]
        chances = probabilities(matrix, self.at, self.outcome.size)[:, 1:]
        own = codes[:, None] == np.arange(1, self.outcome.size)
        step = PROBABILITY // ONE
        return np.asarray((chances - PROBABILITY * own + step // 2) // step)

    def claimed_codes(self) -> list[ClaimedCodes]:
        own = self.outcome.claimed_codes()._replace(or_missing=True)
        return [*_OfPredictors.claimed_codes(self), own]


def _shortened(
    vectors: NDArray[np.int64], lengths: NDArray[np.int64], limit: int
) -> NDArray[np.int64]:
    """Return vectors, shape (records, entries), cut to a length of at most `limit`.

    Args:
        vectors: Whole numbers, at most 2^33 in size.
        lengths: For each vector a number that is at least its L2 norm.
        limit: Largest length, at most 2^29.
    """
    long = lengths > limit
    # privacy: every entry becomes at most limit/length times as large, so the length is at most
    # the limit. Rounding towards 0 makes no vector longer.
    vectors[long] = _towards_zero(vectors[long] * limit, lengths[long][:, None])
    return vectors


def _towards_zero(values: NDArray[np.int64], divisor: int | NDArray[np.int64]) -> NDArray[np.int64]:
    """Return whole quotients, rounded towards 0; divisors are positive."""
    return np.asarray(np.sign(values) * (np.abs(values) // divisor))


def _root_above(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return whole numbers whose squares are at least `values`, which are below 2^52."""
    roots = np.sqrt(values.astype(np.float64)).astype(np.int64)
    # A rounding error of the root is far below 1.
    roots -= 1
    for _ in range(3):
        roots += roots**2 < values
    return np.maximum(roots, 0)


def _root_of(value: int) -> int:
    """Return the root of a whole number from 1, rounded up."""
    return isqrt(value - 1) + 1
