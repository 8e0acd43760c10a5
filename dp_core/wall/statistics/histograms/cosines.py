"""Cosine transform of a histogram: its first coefficients, and the norm of those left out.

A histogram x of n bins has the coefficients C_j = sum over bins b of x_b cos(pi j (2 b + 1)/(2 n)),
j = 0 to n - 1 (DCT-II). They are counted in units of 1/`GRID`: every cosine is first rounded to a
multiple of that unit, so a coefficient is a sum of integers over records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import isqrt
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.codes import Codes
from dp_core.schema.privacy import Neighbours
from dp_core.tables.domain import Clique
from dp_core.tables.marginal import Marginal
from dp_core.wall.accounting.sensitivity import Bounds
from dp_core.wall.statistics.descriptions import typed, wholes
from dp_core.wall.statistics.statistic import ClaimedCodes, Sum, TableStatistic, alike, claims
from dp_core.wall.statistics.whole_numbers import MOST, MOST_CODES, saturated

GRID = 2**20
"""Units in 1."""
MOST_BINS = 4096
"""Largest number of bins of a histogram; the transform takes time quadratic in it."""
_BLOCK = 256
_ONE_TABLE = "Its bounds are for one table of records; measure tables of linked files."


def coefficients(counts: NDArray[np.int64], first: int, last: int) -> list[int]:
    """Return C_j for `first` <= j < `last` as whole numbers of 1/GRID, exactly. Confidential.

    Args:
        counts: Records in each bin, shape (bins,).
        first: First coefficient.
        last: End of the coefficients.
    """
    # privacy: integers of any size, so that there is no rounding and no overflow.
    exact = counts.astype(object) if int(counts.sum()) >= MOST // GRID else counts
    found: list[int] = []
    for start in range(first, last, _BLOCK):
        table = cosines(counts.size, np.arange(start, min(start + _BLOCK, last)))
        found += [int(value) for value in table @ exact]
    return found


def cosines(bins: int, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return what a record of each bin adds to coefficients, shape (coefficients, bins). Public.

    Args:
        bins: Number of bins.
        numbers: The coefficients.
    """
    angles = np.outer(numbers, 2 * np.arange(bins) + 1) % (4 * bins)
    rounded = np.rint(GRID * np.cos(np.pi * angles / (2 * bins)))
    # privacy: the bounds of the sums follow from this line, whatever the cosine of the machine.
    return np.asarray(np.clip(rounded, -GRID, GRID), dtype=np.int64)


