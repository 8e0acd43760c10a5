"""Predictions of each pair's dependence by the measured pairs on a path between its columns.

In a chain a - b - c, columns a and c are independent given b, so the two pairs of the chain
determine the third:

    P(a, c) = sum over b of P(a, b) P(b, c) / P(b).

With deviations from independence R, that is R(a, c) = R(a, b) diag(1 / n P(b)) R(b, c), and a
longer path is a longer product. Paths are those of the maximum spanning forest of the measured
pairs (Chow & Liu 1968). Columns of different trees are predicted to be independent. The tables on a
path are first shrunk as far as their noise warrants. What is then unknown of them is the error
variance of the prediction. Without it, intervals are too narrow where noise hides that error.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.methods.reconstruction.estimates.shared_factors import few_codes
from dp_core.methods.replicates.posterior.pair_prior import Pair, conditional, learn
from dp_core.methods.replicates.posterior.truncation import Floats

_LEAST_BELIEF = 1e-3  # smallest probability of a component that is used
_LEAST_STRENGTH = 1e-6  # mean square contingency of a pair that is a link of a path
_FEWEST = 2  # measured pairs
_CAUTION = 2.0
"""Factor of the error variance of predictions. Errors of the tables on a path are taken for
independent, but the shrinkage that they share makes them alike. Set on chains of 10,000 records."""


@dataclass(frozen=True, slots=True, eq=False)
class Implied:
    """Coordinates of the deviation of two columns, as `Pair` defines them, and their variances.

    Attributes:
        mean: Mean of each coordinate, shape (p - 1, q - 1), in records.
        variance: Variance of each, same shape, records squared.
    """

    mean: Floats
    variance: Floats

    def then(self, other: Implied, middle: Floats) -> Implied:
        """Return what follows for the ends of two pairs with a common column.

        Args:
            other: The pair that begins with the last column of this one.
            middle: Coordinates of diag(1 / n P(b)) of the common column, shape (q - 1, q - 1).
        """
        left, right = self.mean @ middle, middle @ other.mean
        own = np.square(np.diag(middle))[:, None]
        variance = np.square(left) @ other.variance + self.variance @ np.square(right)
        return Implied(left @ other.mean, variance + self.variance @ (own * other.variance))

    @property
    def turned(self) -> Implied:
        """The same with the columns exchanged."""
        return Implied(self.mean.T, self.variance.T)


Links = Mapping[tuple[str, str], Implied]


def with_path_predictions(domain: Domain, pairs: Mapping[Clique, Pair]) -> dict[Clique, Pair]:
    """Return the pairs, each with its prediction along a path as a further kind of prediction.

    Args:
        domain: All columns.
        pairs: What is known of each pair, in the order of the domain, with equally many kinds of
            predictions.
    """
    implied = path_predictions(domain, pairs)
    found = dict(pairs)
    for clique, told in implied.items() if implied else ():
        pair = pairs[clique]
        before = len(pair.predicted)
        found[clique] = dataclasses.replace(
            pair,
            predicted=(*pair.predicted, pair.table(told.mean)),
            errors=(*(None for _ in range(before)), _CAUTION * told.variance),
        )
    if implied:
        for clique in pairs.keys() - implied.keys():
            pair = pairs[clique]
            found[clique] = dataclasses.replace(pair, predicted=(*pair.predicted, None))
    return found


def path_predictions(domain: Domain, pairs: Mapping[Clique, Pair]) -> dict[Clique, Implied]:
    """Return a prediction of each pair that a path of measured pairs joins.

    No prediction depends on the pair's own measurement. A pair of the forest is predicted by the
    two measured pairs that join its columns through the third column for which they depend most.
    The result is empty if fewer than two pairs were measured or columns have too many levels.

    Args:
        domain: All columns.
        pairs: What is known of each pair, in the order of the domain; predictions of it are not
            used.
    """
    measured = {
        clique: dataclasses.replace(pair, predicted=(), errors=())
        for clique, pair in pairs.items()
        if pair.observed is not None
    }
    if len(measured) < _FEWEST or not few_codes(domain):
        return {}
    links: dict[tuple[str, str], Implied] = {}
    strength: dict[tuple[str, str], float] = {}
    for clique, link in _shrunk(measured).items():
        pair = measured[clique]
        size = np.outer(pair.one.shares, pair.other.shares) * pair.total**2
        depends = float((np.square(pair.table(link.mean)) / size).sum())
        if depends > _LEAST_STRENGTH:
            one, other = clique
            links[one, other], links[other, one] = link, link.turned
            strength[one, other] = strength[other, one] = depends
    middles = _middles(pairs)
    forest = _forest(domain, strength)
    along = _along(domain, forest, links, middles)
    found = {}
    for clique in pairs:
        if frozenset(clique) in forest:
            told = _detour(domain, clique, links, strength, middles)
        else:
            told = along.get(clique)
        if told is not None:
            found[clique] = told
    return found


def _middles(pairs: Mapping[Clique, Pair]) -> dict[str, Floats]:
    """Return the coordinates of diag(1 / n P(b)) of each column."""
    found: dict[str, Floats] = {}
    for clique, pair in pairs.items():
        for name, column in zip(clique, (pair.one, pair.other), strict=True):
            if name not in found:
                inverse = 1 / (pair.total * column.shares)
                found[name] = column.vectors.T @ (inverse[:, None] * column.vectors)
    return found


def _shrunk(measured: Mapping[Clique, Pair]) -> dict[Clique, Implied]:
    """Return the posterior of each measured deviation without predictions."""
    prior = learn(measured)
    found = {}
    for clique, pair in measured.items():
        belief = prior.beliefs[clique]
        kept = np.flatnonzero(belief > _LEAST_BELIEF)
        weight = belief[kept] / belief[kept].sum()
        each = [conditional(pair, prior.components[at]) for at in kept]
        means, variances = (np.array(parts) for parts in zip(*each, strict=True))
        mean = np.tensordot(weight, means, 1)
        variance = np.tensordot(weight, variances + means**2, 1) - mean**2
        found[clique] = Implied(mean, np.maximum(variance, 0.0))
    return found


def _forest(domain: Domain, strength: Mapping[tuple[str, str], float]) -> set[frozenset[str]]:
    """Return the pairs of the maximum spanning forest (Kruskal 1956)."""
    tree = {name: name for name in domain.columns}

    def root(name: str) -> str:
        while tree[name] != name:
            name = tree[name]
        return name

    found = set()
    for one, other in sorted(strength, key=lambda clique: -strength[clique]):
        first, second = root(one), root(other)
        if first != second:
            tree[first] = second
            found.add(frozenset((one, other)))
    return found


def _along(
    domain: Domain,
    forest: set[frozenset[str]],
    links: Links,
    middles: Mapping[str, Floats],
) -> dict[Clique, Implied]:
    """Return what the links on the path between each two columns of a tree imply."""
    beside: dict[str, list[str]] = {name: [] for name in domain.columns}
    for one, other in (tuple(pair) for pair in forest):
        beside[one].append(other)
        beside[other].append(one)
    place = {name: at for at, name in enumerate(domain.columns)}
    found: dict[Clique, Implied] = {}
    for start in domain.columns:
        reached: dict[str, Implied] = {name: links[start, name] for name in beside[start]}
        ways = [(name, start) for name in beside[start]]
        while ways:
            here, before = ways.pop()
            if place[start] < place[here]:
                found[start, here] = reached[here]
            for name in beside[here]:
                if name != before:
                    reached[name] = reached[here].then(links[here, name], middles[here])
                    ways.append((name, here))
    return found


def _detour(
    domain: Domain,
    clique: Clique,
    links: Links,
    strength: Mapping[tuple[str, str], float],
    middles: Mapping[str, Floats],
) -> Implied | None:
    """Return what two links through a third column imply; None if no two links join."""
    one, other = clique
    through = [name for name in domain.columns if (one, name) in links and (name, other) in links]
    if not through:
        return None
    best = max(through, key=lambda name: strength[one, name] * strength[name, other])
    return links[one, best].then(links[best, other], middles[best])
