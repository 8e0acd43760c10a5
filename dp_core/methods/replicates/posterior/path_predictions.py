"""Predictions of each pair's dependence by the pairs on a path between its columns.

In a chain a - b - c, columns a and c are independent given b, so the two pairs of the chain
determine the third:

    P(a, c) = sum over b of P(a, b) P(b, c) / P(b).

With deviations from independence R, that is R(a, c) = R(a, b) diag(1 / n P(b)) R(b, c), and a
longer path is a longer product. Paths are those of the maximum spanning forest (Chow & Liu 1968) of
the pairs of which a table or a trend was measured. Columns of different trees are predicted to be
independent. The tables on a path are the centres of their posteriors. Their predictions are nearer
than those of means, which may be negative (`benchmarks/notes/posterior.md`). What is then unknown
of the tables is the error variance of the prediction. Without it, intervals are too narrow where
noise hides that error.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.methods.dependence_forest import spanning_forest
from dp_core.methods.reconstruction.estimates.shared_factors import few_codes
from dp_core.methods.replicates.posterior.pair_draws import PairPosterior, pair_table
from dp_core.methods.replicates.posterior.pair_prior import Pair, learn
from dp_core.methods.replicates.posterior.truncation import Floats

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


def with_path_predictions(
    domain: Domain, pairs: Mapping[Clique, Pair], expected: Mapping[Clique, Floats]
) -> dict[Clique, Pair]:
    """Return the pairs, each with its prediction along a path as a further kind of prediction.

    Args:
        domain: All columns.
        pairs: What is known of each pair, in the order of the domain, with equally many kinds of
            predictions.
        expected: Counts of each pair without dependence, in records; 0 where a cell is impossible.
    """
    implied = path_predictions(domain, pairs, expected)
    if not implied:
        return dict(pairs)
    found = {}
    for clique, pair in pairs.items():
        told = implied.get(clique)
        found[clique] = (
            pair.with_prediction(None)
            if told is None
            else pair.with_prediction(pair.table(told.mean), _CAUTION * told.variance)
        )
    return found


def path_predictions(
    domain: Domain, pairs: Mapping[Clique, Pair], expected: Mapping[Clique, Floats]
) -> dict[Clique, Implied]:
    """Return a prediction of each pair outside the forest that a path of measured pairs joins.

    No prediction depends on the pair's own measurement. The result is empty if fewer than two pairs
    were measured or columns have too many levels.

    Args:
        domain: All columns.
        pairs: What is known of each pair, in the order of the domain; predictions of it are not
            used.
        expected: Counts of each pair without dependence, in records; 0 where a cell is impossible.
    """
    measured = {
        clique: dataclasses.replace(pair, predicted=(), errors=())
        for clique, pair in pairs.items()
        if pair.observed is not None or pair.sums is not None
    }
    if len(measured) < _FEWEST or not few_codes(domain):
        return {}
    links: dict[tuple[str, str], Implied] = {}
    strength: dict[Clique, float] = {}
    for clique, link in _centres(measured, expected).items():
        pair = measured[clique]
        size = np.outer(pair.one.shares, pair.other.shares) * pair.total**2
        depends = float((np.square(pair.table(link.mean)) / size).sum())
        if depends > _LEAST_STRENGTH:
            one, other = clique
            links[one, other], links[other, one] = link, link.turned
            strength[clique] = depends
    middles = _middles(pairs)
    # Noisy dependences rank pairs alike. Shrunk tables of thinly measured pairs do not.
    looks = {clique: pair.dependence[0] for clique, pair in measured.items() if pair.dependence}
    ranks = looks if len(looks) == len(measured) else strength
    forest = spanning_forest({clique: ranks[clique] for clique in strength})
    along = _along(domain, forest, links, middles)
    return {clique: along[clique] for clique in pairs if clique in along and clique not in forest}


def _middles(pairs: Mapping[Clique, Pair]) -> dict[str, Floats]:
    """Return the coordinates of diag(1 / n P(b)) of each column."""
    found: dict[str, Floats] = {}
    for clique, pair in pairs.items():
        for name, column in zip(clique, (pair.one, pair.other), strict=True):
            if name not in found:
                inverse = 1 / (pair.total * column.shares)
                # The directions of a column of many levels are sparse, their products are not.
                vectors = column.vectors
                dense = vectors if isinstance(vectors, np.ndarray) else vectors.toarray()
                found[name] = dense.T @ (inverse[:, None] * dense)
    return found


def _centres(
    measured: Mapping[Clique, Pair], expected: Mapping[Clique, Floats]
) -> dict[Clique, Implied]:
    """Return the central table of each measured pair without predictions, and its variances."""
    prior = learn(measured)
    found = {}
    for clique, pair in measured.items():
        usual = expected[clique]
        posterior = PairPosterior.of(
            pair, prior.components, prior.beliefs[clique], expected=usual, possible=usual > 0
        )
        table = pair_table(
            posterior,
            None,
            expected=usual,
            rows=usual.sum(axis=1),
            columns=usual.sum(axis=0),
            scores=(None, None),
        )
        second = np.tensordot(posterior.belief, posterior.variances + posterior.means**2, 1)
        mean = np.tensordot(posterior.belief, posterior.means, 1)
        found[clique] = Implied(pair.coordinates(table - usual), np.maximum(second - mean**2, 0.0))
    return found


def _along(
    domain: Domain,
    forest: Sequence[Clique],
    links: Links,
    middles: Mapping[str, Floats],
) -> dict[Clique, Implied]:
    """Return what the links on the path between each two columns of a tree imply."""
    beside: dict[str, list[str]] = {name: [] for name in domain.columns}
    for one, other in forest:
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
