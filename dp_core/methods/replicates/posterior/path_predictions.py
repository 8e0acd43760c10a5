"""Predictions of each pair's dependence by the measured pairs on a path between its columns.

In a chain a - b - c, columns a and c are independent given b, so the two pairs of the chain
determine the third:

    P(a, c) = sum over b of P(a, b) P(b, c) / P(b).

With deviations from independence divided by `n sqrt(p_a p_b)` (correspondence analysis), this is a
product of matrices, and a longer path is a longer product. Paths are those of the maximum spanning
forest of the measured pairs (Chow & Liu 1968). Columns of different trees are predicted to be
independent. The tables on a path are first shrunk as far as their noise warrants.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from dp_core.methods.reconstruction.estimates.shared_factors import few_codes
from dp_core.methods.replicates.posterior.pair_prior import Pair, conditional, learn
from dp_core.methods.replicates.posterior.truncation import Floats
from dp_core.tables.domain import Clique, Domain

_LEAST_BELIEF = 1e-3  # smallest probability of a component that is used
_LEAST_STRENGTH = 1e-6  # mean square contingency of a pair that is a link of a path
_FEWEST = 2  # measured pairs


def with_path_predictions(domain: Domain, pairs: Mapping[Clique, Pair]) -> dict[Clique, Pair]:
    """Return the pairs, each with its prediction along a path as a further kind of prediction.

    Args:
        domain: All columns.
        pairs: What is known of each pair, in the order of the domain, with equally many kinds of
            predictions.
    """
    found = path_predictions(domain, pairs)
    if not found:
        return dict(pairs)
    return {
        clique: dataclasses.replace(pair, predicted=(*pair.predicted, found.get(clique)))
        for clique, pair in pairs.items()
    }


def path_predictions(domain: Domain, pairs: Mapping[Clique, Pair]) -> dict[Clique, Floats]:
    """Return a prediction of each pair that a path of measured pairs joins, in records.

    No prediction depends on the pair's own measurement. A pair of the forest is predicted by the
    two measured pairs that join its columns through the third column for which they depend most.
    The result is empty if fewer than two pairs were measured or columns have too many levels.

    Args:
        domain: All columns.
        pairs: What is known of each pair, in the order of the domain; predictions of it are not
            used.
    """
    measured = {
        clique: dataclasses.replace(pair, predicted=())
        for clique, pair in pairs.items()
        if pair.observed is not None
    }
    if len(measured) < _FEWEST or not few_codes(domain):
        return {}
    links: dict[tuple[str, str], Floats] = {}
    for clique, table in _shrunk(measured).items():
        link = table / (measured[clique].total * _scale(measured[clique]))
        if float(np.square(link).sum()) > _LEAST_STRENGTH:
            links[clique] = link
            links[clique[1], clique[0]] = link.T
    strength = {clique: float(np.square(link).sum()) for clique, link in links.items()}
    forest = _forest(domain, strength)
    products = _along(domain, forest, links)
    found = {}
    for clique, pair in pairs.items():
        if frozenset(clique) in forest:
            product = _detour(domain, clique, links, strength)
        else:
            product = products.get(clique)
        if product is not None:
            found[clique] = product * (pair.total * _scale(pair))
    return found


def _scale(pair: Pair) -> Floats:
    return np.sqrt(np.multiply.outer(pair.one.shares, pair.other.shares))


def _shrunk(measured: Mapping[Clique, Pair]) -> dict[Clique, Floats]:
    """Return the posterior mean of each measured deviation without predictions, in records."""
    prior = learn(measured)
    found = {}
    for clique, pair in measured.items():
        belief = prior.beliefs[clique]
        kept = np.flatnonzero(belief > _LEAST_BELIEF)
        means = np.array([conditional(pair, prior.components[at])[0] for at in kept])
        found[clique] = pair.table(np.tensordot(belief[kept] / belief[kept].sum(), means, 1))
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
    domain: Domain, forest: set[frozenset[str]], links: Mapping[tuple[str, str], Floats]
) -> dict[Clique, Floats]:
    """Return the product of the links on the path between each two columns of a tree."""
    beside: dict[str, list[str]] = {name: [] for name in domain.columns}
    for one, other in (tuple(pair) for pair in forest):
        beside[one].append(other)
        beside[other].append(one)
    place = {name: at for at, name in enumerate(domain.columns)}
    found = {}
    for start in domain.columns:
        reached: dict[str, Floats] = {name: links[start, name] for name in beside[start]}
        ways = [(name, start) for name in beside[start]]
        while ways:
            here, before = ways.pop()
            if place[start] < place[here]:
                found[start, here] = reached[here]
            for name in beside[here]:
                if name != before:
                    reached[name] = reached[here] @ links[here, name]
                    ways.append((name, here))
    return found


def _detour(
    domain: Domain,
    clique: Clique,
    links: Mapping[tuple[str, str], Floats],
    strength: Mapping[tuple[str, str], float],
) -> Floats | None:
    """Return the product of two links through a third column; None if no two links join."""
    one, other = clique
    through = [name for name in domain.columns if (one, name) in links and (name, other) in links]
    if not through:
        return None
    best = max(through, key=lambda name: strength[one, name] * strength[name, other])
    return np.asarray(links[one, best] @ links[best, other])
