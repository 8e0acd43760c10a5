"""Tables of unmeasured pairs of columns, estimated from drawn records. Public side of the wall.

Records that match the measured tables also have a table for every other pair. It contains the
dependence that the measured tables imply, and deviations from sampling and from changing records.
The size of the latter is known, so they are removed like noise (`residual_belief`). The result is
one more table for the records to match. Otherwise two independent columns would have the sampling
deviations of the draw in addition to those of the file itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import Table
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.methods.reconstruction.estimates.raking import rake
from dp_core.methods.reconstruction.estimates.residual_belief import believed, posterior_residual
from dp_core.methods.reconstruction.estimates.shared_factors import Deviation, common_part, enough
from dp_core.methods.reconstruction.estimates.table_parts import beyond, interaction_part
from dp_core.methods.reconstruction.sampling.drawing_progress import Progress, silent
from dp_core.metrics.marginal_error import Tally

MOST_CELLS = 1 << 16
"""Largest number of cells of a pair; larger pairs are not adjusted."""

_MOST_COUNTED = 2 * 10**9  # records times pairs; with more the benefit is not worth the time
_CHANCE = 3.0  # variance of a count over its expectation; above 1 because GUM copies records
_LEAST_EXPECTED = 0.05  # records
_RAKING_ROUNDS = 20
_COUNTED = 0.4  # part of the work after the pairs are counted, for the progress


def unmeasured(domain: Domain, held: Sequence[Clique]) -> tuple[Clique, ...]:
    """Return the pairs of columns that no clique contains and that are not too large."""
    known = {frozenset(pair) for clique in held for pair in itertools.combinations(clique, 2)}
    return tuple(
        pair
        for pair in itertools.combinations(domain.columns, 2)
        if frozenset(pair) not in known and domain.size(pair) <= MOST_CELLS
    )


def implied_tables(
    data: Dataset,
    pairs: Sequence[Clique],
    columns: Sequence[Table],
    *,
    progress: Progress = silent,
) -> tuple[Table, ...]:
    """Return a nonnegative table for each pair that agrees with its columns' tables.

    The result is empty for very many records, which have little sampling noise to remove.

    Args:
        data: Records that nearly match all tables, at least one.
        pairs: Pairs of columns, in the order of the domain.
        columns: One-way tables of all columns, in the order of the domain.
        progress: Called with the part that is done; does nothing by default.
    """
    domain, rows = data.domain, data.rows
    if rows * len(pairs) > _MOST_COUNTED:
        return ()
    ones = {
        table.clique[0]: table.values * (rows / max(float(table.values.sum()), 1e-9))
        for table in columns
    }
    held = Tally(domain, pairs).add(data)  # counts groups of pairs in one pass over the records
    found: dict[Clique, Deviation] = {}
    for at, (one, two) in enumerate(pairs):
        progress(_COUNTED * at / len(pairs))
        expected = np.multiply.outer(ones[one], ones[two]) / rows
        variance = _CHANCE * np.maximum(expected, _LEAST_EXPECTED)
        seen = held.count((one, two))
        found[one, two] = Deviation(beyond(seen - expected), expected, variance)
    del held  # the counts of all pairs, as large as the tables that follow
    common: dict[Clique, NDArray[np.float64]] = {}
    if enough(domain, len(found)):
        common = common_part(domain, found, float(rows))
    tables = []
    for at, (clique, deviation) in enumerate(found.items()):
        progress(_COUNTED + (1 - _COUNTED) * at / len(pairs))
        project = domain.project(clique)
        noise = deviation.variance * interaction_part(project)
        shared = np.zeros_like(deviation.residual)
        if clique in common:
            shared = believed(common[clique], deviation.residual, noise, deviation.expected)
        left, _ = posterior_residual(deviation.residual - shared, noise, deviation.expected)
        values = rake(
            np.maximum(deviation.expected + shared + left, 0.0),
            clique,
            [((name,), ones[name]) for name in clique],
            rounds=_RAKING_ROUNDS,
        )
        tables.append(Table(project, values))
    return tuple(tables)


def counted(
    data: Dataset, clique: Clique, *, weights: NDArray[np.int64] | None = None
) -> NDArray[np.float64]:
    """Return the number of records in each cell of a table, or the sum of their weights.

    Args:
        data: The records.
        clique: Columns of the table, few enough for a complete one; its axes are in this order.
        weights: Weight of each record, shape (rows,); 1 by default.
    """
    domain = data.domain.project(clique)
    cells = np.zeros(data.rows, dtype=np.int64)
    for name, size in zip(clique, domain.sizes, strict=True):
        cells = cells * size + data.column(name)
    counts = np.bincount(cells, weights=weights, minlength=domain.size())
    return counts.reshape(domain.sizes).astype(np.float64)
