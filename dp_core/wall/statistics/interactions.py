"""Interactions: the part of a table that is orthogonal to all of its margins.

A table of p x q cells spends most of its budget on repeating its margins. Its interaction has only
(p - 1)(q - 1) entries. In the squared L2 norm a record moves it by f = (1 - 1/p)(1 - 1/q) instead
of 1, so it costs f times as much at the same noise per cell (Xiao, He, Zhang & Kifer, NeurIPS 2023:
the residual mechanism of ResidualPlanner). For a 2 x 2 table f is a quarter.

A column of p codes has p - 1 contrasts (Helmert's): contrast j = 1..p-1 is 1 for the first j codes,
-j for code j, and 0 from there on. They are orthogonal to one another and to the constant, and of
squared norm j (j + 1). Each is multiplied by the whole number next to K/sqrt(j (j + 1)), so that
all have nearly the norm K, and one scale of discrete noise serves all entries. The rows of several
columns are the products of theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import isqrt, prod, sqrt
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dp_core.errors import BadInput
from dp_core.kernel.codes import Codes
from dp_core.schema.privacy import Neighbours
from dp_core.tables.domain import Clique
from dp_core.wall.statistics.descriptions import names, wholes
from dp_core.wall.statistics.statistic import ClaimedCodes, Sum, claims
from dp_core.wall.statistics.whole_numbers import cell_numbers, cut

MOST_CELLS = 2**26
"""Largest number of cells of the table."""
LARGEST = 2**33
"""Largest absolute value of a coefficient: a product over all columns."""
LARGEST_IN_SHARES = 2**31
"""Largest coefficient times the shares of a unit. So the entries of 2^20 units are at most 2^51:
numbers of shares that are found again from values in units (`dp_core.wall.household_values`)."""
MOST_ENTRIES = 2**20
"""Largest number of entries of one interaction, and of all measured together for a set.

A record can change every entry, and the accounting of a release allows 2^31 changed numbers
(`dp_core.wall.accounting.curves`); a thousand sets use half of that.
"""

_ROWS = 2**29
"""Number of records above which the entries are computed with Python's integers."""


