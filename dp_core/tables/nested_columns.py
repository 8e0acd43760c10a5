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

    def among(self, names: Collection[str]) -> NestedColumns | None:
        """Return the nested columns among some names; None if they are fewer than two."""
        kept = [name for name in self.columns if name in names]
        if len(kept) < 2:
            return None
        if len(kept) == len(self.columns):
            return self
        maps = (self.map(one, other) for one, other in pairwise(kept))
        return NestedColumns(tuple(kept), tuple(tuple(each.tolist()) for each in maps))

    def together(self, clique: Collection[str]) -> bool:
        """Return whether a clique holds two of the columns; one of them then decides the other."""
        return sum(name in self.columns for name in clique) > 1

    @cached_property
    def _maps(self) -> tuple[NDArray[np.intp], ...]:
        return tuple(np.array(each, dtype=np.intp) for each in self.parents)
