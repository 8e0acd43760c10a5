"""Products of two numbers, or squares of one, about the means within the cells of other columns.

Numbers are measured as in `dp_core.kernel.questions.linear_questions`: c = 2 position - (P - 1), of
absolute value at most P - 1, in half steps of the grid. The products depend on the other records
of a cell through its means, so they are not of the linear family and have a proof of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.codes import Codes
from dp_core.kernel.privacy import Neighbours
from dp_core.kernel.questions.linear_questions import OfTwoNumbers
from dp_core.kernel.questions.whole_numbers import cell_numbers, cut, exact_sums


@dataclass(frozen=True, slots=True, kw_only=True)
class Products(OfTwoNumbers):
    """The sum of the squares of one number, or of the products of two: one entry.

    Unit: half steps of the one grid times half steps of the other. They are products of deviations
    from the means of the record's cell, among those of its records that have both numbers; each
    cell's sum is rounded down. Records in which a number is missing add 0.

    Attributes:
        columns: Two different columns of numbers, or one twice for its squares.
        positions: Grid positions of each; a larger code means missing.
        about: What the products are taken about. `MiddleProducts` are about the middle.
        by: Columns of levels that make the cells.
        sizes: Numbers of levels of each.
    """

    NAME: ClassVar[str] = "products"
    IN_SHARES: ClassVar[bool] = True

    about: Literal["cells"] = "cells"

    def __post_init__(self) -> None:
        OfTwoNumbers.__post_init__(self)
        if self.about != "cells":
            raise ValueError(f"Products are about the middle or the cells, not {self.about!r}.")

    @property
    def length(self) -> int:
        return 1

    def total(self, cells: Codes, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        first, there = _centred(cells[:, len(self.by)], self.positions[0])
        second, too = _centred(cells[:, -1], self.positions[1])
        there = there & too
        first, second, counts = first[there], second[there], counts[there]
        products = first * second
        by = cells[there, : len(self.by)].T
        where = cell_numbers(by, self.sizes, len(counts))
        found, where = np.unique(where, return_inverse=True)
        # privacy: whole numbers of any size throughout; a float would not have the proven bound.
        sums = [
            exact_sums(where, part, counts, len(found)).astype(object)
            for part in (np.ones(len(counts), dtype=np.int64), first, second, products)
        ]
        number, one, other, both = sums
        within = (number * both - one * other) // number if len(found) else number
        return cut(np.array([within.sum()], dtype=object))

    def norms(self, neighbours: Neighbours) -> tuple[int, int]:
        """Return 4 r s or 8 r s, with r, s = P - 1 of the two columns, and its square.

        Let a cell have k records with means x, y and the sum of products S. One
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
        alone = neighbours == "add-remove" or self.squares or prod(self.sizes) == 1
        change = max(1, 4 * reach if alone else 8 * reach)
        return change, change**2


def _centred(codes: Codes, positions: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return numbers about the middle of their range, and which are not missing."""
    return 2 * codes.astype(np.int64) - (positions - 1), codes < positions
