"""Domains: the columns and their numbers of codes. Public."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from dp_core.kernel.codes import CodeType, code_type
from dp_core.kernel.counting.linked_columns import LinkedColumns

Clique: TypeAlias = tuple[str, ...]
"""Columns of one marginal, in the order of its axes."""


@dataclass(frozen=True)
class Domain:
    """Columns and their numbers of codes; the order of columns is the order of axes.

    Attributes:
        columns: Names of the columns, without repetition.
        sizes: Codes of column `i` run from 0 to `sizes[i] - 1`.
        linked: If records are pair rows of households, their columns; None (the default) otherwise,
            and of every part of the domain.
        nested: Columns that lie within one another, for methods
            (`dp_core.tables.nested_columns.NestedColumns`); None (the default) if there are none,
            and of every part of the domain.
    """

    columns: tuple[str, ...]
    sizes: tuple[int, ...]
    linked: LinkedColumns | None = None
    nested: Any = None

    def __post_init__(self) -> None:
        if len(self.columns) != len(self.sizes):
            raise ValueError(f"{len(self.columns)} columns but {len(self.sizes)} sizes.")
        if len(set(self.columns)) != len(self.columns):
            raise ValueError(f"A column is repeated in {self.columns}.")
        if min(self.sizes, default=1) < 1:
            raise ValueError(f"Every column needs at least one code, got sizes {self.sizes}.")

    def project(self, clique: Iterable[str]) -> Domain:
        """Return the domain of `clique`, its columns in the clique's own order."""
        clique = tuple(clique)
        return Domain(clique, tuple(self.sizes[axis] for axis in self.axes(clique)))

    @cached_property
    def code_type(self) -> CodeType:
        """Type in memory of the codes of records; see `dp_core.kernel.codes`."""
        return code_type(*self.sizes)

    def axes(self, clique: Iterable[str]) -> tuple[int, ...]:
        """Return the axis of each column of `clique`.

        Raises:
            KeyError: if a column is not in the domain.
        """
        axis = self._axis
        return tuple([axis[column] for column in clique])

    @cached_property  # this and `code_type` are the reason why this class has no slots
    def _axis(self) -> dict[str, int]:
        return {column: axis for axis, column in enumerate(self.columns)}

    def size(self, clique: Iterable[str] | None = None) -> int:
        """Return the number of cells of the domain, or of one clique of it.

        >>> Domain(("a", "b"), (2, 3)).size()
        6
        """
        if clique is None:
            return math.prod(self.sizes)
        return math.prod([self.sizes[axis] for axis in self.axes(clique)])

    def __contains__(self, column: object) -> bool:
        return column in self.columns

    def __len__(self) -> int:
        return len(self.columns)
