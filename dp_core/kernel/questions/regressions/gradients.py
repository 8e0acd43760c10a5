"""Gradients of a regression's loss at public coefficients, in whole numbers from end to end.

Each record adds a vector that depends on its codes and on the public coefficients only. It is
computed in whole numbers, so that neither the order of the records nor how many there are can
change it in its last digit; a rounding that did would move the sum by as many units as there are
records. Gradients of one loss at several coefficients, each charged, are a private minimisation
whose proof is their composition (Song, Chaudhuri & Sarwate 2013; Bassily, Smith & Thakurta 2014):
no stopping rule, no convexity, no exact minimiser is needed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.codes import Codes
from dp_core.kernel.privacy import Neighbours
from dp_core.kernel.questions.regressions.features import ONE, Features, Number
from dp_core.kernel.questions.statistic import ClaimedCodes, Sum, records_moved
from dp_core.kernel.questions.whole_numbers import MOST, cut, frozen

COEFFICIENT = 1 << 16
"""The number 1 in the unit of coefficients."""

LARGEST_COEFFICIENT = COEFFICIENT << 10
"""Coefficients above 1024 in size are refused; no product of theirs overflows."""

PROBABILITY = 1 << 16
"""The number 1 in the unit of probabilities."""

_MOST_CELLS = 1 << 12  # cells whose vectors are in memory at the same time
_MOST_IN_MEMORY = 1 << 20  # entries of these vectors together
_FAR = 22 * ONE  # e^-22 is 0 in the unit of probabilities
_WEIGHT_BITS = 34


class SumOfVectors(Sum):
    """A sum of vectors of whole numbers: a record's depends on its own codes alone."""

    __slots__ = ()

    IN_SHARES: ClassVar[bool] = True

    @property
    @abstractmethod
    def reach(self) -> int:
        """Bound on the absolute value of an entry of a record's vector."""

    @abstractmethod
    def vectors(self, cells: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        """Return what a record of each cell adds, shape (cells, length)."""

    def total(self, cells: Codes, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        # The check makes an overflow impossible: larger sums use Python's integers, slowly.
        kind = np.dtype(np.int64 if self.reach * int(counts.sum()) < MOST else object)
        found = np.zeros(self.length, dtype=kind)
        step = max(1, min(_MOST_CELLS, _MOST_IN_MEMORY // self.length))
        for start in range(0, len(cells), step):
            some = slice(start, start + step)
            found = found + counts[some].astype(kind) @ self.vectors(cells[some]).astype(kind)
        return cut(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfClasses(Sum):
    """A sum about classes, with the axes class (from the second) and feature, row by row.

    Attributes:
        column: Column whose codes are the classes.
        classes: Number of classes, at least 2.
        missing_from: For a column of numbers, its number of positions; the two classes are then
            present and missing. 0 (the default) for a column of levels.
        features: The predictors.
    """

    column: str
    classes: int
    missing_from: int = 0
    features: Features

    def __post_init__(self) -> None:
        check_outcome(self.column, self.features)
        if self.classes < 2 or self.missing_from < 0 or (self.missing_from and self.classes != 2):
            raise ValueError("There must be at least two classes, and exactly two for missing.")

    @property
    def length(self) -> int:
        return (self.classes - 1) * self.features.width

    def codes(self, codes: NDArray[np.integer[Any]]) -> NDArray[np.integer[Any]]:
        """Return the class of each code."""
        return (codes >= self.missing_from).astype(np.int64) if self.missing_from else codes

    def claimed_codes(self) -> list[ClaimedCodes]:
        own = ClaimedCodes(
            self.column, self.missing_from or self.classes, or_missing=bool(self.missing_from)
        )
        return [*self.features.claimed_codes(), own]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassGradient(OfClasses, SumOfVectors):
    """The gradient of the multinomial logistic loss: sum of (p_k - [y = k]) x, k from the second.

    Of two classes it is the logistic loss. x are the features, p the probabilities of the classes
    at `at`, whose first class has coefficients 0. Unit: 1/(`PROBABILITY` `ONE`). The entries have
    the axes class (from the second) and feature, flattened row by row. With Q = `PROBABILITY`:
    p_k = floor(Q e_k / sum e) from whole numbers e, so that p_k >= 0 and all of them together are
    at most Q.

    Attributes:
        at: Public coefficients, in units of 1/`COEFFICIENT`, with the entries' axes.
    """

    NAME: ClassVar[str] = "class-gradient"

    at: tuple[int, ...]

    def __post_init__(self) -> None:
        OfClasses.__post_init__(self)
        check_coefficients(self.at, self.length)

    @property
    def reach(self) -> int:
        return PROBABILITY * ONE

    def vectors(self, cells: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        matrix = self.features.matrix(cells[:, :-1])
        residual = probabilities(matrix, self.at, self.classes)[:, 1:]
        residual -= PROBABILITY * (self.codes(cells[:, -1])[:, None] == np.arange(1, self.classes))
        return outer(residual, matrix, self.length)

    def _residual(self) -> tuple[int, int]:
        """Return bounds on a record's residual: its L1 norm, and its squared L2 norm."""
        classes, unit = self.classes, PROBABILITY
        if not any(self.at):
            even = unit // classes
            return (
                max((classes - 1) * even, unit - even + (classes - 2) * even),
                max((classes - 1) * even**2, (unit - even) ** 2 + (classes - 2) * even**2),
            )
        return (unit, unit**2) if classes == 2 else (2 * unit, 2 * unit**2)

    def norms(self, neighbours: Neighbours) -> tuple[int, int]:
        """Return c (1 + p) Q ONE and c (1 + p) (Q ONE)^2; twice and four times for replace-one.

        A record adds the outer product of r and x, whose norms are |r|_1 |x|_1 and |r|_2 |x|_2, and
        |x|_1 and |x|_2^2 are at most 1 + p. In units of 1/Q, r_k = p_k - Q [y = k], k from the
        second class on. First class: |r|_1 = sum p_k <= Q, and the sum of p_k^2 is at most the
        square of the sum, Q^2. Class y: |r|_1 = (Q - p_y) + sum of the others <= 2 (Q - p_y) <=
        2 Q, and |r|_2^2 is (Q - p_y)^2 and at most (Q - p_y)^2 of the others, 2 Q^2; of two classes
        there are no others: Q and Q^2. So c is 1 for two classes and 2 for more. At coefficients 0
        every p_k is floor(Q/K), and both are known: half of Q for two classes.
        """
        l1, l2_squared = self._residual()
        moved, norm = records_moved(neighbours), self.features.norm
        return moved * l1 * norm * ONE, moved**2 * l2_squared * norm * ONE**2


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberGradient(SumOfVectors):
    """The gradient of half the squared error: sum of r x, r = x'b - y; and its size, 2 r^2 - 1.

    r is cut to [-1, 1] (so that far from the data it is Huber's loss); at coefficients 0 it is -y,
    which nothing cuts, and the entries are the sums of products X'y and of squares about the
    middle. Records whose number is missing add 0. Unit: 1/`ONE`^2. The entries are one for each
    feature, and last the sum of 2 r^2 - 1, which lies as evenly about 0: the sum of r^2 is half of
    that and of the number of records that have a number.

    Attributes:
        target: The column of numbers.
        features: The predictors.
        at: Public coefficients, in units of 1/`COEFFICIENT`, one for each feature.
    """

    NAME: ClassVar[str] = "number-gradient"

    target: Number
    features: Features
    at: tuple[int, ...]

    def __post_init__(self) -> None:
        check_outcome(self.target.name, self.features)
        check_coefficients(self.at, self.features.width)

    @property
    def length(self) -> int:
        return self.features.width + 1

    @property
    def reach(self) -> int:
        return ONE**2

    def vectors(self, cells: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        there = cells[:, -1] < self.target.positions
        matrix = self.features.matrix(cells[:, :-1])
        residual = linear(matrix, self.at) - self.target.scaled(cells[:, -1])[:, None]
        # privacy: no residual is above 1, whatever the coefficients are.
        residual = np.clip(residual, -ONE, ONE)
        size = 2 * residual**2 - ONE**2
        return np.hstack([residual * matrix, size]) * there[:, None]

    def norms(self, neighbours: Neighbours) -> tuple[int, int]:
        """Return (2 + p) ONE^2 and (2 + p) ONE^4; twice and four times for replace-one.

        |r| |x|_1 + |2 r^2 - 1| with |r| <= 1 and |x|_1 <= 1 + p: at most (1 + p) + 1. So is
        r^2 |x|_2^2 + (2 r^2 - 1)^2 with r^2 <= 1 and |x|_2^2 <= 1 + p.
        """
        moved, own = records_moved(neighbours), self.features.norm + 1
        return moved * own * ONE**2, moved**2 * own * ONE**4

    def claimed_codes(self) -> list[ClaimedCodes]:
        return [*self.features.claimed_codes(), self.target.claimed_codes()]


def linear(matrix: NDArray[np.int64], at: tuple[int, ...]) -> NDArray[np.int64]:
    """Return x'b of each cell in units of 1/`ONE`, shape (cells, len(at)/features)."""
    coefficients = np.array(at, dtype=np.int64).reshape(-1, matrix.shape[1])
    # To the nearest whole number.
    return np.asarray((matrix @ coefficients.T + COEFFICIENT // 2) // COEFFICIENT)


def probabilities(
    matrix: NDArray[np.int64], at: tuple[int, ...], classes: int
) -> NDArray[np.int64]:
    """Return the probabilities of classes in units of 1/`PROBABILITY`, rounded down.

    Args:
        matrix: Features of cells, shape (cells, features).
        at: Coefficients of the classes from the second on.
        classes: Number of classes.

    Returns:
        Shape (cells, classes); no entry is negative, and no row adds up to more than
        `PROBABILITY`.
    """
    # privacy: whole numbers only; a cell's value must not depend on its position.
    logits = np.column_stack([np.zeros(len(matrix), dtype=np.int64), linear(matrix, at)])
    assert logits.shape[1] == classes
    below = np.minimum(logits.max(axis=1, keepdims=True) - logits, _FAR)
    weights = _exponentials()[below]
    return np.asarray(weights * PROBABILITY // weights.sum(axis=1, keepdims=True))


@lru_cache(maxsize=1)
def _exponentials() -> NDArray[np.int64]:
    """Return 2^34 e^(-i/`ONE`), rounded down, for i from 0 to `_FAR`; the same on every machine."""
    bits = 128
    term = step = 1 << bits
    for order in range(1, 24):
        term = -term // (order * ONE)
        step += term
    found, power = [], 1 << bits
    for _ in range(_FAR + 1):
        found.append(power >> (bits - _WEIGHT_BITS))
        power = power * step >> bits
    return frozen(np.array(found, dtype=np.int64))


def outer(residual: NDArray[np.int64], matrix: NDArray[np.int64], length: int) -> NDArray[np.int64]:
    """Return the outer product of each record's residuals and features, in `length` entries."""
    return (residual[:, :, None] * matrix[:, None, :]).reshape(len(matrix), length)


def check_outcome(column: str, features: Features) -> None:
    """Raise ValueError if the outcome is one of the predictors."""
    if column in features.names:
        raise ValueError("A column cannot predict itself.")


def check_coefficients(coefficients: Sequence[int], length: int) -> None:
    """Raise ValueError unless there are `length` coefficients, and none is too large."""
    if len(coefficients) != length:
        raise ValueError(f"There must be {length} coefficients, not {len(coefficients)}.")
    if any(abs(each) > LARGEST_COEFFICIENT for each in coefficients):
        raise ValueError(f"A coefficient must be at most {LARGEST_COEFFICIENT // COEFFICIENT}.")
