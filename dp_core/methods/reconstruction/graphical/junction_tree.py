"""Junction trees: the cliques whose tables represent a graphical model."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.domain import Clique, Domain


@dataclass(frozen=True, slots=True)
class JunctionTree:
    """A junction tree: each clique's columns shared with earlier cliques are in its parent.

    Attributes:
        domain: All columns, each in a clique.
        cliques: Cliques with columns in the domain's order; none is a subset of another.
        parents: Index of each clique's parent, -1 for the root, which is the first clique. The
            parent of a clique without shared columns is the root.
    """

    domain: Domain
    cliques: tuple[Clique, ...]
    parents: tuple[int, ...]

    @classmethod
    def of(cls, domain: Domain, cliques: Iterable[Clique]) -> JunctionTree:
        """Return a tree with few cells whose cliques contain all of `cliques` and every column."""
        held = _best(domain, adjacency(domain, cliques))[0]
        found = [tuple(itertools.compress(domain.columns, row)) for row in held.tolist()]
        return cls.joined(domain, found)

    @classmethod
    def joined(cls, domain: Domain, cliques: Sequence[Clique]) -> JunctionTree:
        """Return the junction tree of cliques that are known to have one."""
        left = [(clique, set(clique)) for clique in sorted(cliques, key=domain.axes)]
        shared = [-1] * len(left)  # most columns shared with a clique of the tree
        order: list[Clique] = []
        while left:
            # Prim's algorithm: a spanning tree with the most shared columns is a junction tree.
            at = max(range(len(left)), key=shared.__getitem__)
            clique, columns = left.pop(at)
            shared.pop(at)
            order.append(clique)
            shared = [
                max(most, len(columns & other))
                for most, (_, other) in zip(shared, left, strict=True)
            ]
        return cls.ordered(domain, order)

    @classmethod
    def ordered(cls, domain: Domain, cliques: Sequence[Clique]) -> JunctionTree:
        """Return the tree of cliques in the order that `joined` returned."""
        parents = [-1]
        sets = [set(clique) for clique in cliques]
        for place in range(1, len(cliques)):
            shares = [len(sets[place] & one) for one in sets[:place]]
            parents.append(shares.index(max(shares)))
        return cls(domain, tuple(cliques), tuple(parents))

    @property
    def separators(self) -> tuple[Clique, ...]:
        """Columns that each clique shares with its parent; none for the root."""
        return tuple(
            tuple(name for name in clique if parent >= 0 and name in self.cliques[parent])
            for clique, parent in zip(self.cliques, self.parents, strict=True)
        )

    @property
    def cells(self) -> int:
        """Number of cells of all cliques together."""
        return sum(self.domain.size(clique) for clique in self.cliques)

    def holder(self, clique: Clique) -> int | None:
        """Return the index of the smallest clique that contains `clique`, or None."""
        wanted = set(clique)
        places = [place for place, one in enumerate(self.cliques) if wanted <= set(one)]
        return min(places, key=lambda p: self.domain.size(self.cliques[p]), default=None)


def adjacency(domain: Domain, cliques: Iterable[Clique]) -> NDArray[np.bool_]:
    """Return whether two columns are in a common clique, shape (columns, columns)."""
    adjacent = np.zeros((len(domain), len(domain)), dtype=bool)
    for clique in cliques:
        axes = np.array(domain.axes(clique), dtype=np.intp)
        adjacent[np.ix_(axes, axes)] = True
    return adjacent


def tree_cells(domain: Domain, adjacent: NDArray[np.bool_]) -> float:
    """Return the number of cells of a graph's junction tree."""
    return _best(domain, adjacent)[1]


def within(domain: Domain, cliques: Iterable[Clique], *, most_cells: float) -> list[Clique]:
    """Return the cliques, in order, that fit together into a tree of at most `most_cells` cells."""
    kept: list[Clique] = []
    # Every column is in the tree, with or without a clique of its own.
    adjacent = np.eye(len(domain), dtype=bool)
    for clique in cliques:
        axes = np.array(domain.axes(clique), dtype=np.intp)
        joined = np.ix_(axes, axes)
        if not adjacent[joined].all():
            more = adjacent.copy()
            more[joined] = True
            if tree_cells(domain, more) > most_cells:
                continue
            adjacent = more
        kept.append(clique)
    return kept


def _best(domain: Domain, adjacent: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], float]:
    from dp_core.methods.reconstruction.kernels.elimination import eliminate

    sizes = np.array(domain.sizes, dtype=np.float64)
    tries = [eliminate(adjacent, sizes, by_fill) for by_fill in (False, True)]
    held, cells = min(tries, key=lambda found: found[1])
    return held, float(cells)
