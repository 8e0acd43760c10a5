"""Gradients of a regression's loss at public coefficients, in whole numbers from end to end.

Each record adds a vector that depends on its codes and on the public coefficients only. It is
computed in whole numbers, so that neither the order of the records nor how many there are can
change it in its last digit; a rounding that did would move the sum by as many units as there are
records. Gradients of one loss at several coefficients, each charged, are a private minimisation
whose proof is their composition (Song, Chaudhuri & Sarwate 2013; Bassily, Smith & Thakurta 2014):
no stopping rule, no convexity, no exact minimiser is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.codes import Codes
from dp_core.kernel.counting.domain import Clique
from dp_core.kernel.privacy import Neighbours
from dp_core.kernel.questions.regressions.features import ONE, Features, Number
from dp_core.kernel.questions.statistic import ClaimedCodes, Sum
from dp_core.kernel.questions.whole_numbers import MOST, cut, frozen

COEFFICIENT = 1 << 16
"""The number 1 in the unit of coefficients."""

LARGEST_COEFFICIENT = COEFFICIENT << 10
"""Coefficients above 1024 in size are refused; no product of theirs overflows."""

PROBABILITY = 1 << 16
"""The number 1 in the unit of probabilities."""

_FAR = 22 * ONE  # e^-22 is 0 in the unit of probabilities
_WEIGHT_BITS = 34


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
        if self.column in self.features.names:
            raise ValueError("A column cannot predict itself.")
        if self.classes < 2 or self.missing_from < 0 or (self.missing_from and self.classes != 2):
            raise ValueError("There must be at least two classes, and exactly two for missing.")

    @property
    def length(self) -> int:
        return (self.classes - 1) * self.features.width

    @property
    def clique(self) -> Clique:
        return (*self.features.names, self.column)

    def codes(self, codes: NDArray[np.integer[Any]]) -> NDArray[np.integer[Any]]:
        """Return the class of each code."""
        return (codes >= self.missing_from).astype(np.int64) if self.missing_from else codes

    def claimed_codes(self) -> list[ClaimedCodes]:
        own = ClaimedCodes(
            self.column, self.missing_from or self.classes, or_missing=bool(self.missing_from)
        )
        return [own, *self.features.claimed_codes()]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassGradient(OfClasses):
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
    IN_SHARES: ClassVar[bool] = True

    at: tuple[int, ...]

    def __post_init__(self) -> None:
        OfClasses.__post_init__(self)
        _check(self.column, self.features, self.at, self.length)

    def total(self, cells: Codes, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        matrix = self.features.matrix(cells[:, :-1])
        residual = probabilities(matrix, self.at, self.classes)[:, 1:]
        residual -= PROBABILITY * (self.codes(cells[:, -1])[:, None] == np.arange(1, self.classes))
        return _weighted(residual, matrix, counts)

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

    def l1(self, neighbours: Neighbours) -> int:
        """Return c (1 + p) Q ONE under add-remove, twice that under replace-one.

        A record adds the outer product of r and x, whose L1 norm is |r|_1 |x|_1, and |x|_1 is at
        most 1 + p. In units of 1/Q, r_k = p_k - Q [y = k], k from the second class on. First
        class: |r|_1 = sum p_k <= Q. Class y: |r|_1 = (Q - p_y) + sum of the others <= 2 (Q - p_y)
        <= 2 Q; of two classes there are no others: Q. So c is 1 for two classes and 2 for more. At
        coefficients 0 every p_k is floor(Q/K), and both are known: half of Q for two classes.

        To replace a record is to take one away and to add one.
        """
        own = self._residual()[0] * self.features.norm * ONE
        return own if neighbours == "add-remove" else 2 * own

    def l2_squared(self, neighbours: Neighbours) -> int:
        """Return c (1 + p) (Q ONE)^2 under add-remove, four times that under replace-one.

        |r|_2 |x|_2, squared, with |x|_2^2 <= 1 + p. First class: the sum of p_k^2 is at most the
        square of the sum, Q^2. Class y: (Q - p_y)^2 and at most (Q - p_y)^2 of the others, 2 Q^2;
        of two classes Q^2. At coefficients 0: see `l1`.
        """
        own = self._residual()[1] * self.features.norm * ONE**2
        return own if neighbours == "add-remove" else 4 * own


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberGradient(Sum):
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
    IN_SHARES: ClassVar[bool] = True

    target: Number
    features: Features
    at: tuple[int, ...]

    def __post_init__(self) -> None:
        _check(self.target.name, self.features, self.at, self.features.width)

    @property
    def length(self) -> int:
        return self.features.width + 1

    @property
    def clique(self) -> Clique:
        return (*self.features.names, self.target.name)

    def total(self, cells: Codes, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        there = cells[:, -1] < self.target.positions
        cells, counts = cells[there], counts[there]
        matrix = self.features.matrix(cells[:, :-1])
        residual = linear(matrix, self.at)[:, 0] - self.target.scaled(cells[:, -1])
        # privacy: no residual is above 1, whatever the coefficients are.
        residual = np.clip(residual, -ONE, ONE)
        size = (2 * residual**2 - ONE**2)[:, None]
        ones = np.ones((len(cells), 1), dtype=np.int64)
        return np.concatenate(
            [_weighted(residual[:, None], matrix, counts), _weighted(size, ones, counts)]
        )

    def l1(self, neighbours: Neighbours) -> int:
        """Return (2 + p) ONE^2 under add-remove, twice that under replace-one.

        |r| |x|_1 + |2 r^2 - 1| with |r| <= 1 and |x|_1 <= 1 + p: at most (1 + p) + 1. To replace a
        record is to take one away and to add one.
        """
        own = (self.features.norm + 1) * ONE**2
        return own if neighbours == "add-remove" else 2 * own

    def l2_squared(self, neighbours: Neighbours) -> int:
        """Return (2 + p) ONE^4 under add-remove, four times that under replace-one.

        r^2 |x|_2^2 + (2 r^2 - 1)^2 with r^2 <= 1 and |x|_2^2 <= 1 + p: at most (1 + p) + 1.
        """
        own = (self.features.norm + 1) * ONE**4
        return own if neighbours == "add-remove" else 4 * own

    def claimed_codes(self) -> list[ClaimedCodes]:
        return [self.target.claimed_codes(), *self.features.claimed_codes()]


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


def _weighted(
    residual: NDArray[np.int64], matrix: NDArray[np.int64], counts: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the sum of the outer products times counts, flattened, exactly; cut at 2^62.

    Privacy:
        A result that does not fit is cut, which never moves two numbers apart.
    """
    reach = int(np.abs(residual).max(initial=0)) * int(np.abs(matrix).max(initial=0))
    # The check makes an overflow impossible: larger sums use Python's integers, which are slower.
    kind = np.dtype(np.int64) if reach * int(counts.sum()) < MOST else np.dtype(object)
    sums = (residual.astype(kind) * counts.astype(kind)[:, None]).T @ matrix.astype(kind)
    return cut(np.asarray(sums).reshape(-1))


def _check(column: str, features: Features, at: tuple[int, ...], length: int) -> None:
    """Raise ValueError unless coefficients fit the features, and the target is none of them."""
    if column in features.names:
        raise ValueError("A column cannot predict itself.")
    if len(at) != length:
        raise ValueError(f"There must be {length} coefficients, not {len(at)}.")
    if any(abs(each) > LARGEST_COEFFICIENT for each in at):
        raise ValueError(f"A coefficient must be at most {LARGEST_COEFFICIENT // COEFFICIENT}.")
