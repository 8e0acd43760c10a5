"""Predictors of a regression as whole numbers: public, and bounded column by column.

The unit of every feature is 1/`ONE`. The first is 1 (the intercept). A column of s levels has
s - 1 indicators, of the levels from the second on. A column of numbers has a public function of the
number, between -1 and 1, and where numbers may be missing an indicator of that beside it; the
function is then 0. A product has all products of its factors' features. So of each predictor at
most one feature of a record is not 0, and it is at most 1 in size: with p predictors a record's
features have an L1 norm of at most 1 + p and a squared L2 norm of at most 1 + p.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from math import prod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.questions.statistic import ClaimedCodes
from dp_core.kernel.questions.whole_numbers import MOST_CODES, MOST_POSITIONS

ONE = 1 << 12
"""The number 1 in the unit of features."""


MOST_KNOTS = 1 << 10
"""Largest number of knots of a function."""
MOST_FACTORS = 8
"""Largest number of factors of a product."""
MOST_TERMS = 1 << 16
"""Largest number of predictors, with which no sum of products overflows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A column of numbers, as a public function of its grid positions.

    The function is straight between its knots, and constant before the first and after the last.

    Attributes:
        name: Name of the column.
        positions: Number of its grid positions; a larger code means missing.
        knots: Places with the function's values there, in the order of the places. A place is twice
            a position (in half steps of the grid), a value in units of 1/`ONE`.
        missing: Whether there is a code for missing; by default not.
    """

    name: str
    positions: int
    knots: tuple[tuple[int, int], ...]
    missing: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.positions <= MOST_POSITIONS:
            raise ValueError(f"A column has 1 to {MOST_POSITIONS} positions.")
        if not 2 <= len(self.knots) <= MOST_KNOTS:
            raise ValueError(f"A function has 2 to {MOST_KNOTS:,} knots.")
        places = [place for place, _ in self.knots]
        if max(map(abs, places)) > 4 * MOST_POSITIONS or any(a >= b for a, b in pairwise(places)):
            raise ValueError(f"Places rise, and are below {4 * MOST_POSITIONS} in size.")
        # privacy: no value between two knots is larger than both.
        if any(abs(value) > ONE for _, value in self.knots):
            raise ValueError("A function has values between -1 and 1.")

    @classmethod
    def line(
        cls, name: str, positions: int, *, centre: int, reach: int, missing: bool = False
    ) -> Self:
        """Return (number - centre)/reach, cut to [-1, 1].

        Args:
            name: Name of the column.
            positions: Number of its grid positions.
            centre: Number that is scaled to 0, in half steps from the middle of the range.
            reach: Distance from the centre that is scaled to 1, in half steps, at least 1.
            missing: Whether there is a code for missing; by default not.
        """
        middle = positions - 1 + centre
        knots = ((middle - reach, -ONE), (middle + reach, ONE))
        return cls(name=name, positions=positions, knots=knots, missing=missing)

    @property
    def width(self) -> int:
        """Number of its features."""
        return 1 + self.missing

    def scaled(self, codes: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        """Return the feature of each code in units of 1/`ONE`; 0 where it is missing."""
        whole = codes.astype(np.int64)
        places, values = np.array(self.knots, dtype=np.int64).T
        at = np.clip(2 * whole, places[0], places[-1])
        left = np.clip(np.searchsorted(places, at, side="right") - 1, 0, len(places) - 2)
        run, rise = np.diff(places)[left], np.diff(values)[left]
        # Integer arithmetic, rounded to the nearest whole number.
        scaled = values[left] + (2 * rise * (at - places[left]) + run) // (2 * run)
        return np.asarray(np.where(whole < self.positions, scaled, 0))

    def matrix(self, codes: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        """Return its features, shape (cells, width)."""
        scaled = self.scaled(codes)
        if not self.missing:
            return scaled[:, None]
        return np.column_stack([scaled, ONE * (codes >= self.positions)])

    def claimed_codes(self) -> ClaimedCodes:
        """Return the codes that its bounds assume."""
        return ClaimedCodes(self.name, self.positions, or_missing=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """A column of levels, as indicators of all but the first.

    Attributes:
        name: Name of the column.
        size: Number of levels, including a level for missing if it is allowed.
    """

    name: str
    size: int

    def __post_init__(self) -> None:
        if not 1 <= self.size <= MOST_CODES:
            raise ValueError(f"A column has 1 to {MOST_CODES} levels.")

    @property
    def width(self) -> int:
        """Number of its features."""
        return self.size - 1

    def matrix(self, codes: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        """Return its features, shape (cells, width)."""
        return np.asarray(ONE * (codes[:, None] == np.arange(1, self.size)).astype(np.int64))

    def claimed_codes(self) -> ClaimedCodes:
        """Return the codes that its bounds assume."""
        return ClaimedCodes(self.name, self.size, or_missing=False)


Factor = Number | Levels


@dataclass(frozen=True, slots=True)
class Product:
    """An interaction: all products of the features of its factors.

    Attributes:
        factors: Two to `MOST_FACTORS` factors.
    """

    factors: tuple[Factor, ...]

    def __post_init__(self) -> None:
        if not 2 <= len(self.factors) <= MOST_FACTORS:
            raise ValueError(f"A product has 2 to {MOST_FACTORS} factors.")
        # privacy: so no part of a product is wider than it; lack of memory could tell of the data.
        if not all(each.width for each in self.factors):
            raise ValueError("A factor has at least one feature.")

    @property
    def width(self) -> int:
        """Number of its features."""
        return prod(each.width for each in self.factors)


Predictor = Factor | Product


@dataclass(frozen=True, slots=True)
class Features:
    """The predictors of a regression.

    Attributes:
        all: The predictors, in the order of their features. A column may be in several of them.
    """

    all: tuple[Predictor, ...] = ()

    def __post_init__(self) -> None:
        if len({*self.all}) != len(self.all) or len(self.all) > MOST_TERMS:
            raise ValueError(f"Predictors must be different, and at most {MOST_TERMS:,}.")
        if len(self.claimed_codes()) != len(self.names):
            raise ValueError("Predictors of the same column must have the same codes.")

    @property
    def factors(self) -> tuple[Factor, ...]:
        """Factors of all predictors, in their order."""
        return tuple(one for each in self.all for one in _factors(each))

    @property
    def names(self) -> tuple[str, ...]:
        """Columns, in the order in which the predictors first have them."""
        return tuple(dict.fromkeys(each.name for each in self.factors))

    @property
    def width(self) -> int:
        """Number of features, with the intercept."""
        return 1 + sum(each.width for each in self.all)

    @property
    def norm(self) -> int:
        """Bound on the L1 norm of a record's features, and on the square of their L2 norm."""
        return 1 + len(self.all)

    def matrix(self, cells: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        """Return the features of cells, in units of 1/`ONE`, shape (cells, width).

        Args:
            cells: Codes, shape (cells, columns), in the order of `names`.
        """
        codes = dict(zip(self.names, cells.T, strict=True))
        parts = [np.full((len(cells), 1), ONE, dtype=np.int64)]
        parts += [
            reduce(_products, [one.matrix(codes[one.name]) for one in _factors(each)])
            for each in self.all
        ]
        return np.hstack(parts)

    def claimed_codes(self) -> list[ClaimedCodes]:
        """Return the codes that the bounds of each column assume."""
        return list(dict.fromkeys(each.claimed_codes() for each in self.factors))


def _factors(predictor: Predictor) -> tuple[Factor, ...]:
    return predictor.factors if isinstance(predictor, Product) else (predictor,)


def _products(one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return all products of the features of each cell, the last factor's fastest."""
    # privacy: each entry is at most `ONE`, and where one has at most one entry, so have products.
    found = (one[:, :, None] * other[:, None, :] + ONE // 2) // ONE
    return np.asarray(found.reshape(len(one), one.shape[1] * other.shape[1]))
