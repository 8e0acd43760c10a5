"""Predicts the dependence of pairs of columns from public records.

The public table of a pair is scaled to this release's one-way tables (iterative proportional
fitting), which keeps its odds ratios: the prediction has the dependence of the public records and
the levels' frequencies of this release. Its known error is the sampling error of the public
records and, if they are sets whose differences show it, the noise of the earlier release.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.methods.prior.public_prior import PublicPrior
from dp_core.methods.reconstruction.estimates.raking import rake
from dp_core.methods.reconstruction.estimates.table_parts import beyond
from dp_core.tables.domain import Clique

Floats = NDArray[np.float64]

_ROUNDS = 50  # of iterative proportional fitting
_UNIFORM = 0.5  # records added to each level, so that no level of the release is impossible


@dataclass(frozen=True, slots=True, eq=False)
class PairPrediction:
    """The prediction of public records for a pair.

    Attributes:
        deviation: Predicted deviation from independence, in records of this release, shape (p, q);
            sums over either axis are 0.
        records: Mean number, over the sets, of public records with known values in both columns.
        apart: Deviations of the shares in each set from their mean, shape (sets, p, q); None if
            differences between the sets show no noise.
    """

    deviation: Floats
    records: float
    apart: Floats | None


def predict_pair(
    prior: PublicPrior,
    clique: Clique,
    one: Floats,
    other: Floats,
    expected: Floats,
    possible: NDArray[np.bool_],
) -> PairPrediction | None:
    """Return the prediction of public records for a pair; None if they lack one of its columns.

    Args:
        prior: The public records.
        clique: The two columns.
        one: This release's table of the first, in records, shape (p,), nonnegative.
        other: That of the second, shape (q,), of the same total.
        expected: This release's counts without dependence, shape (p, q), in records.
        possible: Whether each cell can have records, shape (p, q).
    """
    if not prior.has(clique):
        return None
    tables = prior.counts(clique)
    records = float(np.mean([table.sum() for table in tables]))
    if records < 1:
        return None
    shares = np.array([table / max(float(table.sum()), 1.0) for table in tables])
    start = _without_zeros(shares.mean(axis=0), records)
    a, b = clique
    raked = rake(start * possible, clique, [((a,), one), ((b,), other)], rounds=_ROUNDS)
    apart = None
    if prior.apart and len(tables) > 1:
        apart = shares - shares.mean(axis=0)
    return PairPrediction(beyond(raked - expected), records, apart)


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
