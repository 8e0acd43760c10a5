"""Adds predictions from public records to the other kinds of predictions of each pair's dependence.

How many pairs follow this kind, and how closely, is learned together with the other kinds
(`pair_prior.learn`). So records of a population with another dependence have little effect.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.domain import Clique
from dp_core.methods.prior import PairPrediction, PublicPrior, predict_pair
from dp_core.methods.replicates.posterior.pair_prior import Pair
from dp_core.methods.replicates.posterior.truncation import Floats


def with_public_predictions(
    public: PublicPrior,
    pairs: Mapping[Clique, Pair],
    columns: Mapping[str, Floats],
    expected: Mapping[Clique, Floats],
    possible: Mapping[Clique, NDArray[np.bool_]],
) -> dict[Clique, Pair]:
    """Return the pairs, each with its prediction from public records as the last kind.

    Args:
        public: The public records.
        pairs: What is known of each pair, with the same number of kinds of predictions for each.
        columns: Median one-way tables, in records, by column.
        expected: Counts without dependence of each pair, in records.
        possible: Whether each cell of each pair can have records.
    """
    found = {}
    for clique, pair in pairs.items():
        one, other = (columns[name] for name in clique)
        told = predict_pair(public, clique, one, other, expected[clique], possible[clique])
        found[clique] = (
            pair.with_prediction(None)
            if told is None
            else pair.with_prediction(told.deviation, _error(pair, told))
        )
    return found


def _error(pair: Pair, told: PairPrediction) -> Floats:
    """Return the known error variance of each coordinate of a prediction, in records squared.

    It is the sampling variance of the public records. If the sets of an earlier release show its
    noise, the variance of a posterior draw is added: (1 + 1/m) times the variance between the m
    sets. Few sets give a poor estimate of the variance of one coordinate, so it is averaged with
    the mean over the pair's coordinates.
    """
    sampling = pair.shape / told.records
    if told.apart is None:
        return np.asarray(sampling)
    apart = np.array([pair.coordinates(pair.total * each) for each in told.apart])
    sets = len(apart)
    between = (1 + 1 / sets) * np.square(apart).sum(axis=0) / (sets - 1)
    return np.asarray(sampling + (between + between.mean()) / 2)
