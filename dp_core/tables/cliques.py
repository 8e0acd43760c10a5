"""The cliques that methods choose among, and columns that lie within one another. Public."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.tables.nested_columns import Codes, NestedColumns


def cliques_of(domain: Domain, order: int) -> Iterator[Clique]:
    """Yield the cliques of so many columns that a method may choose among.

    Of columns within one another, a clique has at most one, because it decides the others. Of
    pair rows, the tables of the other member alone repeat those of the member, and a pair of
    the two members is the same in either order. So cliques with the other member are pairs of a
    member's column and the same or a later column of the other member.

    >>> list(cliques_of(Domain(("a", "b", "c"), (2, 2, 2)), 2))
    [('a', 'b'), ('a', 'c'), ('b', 'c')]
    """
    others = () if domain.linked is None else domain.linked.others
    own = [name for name in domain.columns if name not in others]
    for clique in combinations(own, order):
        if domain.nested is None or not domain.nested.together(clique):
            yield clique
    if domain.linked is None:
        return
    if order == 2:
        person = domain.linked.person_columns
        for place, name in enumerate(person):
            yield from ((name, other) for other in others[place:])


def row_bytes(domain: Domain) -> int:
    """Return the bytes of the codes of one record in memory."""
    return len(domain) * domain.code_type.itemsize


def shares_of(domain: Domain) -> int:
    """Return the number of shares of a record: those of a household for pair rows, else 1."""
    return 1 if domain.linked is None else domain.linked.shares


def number_of_cliques(domain: Domain, order: int) -> int:
    """Return the number of `cliques_of(domain, order)`."""
    person = 0 if domain.linked is None else len(domain.linked.person_columns)
    of_both = person * (person + 1) // 2 if order == 2 else 0
    nested = 0 if domain.nested is None else len(domain.nested.columns)
    rest = len(domain) - person - nested
    one = nested * math.comb(rest, order - 1) if order else 0
    return math.comb(rest, order) + one + of_both


def levels_within(nested: NestedColumns, lower: str) -> tuple[NDArray[np.intp], ...]:
    """Return, for each code of the column above `lower`, the codes of `lower` within it."""
    above = nested.map(nested.columns[nested.depth(lower) - 1], lower)
    order = np.argsort(above, kind="stable")
    ends = np.cumsum(np.bincount(above))
    return tuple(np.split(order, ends[:-1]))


def with_larger(nested: NestedColumns, clique: Collection[str]) -> Clique:
    """Return a clique and the columns of larger areas, which a table of the clique determines.

    Args:
        nested: The columns that lie within one another.
        clique: Columns, in any order.
    """
    depth = max((nested.depth(name) for name in clique), default=0)
    return tuple(dict.fromkeys((*clique, *nested.columns[:depth])))


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
