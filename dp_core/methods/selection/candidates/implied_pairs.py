"""How far the edges of a forest of pairs leave the other pairs unexplained.

A graphical model of a forest determines every pair from the edges of the path between its columns.
In a chain or a tree, that is all. If hidden factors are behind all columns, it is little.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dp_core.methods.selection.budget.dependence import usual
from dp_core.methods.selection.candidates.forest_reach import along_paths
from dp_core.tables.domain import Clique

_EXPLAINED = 0.4  # smallest part of the other pairs' dependence that a forest has to explain
_MISSED = 0.15  # part of what a forest implies that is nevertheless wrong; from generated files


@dataclass(frozen=True, slots=True)
class Implied:
    """A spanning forest of strongly dependent pairs, and what it leaves of the other pairs.

    Attributes:
        forest: Its edges, the most dependent one first.
        left: Expected distance of each other pair from what the forest implies, in records.
        others: Mean dependence of the other pairs, in records; 0 if there is none.
    """

    forest: tuple[Clique, ...]
    left: Mapping[Clique, float]
    others: float

    def explains(self, rows: float) -> bool:
        """Return whether a graphical model of the forest may be better than measuring all pairs.

        The forest has to explain a good part of the other pairs. And these must not depend more
        than pairs of typical files do: pairs that depend strongly inform one another if they are
        measured (`dp_core.methods.reconstruction.estimates`), so that little is to be gained.

        Args:
            rows: Number of records.
        """
        whole = self.others * len(self.left)
        explained = whole - sum(self.left.values())
        return self.others < usual(rows) and explained > _EXPLAINED * whole

    @classmethod
    def of(cls, dependence: Mapping[Clique, float], rows: float) -> Implied:
        """Return the forest of the largest total dependence.

        The dependence of a pair and the product of those of its path, both relative to the number
        of records, are nearly equal if the forest explains the pair. What exceeds the product is
        unexplained. A part of the rest is as well, because the product is only approximate.

        Args:
            dependence: Expected L1 distance of each pair from independence, in records.
            rows: Number of records.

        >>> pairs = {("a", "b"): 60.0, ("b", "c"): 50.0, ("a", "c"): 40.0}
        >>> found = Implied.of(pairs, 100)
        >>> found.forest, found.left
        ((('a', 'b'), ('b', 'c')), {('a', 'c'): 14.5})
        """
        forest = _strongest(dependence)
        strength = along_paths({pair: dependence[pair] for pair in forest}, rows)
        left = {}
        for pair, own in dependence.items():
            if pair not in strength.edges:
                implied = min(strength.of(pair) * rows, own)
                left[pair] = own - implied + _MISSED * implied
        others = sum(dependence[pair] for pair in left) / max(len(left), 1)
        return cls(forest, left, others)


def _strongest(dependence: Mapping[Clique, float]) -> tuple[Clique, ...]:
    """Return the edges of a spanning forest with the largest total dependence (Kruskal)."""
    group = {name: name for pair in dependence for name in pair}

    def root(name: str) -> str:
        while group[name] != name:
            group[name] = group[group[name]]
            name = group[name]
        return name

    edges = []
    for one, two in sorted(dependence, key=lambda pair: -dependence[pair]):
        ends = root(one), root(two)
        if ends[0] != ends[1]:
            group[ends[0]] = ends[1]
            edges.append((one, two))
    return tuple(edges)
