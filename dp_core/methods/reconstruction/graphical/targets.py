"""Targets of a graphical model's fit, made from noisy tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dp_core.client.released import Measurement
from dp_core.kernel.counting.domain import Domain
from dp_core.methods.reconstruction.estimates.consistency import (
    column_tables,
    estimates,
    overlapping,
    reconcile,
)
from dp_core.methods.reconstruction.graphical.junction_fit import Target
from dp_core.schema.structure.structural_zeros import StructuralZeros

SMOOTHING = 0.3
"""Strength of the model's own penalty. A cell with expected count E from the one-way tables gets
`SMOOTHING * variance / sqrt(E)`, which corresponds to a deviation of about `E ** 0.75 /
sqrt(SMOOTHING)`. Near 0 the fit approaches the paper's least-squares fit and takes more sweeps."""
_LEAST_PENALTY = 1e-3  # records; keeps the log factor of an empty target cell finite


def targets(
    domain: Domain,
    measurements: Sequence[Measurement],
    *,
    rows: int | None,
    zeros: StructuralZeros,
) -> tuple[tuple[Target, ...], int]:
    """Return one target for each measured column and each larger table, and the number of records.

    Overlapping tables first get their joint least-squares estimate. Only contradictions that no
    nonnegative joint table can satisfy remain, and the penalties resolve those.

    Args:
        domain: All columns.
        measurements: Noisy tables, at least one.
        rows: Number of records if it is public, otherwise None.
        zeros: Impossible cells.
    """
    variance = {
        table.clique: table.variance for table in estimates(domain, measurements, zeros=zeros)
    }
    columns, total = column_tables(domain, measurements, rows=rows, zeros=zeros)
    agreeing, subsets, total = overlapping(domain, measurements, rows=total, zeros=zeros)
    reconcile(agreeing, subsets, total=float(total))
    measured = {name for clique in variance for name in clique}
    found = [
        Target(table.domain, table.values, np.full(table.domain.sizes, _LEAST_PENALTY))
        for table in columns
        if table.clique[0] in measured
    ]
    share = {table.clique[0]: table.values / total for table in columns}
    for table in agreeing:
        if len(table.clique) < 2:
            continue
        expected = np.asarray(float(total))
        for name in table.clique:
            expected = np.multiply.outer(expected, share[name])
        penalty = SMOOTHING * variance[table.clique] / np.sqrt(np.maximum(expected, 1e-3))
        found.append(Target(table.domain, table.values, np.maximum(penalty, _LEAST_PENALTY)))
    return tuple(found), total
