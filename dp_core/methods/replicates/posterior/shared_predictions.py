"""Predictions of each pair's dependence from all other pairs, by factors that columns share."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.methods.reconstruction.estimates.shared_factors import Deviation, common_part, enough
from dp_core.methods.replicates.posterior.column_draws import Told
from dp_core.methods.replicates.posterior.truncation import Floats

_FOLDS = 5


def predictions(
    domain: Domain,
    observed: Mapping[Clique, Told],
    expected: Mapping[Clique, Floats],
    *,
    total: float,
    rng: np.random.Generator,
) -> dict[Clique, Floats]:
    """Return a prediction for every pair, in records; empty if too few pairs were measured.

    A measured pair is predicted by factors that were fitted without it (cross-fitting). Otherwise
    the prediction would follow the pair's own noise and look better than it is.

    Args:
        domain: All columns.
        observed: Deviation of each measured pair from independence, in records, and the noise
            variance of a cell of a table with equivalent noise.
        expected: Counts without dependence of every pair, in records.
        total: Number of records.
        rng: Generator that divides the measured pairs.
    """
    if not enough(domain, len(observed)):
        return {}
    known = {}
    for clique, (table, variance) in observed.items():
        free = math.prod(1 - 1 / size for size in table.shape)
        known[clique] = Deviation(table, expected[clique], np.full(table.shape, variance * free))
    found: dict[Clique, Floats] = {}
    if len(known) < len(expected):
        everything = {clique: known.get(clique, _unseen(at)) for clique, at in expected.items()}
        fitted = common_part(domain, everything, total)
        found = {clique: fitted[clique] for clique in expected if clique not in known}
    order = rng.permutation(len(known))
    cliques = list(known)
    for fold in range(_FOLDS):
        left_out = {cliques[at] for at in order[fold::_FOLDS]}
        if left_out:
            told = {
                clique: _unseen(each.expected) if clique in left_out else each
                for clique, each in known.items()
            }
            fitted = common_part(domain, told, total)
            found |= {clique: fitted[clique] for clique in left_out}
    return found


def _unseen(expected: Floats) -> Deviation:
    """Return the deviation of a pair that was not measured: 0 with infinite variance."""
    return Deviation(np.zeros_like(expected), expected, np.full(expected.shape, np.inf))
