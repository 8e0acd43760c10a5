"""Predictors of a regression as whole numbers: public, and bounded column by column.

The unit of every feature is 1/`ONE`. The first is 1 (the intercept). A column of s levels has
s - 1 indicators, of the levels from the second on. A column of numbers has (number - centre)/reach,
cut to [-1, 1], and where numbers may be missing an indicator of that beside it; the number is then
0. So each column's part has a length of at most 1, by either norm: with p columns a record's
features have an L1 norm of at most 1 + p and a squared L2 norm of at most 1 + p.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.questions.descriptions import fields_json, of_type
from dp_core.kernel.questions.statistic import ClaimedCodes
from dp_core.kernel.questions.whole_numbers import MOST_CODES, MOST_POSITIONS

ONE = 1 << 12
"""The number 1 in the unit of features."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A column of numbers, scaled.

    Attributes:
        name: Name of the column.
        positions: Number of its grid positions; a larger code means missing.
        centre: Number that is scaled to 0, in half steps of the grid from the middle of the range.
        reach: Distance from the centre that is scaled to 1, in half steps, at least 1.
        missing: Whether there is a code for missing; by default not.
    """

    name: str
    positions: int
    centre: int
    reach: int
    missing: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.positions <= MOST_POSITIONS:
            raise ValueError(f"A column has 1 to {MOST_POSITIONS} positions.")
        if not 1 <= self.reach <= MOST_POSITIONS or abs(self.centre) >= MOST_POSITIONS:
            raise ValueError(
                f"Centre and reach must be below {MOST_POSITIONS}, and reach at least 1."
            )

    @property
    def width(self) -> int:
        """Number of its features."""
        return 1 + self.missing

    def scaled(self, codes: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        """Return the feature of each code in units of 1/`ONE`; 0 where it is missing."""
        whole = codes.astype(np.int64)
        away = 2 * whole - (self.positions - 1) - self.centre
        # privacy: cut before scaling, so that no feature has an absolute value above 1.
        away = np.clip(away, -self.reach, self.reach)
        # Integer arithmetic, rounded to the nearest whole number.
        scaled = (2 * away * ONE + self.reach) // (2 * self.reach)
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


Predictor = Number | Levels


@dataclass(frozen=True, slots=True)
class Features:
    """The predictors of a regression.

    Attributes:
        all: One predictor for each column.
    """

    all: tuple[Predictor, ...] = ()

    def __post_init__(self) -> None:
        if len({each.name for each in self.all}) != len(self.all):
            raise ValueError("Predictors must be different columns.")

    @property
    def names(self) -> tuple[str, ...]:
        """Columns."""
        return tuple(each.name for each in self.all)

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
            cells: Codes, shape (cells, predictors), in their order.
        """
        parts = [np.full((len(cells), 1), ONE, dtype=np.int64)]
        parts += [each.matrix(cells[:, axis]) for axis, each in enumerate(self.all)]
        return np.hstack(parts)

    def claimed_codes(self) -> list[ClaimedCodes]:
        """Return the codes that the bounds of each column assume."""
        return [each.claimed_codes() for each in self.all]

    def to_json(self) -> list[dict[str, Any]]:
        """Return plain values that define them."""
        return [fields_json(each) for each in self.all]

    @classmethod
    def from_json(cls, document: Any) -> Self:
        """Return the predictors that `to_json` described.

        Raises:
            ValueError: or another error of its kind, if it is not what `to_json` returns.
        """
        return cls(of_type(tuple[Predictor, ...], document))
