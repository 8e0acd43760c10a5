"""Adds predictions from public records to the other kinds of predictions of each pair's dependence.

The public table of a pair is scaled to this release's one-way tables (iterative proportional
fitting), which keeps its odds ratios: the prediction has the dependence of the public records and
the levels' frequencies of this release. Its known error is the sampling error of the public
records and, if they are sets whose differences show it, the noise of the earlier release.

How many pairs follow this kind, and how closely, is learned together with the other kinds
(`pair_prior.learn`). So records of a population with another dependence have little effect. All of
it is post-processing.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.domain import Clique
from dp_core.methods.prior import PublicPrior
from dp_core.methods.reconstruction.estimates.raking import rake
from dp_core.methods.reconstruction.estimates.table_parts import beyond
from dp_core.methods.replicates.posterior.pair_prior import Pair
from dp_core.methods.replicates.posterior.truncation import Floats

_ROUNDS = 50  # of iterative proportional fitting
_UNIFORM = 0.5  # records added to each level, so that no level of the release is impossible


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
        columns: Median one-way tables, in records, by column; all have the same total.
        expected: Counts without dependence of each pair, in records.
        possible: Whether each cell of each pair can have records.
    """
    found = {}
    for clique, pair in pairs.items():
        margins = [((name,), columns[name]) for name in clique]
        tables = public.counts(clique) if public.has(clique) else ()
        records = float(np.mean([table.sum() for table in tables])) if tables else 0.0
        if records < 1:
            found[clique] = pair.with_prediction(None)
            continue
        shares = np.array([table / max(float(table.sum()), 1.0) for table in tables])
        start = _without_zeros(shares.mean(axis=0), records)
        raked = rake(start * possible[clique], clique, margins, rounds=_ROUNDS)
        error = pair.shape / records
        if public.apart and len(tables) > 1:
            error = error + _between(pair, shares)
        found[clique] = pair.with_prediction(beyond(raked - expected[clique]), error)
    return found


def _without_zeros(shares: Floats, records: float) -> Floats:
    """Return shares with a little of the product of their margins in every cell.

    A cell without public records is not impossible. The product has the weight of one record for
    each coordinate of the dependence.
    """
    rows, columns = shares.sum(axis=1), shares.sum(axis=0)
    rows = (rows * records + _UNIFORM) / (records + _UNIFORM * rows.size)
    columns = (columns * records + _UNIFORM) / (records + _UNIFORM * columns.size)
    coordinates = (rows.size - 1) * (columns.size - 1)
    part = coordinates / (records + coordinates)
    return np.asarray((1 - part) * shares + part * np.multiply.outer(rows, columns))


def _between(pair: Pair, shares: Floats) -> Floats:
    """Return the error variance of each coordinate that sets of an earlier release show.

    It is that of a posterior draw: (1 + 1/m) times the variance between the m sets. Few sets give a
    poor estimate of the variance of one coordinate, so it is averaged with the mean over the pair's
    coordinates.

    Args:
        pair: The pair.
        shares: Its table in each set, as shares of the records, shape (sets, p, q).
    """
    apart = shares - shares.mean(axis=0)
    coordinates = np.array([pair.coordinates(pair.total * each) for each in apart])
    sets = len(shares)
    between = (1 + 1 / sets) * np.square(coordinates).sum(axis=0) / (sets - 1)
    return np.asarray((between + between.mean()) / 2)
