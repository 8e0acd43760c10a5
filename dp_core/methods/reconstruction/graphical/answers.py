"""Tables of a graphical model, including those of columns that no clique contains."""

from __future__ import annotations

import string
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import Table
from dp_core.kernel.counting.domain import Clique
from dp_core.methods.reconstruction.estimates.raking import margin
from dp_core.methods.reconstruction.graphical.junction_tree import JunctionTree

MOST_CELLS = 1 << 24
"""Largest number of cells of an intermediate table."""

_Factor = tuple[Clique, NDArray[np.float64]]


class Answers:
    """Computes tables of a model by variable elimination, and caches intermediate results.

    A subtree depends on the rest of the tree only through its separator. So a table over several
    cliques is computed along the tree, from the lowest clique up to the one whose subtree contains
    all requested columns.
    """

    def __init__(self, tree: JunctionTree, tables: Sequence[Table]) -> None:
        """Prepare the answers of a model.

        Args:
            tree: Junction tree of the model.
            tables: Tables of its cliques, in the tree's order; they agree.
        """
        self._tree = tree
        self._tables = tables
        self._separators = tree.separators
        self._top: dict[str, int] = {}
        for place, clique in enumerate(tree.cliques):
            for name in clique:
                self._top.setdefault(name, place)
        self._above: list[list[int]] = []  # for each clique, the path to the root, itself first
        for place, parent in enumerate(tree.parents):
            self._above.append([place, *(self._above[parent] if parent >= 0 else [])])
        self._given: list[NDArray[np.float64] | None] = [None] * len(tables)
        self._sent: dict[tuple[int, frozenset[str]], _Factor] = {}

    def table(self, clique: Clique) -> NDArray[np.float64]:
        """Return the expected counts over a clique, in records, axes in the clique's order.

        Raises:
            KeyError: for an unknown column, or if an intermediate table has more than `MOST_CELLS`
                cells.
        """
        holder = self._tree.holder(clique)
        if holder is not None:
            return margin(self._tables[holder], clique)
        tops = [self._top[name] for name in clique]
        common = set(self._above[tops[0]]).intersection(*[self._above[top] for top in tops[1:]])
        meeting = max(common)  # a clique's parent comes before it
        found = self._summed(meeting, self._tables[meeting].values, set(clique), clique)
        return found[1]

    def _message(self, place: int, wanted: frozenset[str]) -> _Factor:
        """Return the distribution of wanted columns in a clique's subtree given its separator."""
        key = (place, wanted)
        if key not in self._sent:
            separator = self._separators[place]
            keep = (*separator, *sorted(wanted, key=self._tree.domain.columns.index))
            self._sent[key] = self._summed(place, self._conditional(place), set(wanted), keep)
        return self._sent[key]

    def _conditional(self, place: int) -> NDArray[np.float64]:
        given = self._given[place]
        if given is None:
            table = self._tables[place]
            summed = tuple(
                axis
                for axis, name in enumerate(table.clique)
                if name not in self._separators[place]
            )
            whole = table.values.sum(axis=summed, keepdims=True)
            given = np.divide(
                table.values, whole, out=np.zeros(table.values.shape), where=whole > 1e-250
            )
            self._given[place] = given
        return given

    def _summed(
        self, place: int, values: NDArray[np.float64], wanted: set[str], keep: Clique
    ) -> _Factor:
        """Return a clique's table times its children's messages, summed over all but `keep`."""
        here = self._tree.cliques[place]
        groups: dict[int, set[str]] = {}
        for name in wanted.difference(here):
            way = self._above[self._top[name]]
            groups.setdefault(way[way.index(place) - 1], set()).add(name)
        columns = here
        for number, (child, names) in enumerate(sorted(groups.items())):
            other, sent = self._message(child, frozenset(names))
            later = {
                name for below in sorted(groups)[number + 1 :] for name in self._separators[below]
            }
            kept = tuple(
                name
                for name in (*columns, *[name for name in other if name not in columns])
                if name in keep or name in later
            )
            values = self._product(columns, values, other, sent, kept)
            columns = kept
        axes = tuple(axis for axis, name in enumerate(columns) if name not in keep)
        left = [name for name in columns if name in keep]
        return keep, np.asarray(values.sum(axis=axes)).transpose([left.index(n) for n in keep])

    def _product(
        self,
        one: Clique,
        values: NDArray[np.float64],
        two: Clique,
        other: NDArray[np.float64],
        kept: Clique,
    ) -> NDArray[np.float64]:
        if self._tree.domain.size(kept) > MOST_CELLS:
            raise KeyError(f"The table of {list(kept)} is too large; sample and count instead.")
        letter = dict(zip(dict.fromkeys((*one, *two)), string.ascii_letters, strict=False))
        terms = ["".join(letter[name] for name in names) for names in (one, two, kept)]
        return np.asarray(np.einsum(f"{terms[0]},{terms[1]}->{terms[2]}", values, other))