@dataclass(frozen=True, slots=True)
class Interaction(Sum):
    """The interaction of a table. Unit: `unit` steps are one record.

    The entries are the table's products with the products of its columns' contrasts, those of the
    first column outermost. The interaction of one column is its deviation from a uniform
    distribution.

    Attributes:
        columns: Columns of the table, one or more.
        sizes: Number of codes of each column, 2 or more.

    Privacy:
        Let u(x) be the row of coefficients of code x of a column, and u(x) of a cell the product of
        those of its codes. A record in cell x adds u(x) to the entries, whatever the other records
        are: a whole number of a size up to `LARGEST`. So does the computed vector: a partial sum is
        of a size up to the number of records times `LARGEST`, at most 2^62 for 2^29 of them, and
        with more the arithmetic has no limit, and its result is cut, which moves no two files'
        further apart.

        Sensitivities are computed in whole numbers from the coefficients themselves, after they
        were rounded.
    """

    NAME: ClassVar[str] = "interaction"
    IN_SHARES: ClassVar[bool] = True

    columns: tuple[str, ...]
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.columns or len({*self.columns}) != len(self.columns):
            raise ValueError("An interaction is of one column or more, all different.")
        if len(self.columns) != len(self.sizes):
            raise ValueError("Every column of an interaction has a size.")
        for name, size in zip(self.columns, self.sizes, strict=True):
            if size < 2:
                raise ValueError(
                    f"A column of an interaction has 2 codes or more, and {name!r} has {size}:"
                    " leave it out."
                )
        if (
            prod(self.sizes) > MOST_CELLS
            # privacy: a record moves all entries; the accounting allows for this many.
            or self.length > MOST_ENTRIES
            # privacy: with larger coefficients the entries might not fit in 64 bits.
            or prod(each.reach for each in self._each()) > LARGEST
        ):
            raise ValueError(
                f"The interaction of {' x '.join(self.columns)} has too many cells to be measured:"
                " leave out a column, or give its columns wider bins."
            )

    @property
    def length(self) -> int:
        return prod(size - 1 for size in self.sizes)

    @property
    def clique(self) -> Clique:
        return self.columns

    def total(self, cells: Codes, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        table = np.zeros(prod(self.sizes), dtype=np.int64)
        np.add.at(table, cell_numbers(cells, self.sizes), counts)
        return self.of_table(table.reshape(self.sizes))

    def of_table(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the exact entries, shape (length,), of a table's counts.

        Args:
            counts: Records, shape `sizes`, axes in the order of the columns. Confidential, unless
                the counts are public.
        """
        if counts.shape != self.sizes or counts.dtype != np.int64:
            raise ValueError(f"Counts of shape {counts.shape} for sizes {self.sizes}.")
        # privacy: whole-number arithmetic that cannot overflow, whatever the file is.
        large = float(np.abs(counts.astype(np.float64)).sum()) > _ROWS
        table: NDArray[Any] = counts.astype(object) if large else counts
        for axis, each in enumerate(self._each()):
            found = np.moveaxis(table, axis, 0)
            before = np.cumsum(found, axis=0)[:-1]
            steps, weights = _along(each.steps, before.ndim), _along(each.weights, before.ndim)
            table = np.moveaxis(weights * (before - steps * found[1:]), 0, axis)
        return cut(table.reshape(-1))

    def l1(self, neighbours: Neighbours) -> int:
        """Return a bound on the L1 sensitivity.

        Add-remove: |u(x)| of a cell is the product of those of its codes, so the largest is the
        product of the largest: exact. Replace-one: |u(x) - u(y)|, exact for one column; twice the
        largest |u(x)| for several.
        """
        found = self._each()
        if neighbours == "replace-one" and len(found) == 1:
            return found[0].l1_apart
        largest = prod(each.l1 for each in found)
        return largest if neighbours == "add-remove" else 2 * largest

    def l2_squared(self, neighbours: Neighbours) -> int:
        """Return a bound on the squared L2 sensitivity.

        Add-remove: |u(x)|^2 of a cell is the product of those of its codes, so the largest is the
        product of the largest: exact. With rows of exactly the norm K = 1 it is f = the product of
        (1 - 1/p) over the columns.

        Replace-one: |u(x) - u(y)|^2 = |u(x)|^2 + |u(y)|^2 - 2 u(x)u(y), exact for one column. For
        several, u(x)u(y) is the product of the columns' own u(x)u(y), each of which is between
        the smallest and the largest of its column; a product of intervals has its least value at
        their ends. With rows of norm 1 it is 2 f r/(r - 1) with r the smallest p: 4 f where a
        column has two codes, near to 2 f where all have many.
        """
        found = self._each()
        if neighbours == "replace-one" and len(found) == 1:
            return found[0].l2_squared_apart
        largest = prod(each.l2_squared for each in found)
        if neighbours == "add-remove":
            return largest
        least = most = 1
        for each in found:
            # privacy: of one code with itself (positive) and of two different ones.
            ends = [end * own for end in (least, most) for own in (each.least, each.l2_squared)]
            least, most = min(ends), max(ends)
        return 2 * largest - 2 * least

    def in_shares(self, shares: int) -> Self:
        """Return the same interaction: its entries are sums over shares instead of records.

        Raises:
            BadInput: if the entries of a million units could be too large to be found again from
                values in units.
        """
        if shares > 1 and shares * prod(each.reach for each in self._each()) > LARGEST_IN_SHARES:
            raise BadInput(
                f"The interaction of {' x '.join(self.columns)} has numbers that are too large in"
                f" units of 1/{shares} of a household: measure the whole table."
            )
        return self

    def claimed_codes(self) -> list[ClaimedCodes]:
        return claims(self.columns, self.sizes)

    def to_json(self) -> dict[str, Any]:
        return {"name": self.NAME, "columns": list(self.columns), "sizes": list(self.sizes)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        return cls(names(document["columns"]), wholes(document["sizes"]))

    # -- public side: the table that noisy entries imply

    @property
    def unit(self) -> float:
        """Steps of the entries that are one record: the product of the columns' K."""
        return prod(each.norm for each in self._each())

    @property
    def cells(self) -> int:
        """Number of cells of the table."""
        return prod(self.sizes)

    def spread(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Return the table that the entries imply, shape `sizes`, in records.

        It adds up to 0 along every axis. Of exact entries it is the orthogonal projection of the
        counts: rows have the norms that they have, not K.

        Args:
            values: Entries, shape (length,). Public.
        """
        table = np.asarray(values, dtype=np.float64).reshape([size - 1 for size in self.sizes])
        for axis, each in enumerate(self._each()):
            steps = _along(each.steps, table.ndim)
            weights = _along(each.weights, table.ndim)
            part = np.moveaxis(table, axis, 0) / (weights * steps * (steps + 1))
            found = np.zeros((each.steps.size + 1, *part.shape[1:]))
            found[:-1] = np.cumsum(part[::-1], axis=0)[::-1]
            found[1:] -= steps * part
            table = np.moveaxis(found, 0, axis)
        return np.ascontiguousarray(table)

    def cell_variance(self, variance: float) -> float:
        """Return s^2, records squared, such that the noise of `spread` has covariance s^2 P.

        P is the projection. So the interaction is known as from a whole table with noise of
        variance s^2 in every cell.
        A column's rows differ from the norm K by 1 in 64 at most, and those of two codes not at
        all.

        Args:
            variance: Variance of the noise on each entry, in steps squared.
        """
        return variance / self.unit**2

    def cell_stddev(self, stddev: float) -> float:
        """Return the standard deviation of the noise in a cell of `spread`, records.

        Args:
            stddev: Standard deviation of the noise on each entry, in steps.
        """
        return stddev / self.unit * sqrt(self.length / self.cells)

    def _each(self) -> list[_Contrasts]:
        return [_contrasts(size, len(self.sizes)) for size in self.sizes]


@dataclass(frozen=True, slots=True, eq=False)
class _Contrasts:
    """The contrasts of a column, and the bounds that the sensitivity of a table needs. Public.

    Attributes:
        norm: The common norm K.
        steps: Indices j = 1..p-1 of the contrasts.
        weights: Factor of each contrast.
        reach: Largest absolute value of a coefficient.
        l1: Largest L1 norm of a code's coefficients.
        l2_squared: Largest squared L2 norm of them.
        least: Smallest product of two codes' coefficients.
        l1_apart: Largest L1 distance of two codes' coefficients.
        l2_squared_apart: Largest squared L2 distance of them.
    """

    norm: float
    steps: NDArray[np.int64]
    weights: NDArray[np.int64]
    reach: int
    l1: int
    l2_squared: int
    least: int
    l1_apart: int
    l2_squared_apart: int


@lru_cache(maxsize=1024)
def _contrasts(size: int, columns: int) -> _Contrasts:
    """Return the contrasts of a column of `size` codes, one of so many columns.

    K is 32 times the size or more, so that no weight is rounded by more than 1 in 64; of few
    columns, which leave room for it, it is larger, so that the weights of most are rounded by less.

    Code x has the coefficient -x w_x in contrast x, w_j in every contrast j > x, and 0 before. So
    for codes x < y, with S(y) the sum of w_j^2 over j > y:

        u(x)u(x) = x^2 w_x^2 + S(x)
        u(x)u(y) = S(y) - y w_y^2
        |u(x) - u(y)|_1 = x w_x + (the sum of w_j over x < j < y) + (y + 1) w_y
    """
    # Two codes have one contrast, which needs no rounding: small coefficients leave room for more
    # columns.
    square = 32 if size == 2 else max(32 * size, 2 ** min(12, 32 // columns)) ** 2
    weights = [0] + [(isqrt(4 * square // (j * (j + 1))) + 1) // 2 for j in range(1, size)]
    l1_after = l2_after = 0  # sums over j > x of the weights, and of their squares
    own: list[int] = []
    own_l1: list[int] = []
    with_lower: list[int] = []
    for x in range(size - 1, -1, -1):
        own.append((x * weights[x]) ** 2 + l2_after)
        own_l1.append(x * weights[x] + l1_after)
        with_lower.append(l2_after - x * weights[x] ** 2)
        l1_after += weights[x]
        l2_after += weights[x] ** 2
    own, own_l1, with_lower = own[::-1], own_l1[::-1], with_lower[::-1]
    l1_apart = l2_squared_apart = 0
    below_l1, below, passed = 0, own[0], 0  # largest over x < y; sum of the weights up to y - 1
    for y in range(1, size):
        l1_apart = max(l1_apart, below_l1 + passed + (y + 1) * weights[y])
        l2_squared_apart = max(l2_squared_apart, below + own[y] - 2 * with_lower[y])
        passed += weights[y]
        below_l1, below = max(below_l1, y * weights[y] - passed), max(below, own[y])
    return _Contrasts(
        norm=sqrt(square),
        steps=np.arange(1, size, dtype=np.int64),
        weights=np.array(weights[1:], dtype=np.int64),
        reach=max(j * weights[j] for j in range(1, size)),
        l1=max(own_l1),
        l2_squared=max(own),
        least=min(with_lower[1:]),
        l1_apart=l1_apart,
        l2_squared_apart=l2_squared_apart,
    )


def _along(values: NDArray[Any], axes: int) -> NDArray[Any]:
    """Return values along the first of some axes."""
    return values.reshape(-1, *[1] * (axes - 1))
