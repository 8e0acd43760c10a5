"""Domains: the columns and their numbers of codes. Public."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from dp_core.kernel.codes import CodeType, code_type
from dp_core.kernel.counting.linked_columns import LinkedColumns
from dp_core.kernel.counting.nested_columns import NestedColumns

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
        nested: Columns that lie within one another; None (the default) if there are none, and of
            every part of the domain.
    """

    columns: tuple[str, ...]
    sizes: tuple[int, ...]
    linked: LinkedColumns | None = None
    nested: NestedColumns | None = None

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

    @property
    def row_bytes(self) -> int:
        """Bytes of the codes of one record in memory."""
        return len(self) * self.code_type.itemsize

    @property
    def shares(self) -> int:
        """Number of shares of a record: those of a household if records are pair rows, else 1."""
        return 1 if self.linked is None else self.linked.shares

    def cliques(self, order: int) -> Iterator[Clique]:
        """Yield the cliques of so many columns that a method may choose among.

        Of columns within one another, a clique has at most one, because it decides the others. Of
        pair rows, the tables of the other member alone repeat those of the member, and a pair of
        the two members is the same in either order. So cliques with the other member are pairs of a
        member's column and the same or a later column of the other member.

        >>> list(Domain(("a", "b", "c"), (2, 2, 2)).cliques(2))
        [('a', 'b'), ('a', 'c'), ('b', 'c')]
        """
        others = () if self.linked is None else self.linked.others
        own = [name for name in self.columns if name not in others]
        for clique in itertools.combinations(own, order):
            if self.nested is None or not self.nested.together(clique):
                yield clique
        if self.linked is None:
            return
        if order == 2:
            person = self.linked.person_columns
            for place, name in enumerate(person):
                yield from ((name, other) for other in others[place:])

    def number_of_cliques(self, order: int) -> int:
        """Return the number of `cliques(order)`."""
        person = 0 if self.linked is None else len(self.linked.person_columns)
        of_both = person * (person + 1) // 2 if order == 2 else 0
        nested = 0 if self.nested is None else len(self.nested.columns)
        rest = len(self) - person - nested
        one = nested * math.comb(rest, order - 1) if order else 0
        return math.comb(rest, order) + one + of_both

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