def _check(size: int, edges: tuple[int, ...]) -> None:
    """Refuse bins that do not cover all positions.

    Raises:
        ValueError: if edges do not ascend from 0 to the number of codes, or to one code fewer,
            which then means missing.
    """
    if not 1 <= size <= MOST_CODES:
        raise ValueError(f"A column has 1 to {MOST_CODES:,} codes.")
    if not (
        2 <= len(edges) <= MOST_BINS + 1
        and edges[0] == 0
        and edges[-1] in (size, size - 1)
        and all(one < other for one, other in pairwise(edges))
    ):
        raise ValueError(
            f"Edges of 1 to {MOST_BINS:,} bins must ascend from 0 to the number of codes, or to"
            " the code of missing values."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CosineSums(Sum):
    """The first coefficients of the cosine transform of a histogram. Unit: 1/GRID record.

    The entries are C_0 to C_(k - 1). If the last code means missing, a record with it adds nothing
    to these, and a further entry counts these records, in the same unit.

    Attributes:
        column: Name of the numeric column.
        size: Its number of codes.
        edges: First code of each bin, from 0, and then the number of codes that are not missing:
            `size`, or `size` - 1 if the last code means missing.
        kept: Number k of coefficients, from 1 to the number of bins.
    """

    NAME: ClassVar[str] = "cosine-sums"
    NOT_IN_SHARES: ClassVar[str] = _ONE_TABLE

    column: str
    size: int
    edges: tuple[int, ...]
    kept: int

    def __post_init__(self) -> None:
        _check(self.size, self.edges)
        if not 1 <= self.kept <= self.bins:
            raise ValueError(f"A histogram of {self.bins} bins has 1 to {self.bins} coefficients.")

    @property
    def bins(self) -> int:
        """Number of bins."""
        return len(self.edges) - 1

    @property
    def missing(self) -> bool:
        """Whether the last code means missing."""
        return self.edges[-1] < self.size

    @property
    def length(self) -> int:
        return self.kept + self.missing

    @property
    def clique(self) -> Clique:
        return (self.column,)

    def total(self, cells: Codes, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        bins = np.searchsorted(self.edges, cells[:, 0].astype(np.int64), side="right") - 1
        found = np.zeros(self.bins + 1, dtype=np.int64)
        np.add.at(found, bins, counts)
        values = coefficients(found[:-1], 0, self.kept)
        return saturated([*values, GRID * int(found[-1])] if self.missing else values)

    def l1(self, neighbours: Neighbours) -> int:
        """`kept` GRID under add-remove; under replace-one about 2 (`kept` - 1) GRID (see below).

        A record adds to each of the k coefficients a cosine rounded to the grid, which is at most
        GRID in absolute value, or GRID to the entry for missing values alone. Under replace-one
        the two cosines of C_0 are equal, and those of the others differ by at most 2 GRID. If one
        of the two values is missing, the k coefficients and the entry for missing values change by
        at most GRID each, together (k + 1) GRID. C_0 alone, without missing values, does not change
        at all; the bound is then 1.
        """
        if neighbours == "add-remove":
            return self.kept * GRID
        return max(2 * (self.kept - 1), self.kept + 1 if self.missing else 0) * GRID or 1

    def l2_squared(self, neighbours: Neighbours) -> int:
        """The sum of the squares of the same changes."""
        if neighbours == "add-remove":
            return self.kept * GRID**2
        return max(4 * (self.kept - 1), self.kept + 1 if self.missing else 0) * GRID**2 or 1

    def claimed_codes(self) -> list[ClaimedCodes]:
        return claims((self.column,), (self.size,))

    def histogram(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the histogram whose further coefficients are 0, from (noisy) entries. Public.

        Args:
            values: Entries as released, in units of 1/GRID record.
        """
        factors = np.full(self.kept, 2.0 / (self.bins * GRID))
        factors[0] /= 2
        found = np.zeros(self.bins)
        for start in range(0, self.kept, _BLOCK):
            part = np.arange(start, min(start + _BLOCK, self.kept))
            found += (values[part] * factors[part]) @ cosines(self.bins, part) / GRID
        return found

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.NAME,
            "column": self.column,
            "size": self.size,
            "edges": list(self.edges),
            "kept": self.kept,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        kinds = {"name": str, "column": str, "size": int, "edges": list, "kept": int}
        found = typed(document, kinds)
        return cls(
            column=found["column"],
            size=found["size"],
            edges=wholes(found["edges"]),
            kept=found["kept"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CosineTails(TableStatistic):
    """Minus the norm of the coefficients that are lost if only k are kept, minus a price.

    Entry k - 1 is minus the integer part of the Euclidean norm of the orthonormal coefficients
    sqrt(2/n) C_j, j = k to n - 1, minus the price of k, in units of 1/GRID record. The enhanced
    Fourier perturbation algorithm chooses k by these scores (Acs, Castelluccia & Chen 2012), with
    the expected size of the noise as the price.

    Attributes:
        column: Name of the numeric column.
        edges: First code of each bin, from 0, and then the number of codes that are not missing.
        prices: Public price of each k from 1, in units of 1/GRID record.
    """

    NAME: ClassVar[str] = "cosine-tails"
    NOT_IN_SHARES: ClassVar[str] = _ONE_TABLE

    column: str
    edges: tuple[int, ...]
    prices: tuple[int, ...]

    def __post_init__(self) -> None:
        _check(self.edges[-1], self.edges)
        if not 1 <= len(self.prices) <= len(self.edges) - 1:
            raise ValueError("A histogram of n bins needs 1 to n prices.")
        if any(not 0 <= price <= MOST for price in self.prices):
            raise ValueError("Prices are whole numbers from 0.")

    @property
    def length(self) -> int:
        return len(self.prices)

    @property
    def cliques(self) -> tuple[Clique, ...]:
        return ((self.column,),)

    def largest_change(self, neighbours: Neighbours) -> int:
        """GRID + 2 under add-remove; under replace-one the integer part of sqrt(2) GRID, plus 4.

        The n orthonormal cosines of one bin are a vector of length 1 (the transform is orthogonal),
        so those from k >= 1 on are no longer. Each is rounded: GRID cos is off by less than 1, with
        the factor sqrt(2/n), so the vector of at most n such errors is no longer than sqrt(2). An
        added record thus moves the vector of orthonormal coefficients by at most GRID + sqrt(2); a
        replaced one by the difference of two such vectors, of length at most sqrt(2) GRID plus
        2 sqrt(2): two bins' cosines are orthogonal, and taking some entries of their difference
        does not lengthen it. The norm moves by no more (triangle inequality). The whole parts of
        two numbers differ by at most their difference rounded up. Prices are public. A record
        whose value is missing, or none, changes nothing.
        """
        if neighbours == "add-remove":
            return GRID + 2
        return isqrt(2 * GRID**2) + 4

    def compute(self, counts: Mapping[Clique, Marginal]) -> NDArray[np.int64]:
        edges = np.asarray(self.edges)
        inside = counts[self.column,].counts[: edges[-1]]
        bins = np.add.reduceat(inside, edges[:-1])
        # privacy: whole numbers of any size; the root is the exact whole part.
        left = 0
        lost = [0] * (bins.size + 1)
        for place in range(bins.size - 1, 0, -_BLOCK):
            first = max(place - _BLOCK + 1, 1)
            for number, value in zip(
                range(place, first - 1, -1),
                reversed(coefficients(bins, first, place + 1)),
                strict=True,
            ):
                left += value * value
                lost[number] = left
        return saturated(
            -isqrt(2 * lost[kept] // bins.size) - price
            for kept, price in enumerate(self.prices, start=1)
        )

    def to_json(self) -> dict[str, object]:
        return {
            "name": self.NAME,
            "column": self.column,
            "bins": len(self.edges) - 1,
            "length": self.length,
        }

    @classmethod
    def required(cls, document: Mapping[str, Any], neighbours: Neighbours) -> Bounds:
        found = cls(column="", edges=(0, 1), prices=(0,))
        return alike(found.largest_change(neighbours), document)
