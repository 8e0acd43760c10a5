"""Junction trees: the cliques whose tables represent a graphical model."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.tables.domain import Clique, Domain


@dataclass(frozen=True, slots=True)
class JunctionTree:
    """Cliques, each but the first hanging on an earlier one that holds all it shares with them.

    Attributes:
        domain: All columns, each in a clique.
        cliques: Columns in the domain's order; no clique lies inside another.
        parents: Place of the clique each hangs on, -1 for the first. A clique that shares nothing
            hangs on the first one.
    """

    domain: Domain
    cliques: tuple[Clique, ...]
    parents: tuple[int, ...]

    @classmethod
    def of(cls, domain: Domain, cliques: Iterable[Clique]) -> JunctionTree:
        """Return a tree whose cliques hold all of `cliques`, of few cells, and every column."""
        held = _best(domain, adjacency(domain, cliques))[0]
        found = [tuple(itertools.compress(domain.columns, row)) for row in held.tolist()]
        return cls.joined(domain, found)

    @classmethod
    def joined(cls, domain: Domain, cliques: Sequence[Clique]) -> JunctionTree:
        """Return the tree of cliques that are known to have one, from a first clique outwards."""
        left = sorted(cliques, key=domain.axes)
        order = [left.pop(0)]
        while left:
            # Prim's algorithm: a spanning tree of most shared columns is a junction tree.
            sets = [set(clique) for clique in order]
            best = max(left, key=lambda clique: max(len(one.intersection(clique)) for one in sets))
            left.remove(best)
            order.append(best)
        return cls.ordered(domain, order)

    @classmethod
    def ordered(cls, domain: Domain, cliques: Sequence[Clique]) -> JunctionTree:
        """Return the tree whose cliques are in the order that `joined` gave them."""
        parents = [-1]
        for place in range(1, len(cliques)):
            shares = [len(set(cliques[place]) & set(one)) for one in cliques[:place]]
            parents.append(int(np.argmax(shares)))
        return cls(domain, tuple(cliques), tuple(parents))

    @property
    def separators(self) -> tuple[Clique, ...]:
        """What each clique shares with the one it hangs on; nothing for the first."""
        return tuple(
            tuple(name for name in clique if parent >= 0 and name in self.cliques[parent])
            for clique, parent in zip(self.cliques, self.parents, strict=True)
        )

    @property
    def cells(self) -> int:
        """Number of cells of all cliques together."""
        return sum(self.domain.size(clique) for clique in self.cliques)

    def holder(self, clique: Clique) -> int | None:
        """Return the place of the smallest clique that holds `clique`, None if none does."""
        wanted = set(clique)
        places = [place for place, one in enumerate(self.cliques) if wanted <= set(one)]
        return min(places, key=lambda p: self.domain.size(self.cliques[p]), default=None)


def adjacency(domain: Domain, cliques: Iterable[Clique]) -> NDArray[np.bool_]:
    """Return which columns are in a clique together, shape (columns, columns)."""
    adjacent = np.zeros((len(domain), len(domain)), dtype=bool)
    for clique in cliques:
        axes = np.array(domain.axes(clique), dtype=np.intp)
        adjacent[np.ix_(axes, axes)] = True
    return adjacent


def tree_cells(domain: Domain, adjacent: NDArray[np.bool_]) -> float:
    """Return the number of cells of a graph's junction tree."""
    return _best(domain, adjacent)[1]


def within(domain: Domain, cliques: Iterable[Clique], *, most_cells: float) -> list[Clique]:
    """Return the cliques, in their order, that a tree of at most `most_cells` cells holds."""
    kept: list[Clique] = []
    adjacent = adjacency(domain, ())
    for clique in cliques:
        more = adjacent | adjacency(domain, (clique,))
        if (more == adjacent).all() or tree_cells(domain, more) <= most_cells:
            kept.append(clique)
            adjacent = more
    return kept


def _best(domain: Domain, adjacent: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], float]:
    from dp_core.methods.reconstruction.kernels.elimination import eliminate

    sizes = np.array(domain.sizes, dtype=np.float64)
    tries = [eliminate(adjacent, sizes, by_fill=by_fill) for by_fill in (False, True)]
    return min(tries, key=lambda found: found[1])
