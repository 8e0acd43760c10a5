"""Nested columns: each level of one lies in one level of another, such as districts in counties.

Public.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[Any]
"""Codes of a column, of any integer type."""


@dataclass(frozen=True)
class NestedColumns:
    """Columns of a hierarchy, each within the one before.

    Attributes:
        columns: Names of at least two columns, from the one with the largest areas to the one with
            the smallest.
        parents: For each column after the first: the code of the column before, for each code.

    >>> nested = NestedColumns(("region", "county"), ((0, 0, 1),))
    >>> nested.upper, nested.lowest
    (('region',), 'county')
    >>> nested.map("region", "county").tolist()
    [0, 0, 1]
    """

    columns: tuple[str, ...]
    parents: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        if len(self.columns) < 2 or len(self.parents) != len(self.columns) - 1:
            raise ValueError(f"{len(self.columns)} nested columns but {len(self.parents)} maps.")

    @property
    def lowest(self) -> str:
        """The column with the smallest areas; it decides all others."""
        return self.columns[-1]

    @property
    def upper(self) -> tuple[str, ...]:
        """All columns but the lowest."""
        return self.columns[:-1]

    def depth(self, name: str) -> int:
        """Return the place of a column from the top, 0 for the first; 0 also for other columns."""
        return self.columns.index(name) if name in self.columns else 0

    def above(self, name: str) -> str | None:
        """Return the column in which a column directly lies; None for the first and for others."""
        depth = self.depth(name)
        return self.columns[depth - 1] if depth else None

    def map(self, upper: str, lower: str) -> NDArray[np.intp]:
        """Return the code of `upper` for each code of `lower`, shape (codes of `lower`,).

        Args:
            upper: A nested column.
            lower: A nested column after it.
        """
        start, end = self.columns.index(upper), self.columns.index(lower)
        found = self._maps[end - 1]
        for each in reversed(self._maps[start : end - 1]):
            found = each[found]
        return found

    def children(self, lower: str) -> tuple[NDArray[np.intp], ...]:
        """Return, for each code of the column above `lower`, the codes of `lower` within it."""
        above = self._maps[self.columns.index(lower) - 1]
        order = np.argsort(above, kind="stable")
        ends = np.cumsum(np.bincount(above))
        return tuple(np.split(order, ends[:-1]))

    def among(self, names: Collection[str]) -> NestedColumns | None:
        """Return the nested columns among some names; None if they are fewer than two."""
        kept = [name for name in self.columns if name in names]
        if len(kept) < 2:
            return None
        if len(kept) == len(self.columns):
            return self
        maps = (self.map(one, other) for one, other in pairwise(kept))
        return NestedColumns(tuple(kept), tuple(tuple(each.tolist()) for each in maps))

    def with_larger(self, clique: Collection[str]) -> tuple[str, ...]:
        """Return a clique and the columns of larger areas, which a table of the clique determines.

        Args:
            clique: Columns, in any order.
        """
        depth = max((self.depth(name) for name in clique), default=0)
        return tuple(dict.fromkeys((*clique, *self.columns[:depth])))

    def together(self, clique: Collection[str]) -> bool:
        """Return whether a clique holds two of the columns; one of them then decides the other."""
        return sum(name in self.columns for name in clique) > 1

    @cached_property
    def _maps(self) -> tuple[NDArray[np.intp], ...]:
        return tuple(np.array(each, dtype=np.intp) for each in self.parents)


@dataclass(frozen=True, slots=True, eq=False)
class Nesting:
    """The rule that a column's level lies in the level of another column.

    Attributes:
        columns: The column with the larger areas, and the one with the smaller.
        parents: The code of the first for each code of the second, shape (codes of the second,).
        text: The rule in words.
    """

    columns: tuple[str, str]
    parents: NDArray[np.intp]
    text: str

    def breaks(self, upper: Codes, lower: Codes) -> NDArray[np.bool_]:
        """Return which rows break the rule, shape (rows,).

        Args:
            upper: Codes of the first column, shape (rows,).
            lower: Codes of the second column, same shape.
        """
        return np.asarray(self.parents[lower] != upper)


def nestings(nested: NestedColumns | None) -> tuple[Nesting, ...]:
    """Return a rule for each column that lies within another; empty for None."""
    if nested is None:
        return ()
    return tuple(
        Nesting((one, other), nested.map(one, other), f"{other} lies within {one}")
        for one, other in pairwise(nested.columns)
    )
