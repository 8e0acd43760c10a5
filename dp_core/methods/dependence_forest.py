"""A forest of strongly dependent pairs, and what it implies for all other pairs. Public.

In a graphical model whose pairs form a forest, two columns depend as far as every edge of the path
between them does: along a path, dependences relative to the largest possible ones multiply, as
correlations of a chain do. The forest is the maximum spanning forest (Chow & Liu 1968).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.domain import Clique, Domain

_UNIMPLIED, _TO_FULL = 0.4, 0.3
"""A forest that explains less than .4 of the other pairs' dependence is ignored; from .7 on it is
used in full. Chains and trees have .7 to .9, real files .1 to .4."""
_GUARD = 0.1  # part of an implied dependence that a pair keeps, lest a missed edge is lost


def spanning_forest(weights: Mapping[Clique, float]) -> tuple[Clique, ...]:
    """Return the pairs of the maximum spanning forest, heaviest first (Kruskal 1956).

    Args:
        weights: Weight of each pair of columns that may be an edge.

    >>> spanning_forest({("a", "b"): 3.0, ("a", "c"): 1.0, ("b", "c"): 2.0})
    (('a', 'b'), ('b', 'c'))
    """
    above: dict[str, str] = {}

    def root(name: str) -> str:
        while name in above:
            name = above[name]
        return name

    found = []
    for one, other in sorted(weights, key=lambda pair: -weights[pair]):
        first, second = root(one), root(other)
        if first != second:
            above[first] = second
            found.append((one, other))
    return tuple(found)


@dataclass(frozen=True, slots=True, eq=False)
class Forest:
    """A forest of pairs with the strength of each, and the paths between its columns.

    Attributes:
        edges: Pairs without a cycle.
        strength: Strength of each edge, between 0 and 1, shape (edges,).
        place: Position of each column of an edge in the arrays below.
        together: Product of the strengths on the path between two columns, shape (columns,
            columns); 0 without a path.
        length: Number of edges of the path, same shape; 0 without one.
    """

    edges: tuple[Clique, ...]
    strength: NDArray[np.float64]
    place: Mapping[str, int]
    together: NDArray[np.float64]
    length: NDArray[np.float64]

    @classmethod
    def of(cls, edges: Mapping[Clique, float]) -> Forest:
        """Return the forest of these edges.

        Args:
            edges: Strength of each edge, between 0 and 1.
        """
        columns = sorted({column for edge in edges for column in edge})
        place = {column: at for at, column in enumerate(columns)}
        together, length = np.eye(len(columns)), np.zeros((len(columns), len(columns)))
        group = {at: [at] for at in range(len(columns))}
        for (a, b), own in edges.items():
            one, two = place[a], place[b]
            left, right = group[one], group[two]
            product = own * np.multiply.outer(together[left, one], together[two, right])
            steps = 1 + np.add.outer(length[left, one], length[two, right])
            for table, found in ((together, product), (length, steps)):
                table[np.ix_(left, right)] = found
                table[np.ix_(right, left)] = found.T
            group.update(dict.fromkeys(left + right, left + right))
        strength = np.array([*edges.values()], dtype=np.float64)
        return cls(tuple(edges), strength, place, together, length)

    def path_strength(self, pair: Clique) -> float:
        """Return the strength of a pair's dependence along its path; 0 without one."""
        one, two = (self.place.get(name) for name in pair)
        return 0.0 if one is None or two is None else float(self.together[one, two])

    def reach(self) -> dict[Clique, float]:
        """Return how many times its own dependence each edge serves, at least 1.

        Each edge of a path has an equal part in the pair at the ends of it.

        >>> Forest.of({("a", "b"): 0.5, ("b", "c"): 0.8}).reach()
        {('a', 'b'): 1.4, ('b', 'c'): 1.25}
        """
        joined = self.length > 0
        part = np.divide(self.together, self.length, out=np.zeros_like(self.length), where=joined)
        found = []
        for a, b in self.edges:
            # Columns of another group are equally far from both ends, by 0.
            nearer = self.length[self.place[a]] - self.length[self.place[b]]
            found.append(float(part[np.ix_(nearer < 0, nearer > 0)].sum()))
        times = np.maximum(np.array(found) / np.maximum(self.strength, 1e-12), 1.0)
        return dict(zip(self.edges, times.tolist(), strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class ResidualDependence:
    """What measuring each looked-at pair adds to what a forest of pairs implies.

    Attributes:
        dependence: Distance of each pair from what the forest implies, in records.
        reach: How many times its own dependence the measurement of each edge serves, at least 1.
        unseen: Sum of the dependences that the forest implies for pairs that were not looked at, in
            records.
    """

    dependence: dict[Clique, float]
    reach: dict[Clique, float]
    unseen: float


def residual_dependence(
    domain: Domain, dependence: Mapping[Clique, float], rows: float
) -> ResidualDependence:
    """Return what each pair adds to the forest of the strongest pairs, as far as one fits.

    The forest counts as far as it implies the dependence of the looked-at pairs outside it. If no
    pair outside it was looked at, it counts in full.

    Args:
        domain: All columns.
        dependence: L1 distance from independence of each pair that was looked at, without sampling
            deviations, in records.
        rows: Number of records.
    """
    top = {pair: 2 * rows * (1 - 1 / min(domain.project(pair).sizes)) for pair in dependence}
    edges = spanning_forest(dependence)
    forest = Forest.of({pair: min(dependence[pair] / max(top[pair], 1e-9), 1.0) for pair in edges})
    inside = {*edges}
    outside = [pair for pair in dependence if pair not in inside]
    implied = {pair: top[pair] * forest.path_strength(pair) for pair in outside}
    left = sum(abs(dependence[pair] - implied[pair]) for pair in outside)
    whole = sum(dependence[pair] for pair in outside)
    explained = 1 - left / whole if whole > 0 else 1.0
    trust = min(max((explained - _UNIMPLIED) / _TO_FULL, 0.0), 1.0)
    beyond = dict(dependence)
    for pair, predicted in implied.items():
        own = dependence[pair]
        rest = max(own - predicted, _GUARD * min(predicted, own))
        beyond[pair] = (1 - trust) * own + trust * rest
    reach = {pair: 1 + trust * (times - 1) for pair, times in forest.reach().items()}
    served = sum((times - 1) * dependence[pair] for pair, times in reach.items())
    return ResidualDependence(beyond, reach, max(served - trust * sum(implied.values()), 0.0))
