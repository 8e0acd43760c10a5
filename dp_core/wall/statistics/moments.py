"""Counts, sums and products of numbers, within the cells of other columns.

A number in a column with P grid positions is measured from the middle of its range, in half steps
of the grid: c = 2 position - (P - 1), a whole number of absolute value at most r = P - 1. The width
of the range is 2 r = 2 (P - 1). A record whose number is missing adds nothing; `CellCounts` counts
the records that have a number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.codes import Codes
from dp_core.schema.privacy import Neighbours
from dp_core.tables.domain import Clique
from dp_core.wall.statistics.descriptions import names, wholes
from dp_core.wall.statistics.statistic import ClaimedCodes, Sum, claims
from dp_core.wall.statistics.whole_numbers import (
    MOST_CODES,
    MOST_POSITIONS,
    cell_numbers,
    cut,
    exact_sums,
)

About = Literal["middle", "cells"]
"""Centre of the factors of a product: the middles of the ranges, or the means of each cell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellCounts(Sum):
    """Records by levels of some columns and by which of some numbers are missing. Unit: records.

    The entries are a table with an axis for each column of `by`, then one of two codes (0 there,
    1 missing) for each of `numbers`, flattened row by row.

    Attributes:
        by: Columns of levels.
        sizes: Number of levels of each of these.
        numbers: Columns of numbers.
        positions: Number of grid positions of each of these; a larger code means missing.
    """

    NAME: ClassVar[str] = "cell-counts"
    IN_SHARES: ClassVar[bool] = True

    by: tuple[str, ...]
    sizes: tuple[int, ...]
    numbers: tuple[str, ...]
    positions: tuple[int, ...]

    def __post_init__(self) -> None:
        _check(self.by, self.sizes, self.numbers, self.positions)

    @property
    def shape(self) -> tuple[int, ...]:
        """Axes of the table whose entries these are."""
        return (*self.sizes, *[2] * len(self.numbers))

    @property
    def length(self) -> int:
        return prod(self.shape)

    @property
    def clique(self) -> Clique:
        return (*self.by, *self.numbers)

    def total(self, cells: Codes, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        first = len(self.by)
        missing = cells[:, first:] >= np.array(self.positions, dtype=np.int64)
        where = cell_numbers(np.column_stack([cells[:, :first], missing]), self.shape)
        return cut(exact_sums(where, np.ones(len(counts), dtype=np.int64), counts, self.length))

    def l1(self, neighbours: Neighbours) -> int:
        """1 under add-remove, 2 under replace-one: a record is in one entry, and adds 1 to it."""
        return 1 if neighbours == "add-remove" else 2

    def l2_squared(self, neighbours: Neighbours) -> int:
        """1 under add-remove, 2 under replace-one: two entries move by 1 each, or none."""
        return 1 if neighbours == "add-remove" else 2

    def claimed_codes(self) -> list[ClaimedCodes]:
        return claims(self.by, self.sizes) + claims(self.numbers, self.positions, or_missing=True)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.NAME,
            "by": list(self.by),
            "sizes": list(self.sizes),
            "numbers": list(self.numbers),
            "positions": list(self.positions),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        return cls(
            by=names(document["by"]),
            sizes=wholes(document["sizes"]),
            numbers=names(document["numbers"]),
            positions=wholes(document["positions"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CellSums(Sum):
    """Sums of one number about the middle of its range, by levels of some columns.

    Unit: half steps of its grid. The entries are the cells of `by`, flattened row by row.

    Attributes:
        column: Column of numbers.
        positions: Number of its grid positions; a larger code means missing and adds 0.
        by: Columns of levels; none by default.
        sizes: Number of levels of each of these.
    """

    NAME: ClassVar[str] = "cell-sums"
    IN_SHARES: ClassVar[bool] = True

    column: str
    positions: int
    by: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        _check(self.by, self.sizes, (self.column,), (self.positions,))

    @property
    def length(self) -> int:
        return prod(self.sizes)

    @property
    def clique(self) -> Clique:
        return (*self.by, self.column)

    def total(self, cells: Codes, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        number, there = _centred(cells[:, -1], self.positions)
        where = cell_numbers(cells[:, :-1], self.sizes)
        return cut(exact_sums(where[there], number[there], counts[there], self.length))

    def l1(self, neighbours: Neighbours) -> int:
        """Return r = P - 1 under add-remove, 2 r under replace-one; at least 1.

        A record is in one cell and adds its c there, or 0; the absolute value is at most r. A
        replaced record is one removed and one added, so the change is at most 2 r. A number that
        changes from one end of the range to the other within its cell attains this bound.
        """
        reach = self.positions - 1
        return max(1, reach if neighbours == "add-remove" else 2 * reach)

    def l2_squared(self, neighbours: Neighbours) -> int:
        """Return r^2 under add-remove, 4 r^2 under replace-one; at least 1.

        A replaced record moves one entry by up to 2 r, or two by up to r each: 4 r^2 or 2 r^2.
        """
        return self.l1(neighbours) ** 2

    def claimed_codes(self) -> list[ClaimedCodes]:
        own = ClaimedCodes(self.column, self.positions, or_missing=True)
        return [*claims(self.by, self.sizes), own]

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.NAME,
            "column": self.column,
            "positions": self.positions,
            "by": list(self.by),
            "sizes": list(self.sizes),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        return cls(
            column=names([document["column"]])[0],
            positions=wholes([document["positions"]])[0],
            by=names(document["by"]),
            sizes=wholes(document["sizes"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Products(Sum):
    """The sum of the squares of one number, or of the products of two: one entry.

    Unit: half steps of the one grid times half steps of the other; the squares about the middle
    count half of that. Records in which a number is missing add 0.

    About the middle, the products are c d, and the squares 2 c^2 - r^2, which lie as evenly about
    0: the sum of c^2 is half of (total + r^2 times the number of records that have the number).
    About the cells, they are products of deviations from the means of the record's cell, among
    those of its records that have both numbers; each cell's sum is rounded down.

    Attributes:
        columns: Two different columns of numbers, or one twice for its squares.
        positions: Grid positions of each; a larger code means missing.
        about: What the products are taken about.
        by: Columns of levels that make the cells.
        sizes: Numbers of levels of each.
    """

    NAME: ClassVar[str] = "products"
    IN_SHARES: ClassVar[bool] = True

    columns: tuple[str, str]
    positions: tuple[int, int]
    about: About = "middle"
    by: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if len(self.columns) != 2 or len(self.positions) != 2:
            raise ValueError("A product needs two columns and their numbers of positions.")
        if self.squares and self.positions[0] != self.positions[1]:
            raise ValueError("A column must have the same number of positions in both places.")
        _check(self.by, self.sizes, dict.fromkeys(self.columns), self.positions)
        if self.about not in ("middle", "cells"):
            raise ValueError(f"Products are about the middle or the cells, not {self.about!r}.")
        if self.about == "middle" and self.by:
            raise ValueError("Products about the middle cannot have cells (`by`).")

    @property
    def squares(self) -> bool:
        """Whether both numbers are the same."""
        return self.columns[0] == self.columns[1]

    @property
    def length(self) -> int:
        return 1

    @property
    def clique(self) -> Clique:
        return (*self.by, *dict.fromkeys(self.columns))

    def total(self, cells: Codes, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        first, there = _centred(cells[:, len(self.by)], self.positions[0])
        second, too = _centred(cells[:, -1], self.positions[1])
        there = there & too
        first, second, counts = first[there], second[there], counts[there]
        products = first * second
        if self.about == "middle":
            if self.squares:
                products = 2 * products - (self.positions[0] - 1) ** 2
            return cut(exact_sums(np.zeros(len(counts), dtype=np.int64), products, counts, 1))
        where = cell_numbers(cells[there][:, : len(self.by)], self.sizes)
        found, where = np.unique(where, return_inverse=True)
        # privacy: whole numbers of any size throughout; a float would not have the proven bound.
        sums = [
            exact_sums(where, part, counts, len(found)).astype(object)
            for part in (np.ones(len(counts), dtype=np.int64), first, second, products)
        ]
        number, one, other, both = sums
        within = (number * both - one * other) // number if len(found) else number
        return cut(np.array([within.sum()], dtype=object))

    def l1(self, neighbours: Neighbours) -> int:
        """Return the bound for each choice of `about`, with r, s = P - 1 of the two columns.

        About the middle: a record adds c d, or 2 c^2 - r^2 where both are one column, or 0: at
        most r s in size. So r s under add-remove; to replace a record takes one away and adds one:
        2 r s.

        About the cells: let a cell have k records with means x, y and the sum of products S. One
        more, (c, d), makes it S + f(c, d) k/(k + 1) with f(c, d) = (c - x)(d - y). A mean is in
        the range, so |c - x| <= 2 r and |d - y| <= 2 s, and S moves by less than B = 4 r s (not at
        all if k = 0). Numbers that differ by less than the whole number B differ by at most B once
        they are rounded down. Only the record's own cell moves, so add-remove: B.

        Replace-one within a cell: f is linear in each of c and d, so it is largest at a corner of
        the ranges and least at one beside it, which share c, say: they differ by |c - x| 2 s <= B,
        and the two neighbours' S by less than B. From one cell to another: each cell's S moves by
        at most B, so 2 B. Of squares B is enough there too: a record more makes S larger, never
        smaller, so that one cell's S falls by 0 to B and the other's grows by 0 to B.
        """
        reach = (self.positions[0] - 1) * (self.positions[1] - 1)
        if self.about == "middle":
            return max(1, reach if neighbours == "add-remove" else 2 * reach)
        alone = neighbours == "add-remove" or self.squares or prod(self.sizes) == 1
        return max(1, 4 * reach if alone else 8 * reach)

    def l2_squared(self, neighbours: Neighbours) -> int:
        """Return the square of `l1`: there is one entry."""
        return self.l1(neighbours) ** 2

    def claimed_codes(self) -> list[ClaimedCodes]:
        return claims(self.by, self.sizes) + claims(self.columns, self.positions, or_missing=True)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.NAME,
            "columns": list(self.columns),
            "positions": list(self.positions),
            "about": self.about,
            "by": list(self.by),
            "sizes": list(self.sizes),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        first, second = names(document["columns"])
        one, other = wholes(document["positions"])
        return cls(
            columns=(first, second),
            positions=(one, other),
            about=document["about"],
            by=names(document["by"]),
            sizes=wholes(document["sizes"]),
        )


def _check(
    by: Sequence[str],
    sizes: Sequence[int],
    numbers: Sequence[str] | Mapping[str, None],
    positions: Sequence[int],
) -> None:
    """Raise ValueError unless the columns differ and have sizes."""
    if len({*by, *numbers}) != len(by) + len(numbers):
        raise ValueError("The columns of a sum must be different.")
    if len(by) != len(sizes) or len(numbers) > len(positions):
        raise ValueError("Every column of a sum needs a size.")
    if any(not 1 <= size <= MOST_CODES for size in sizes):
        raise ValueError(f"A column has 1 to {MOST_CODES:,} codes.")
    if any(not 1 <= number <= MOST_POSITIONS for number in positions):
        raise ValueError(f"A number has 1 to {MOST_POSITIONS:,} positions.")


def _centred(codes: Codes, positions: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return numbers about the middle of their range, and which are not missing."""
    return 2 * codes.astype(np.int64) - (positions - 1), codes < positions
