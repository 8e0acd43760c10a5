"""Targets of a graphical model's fit, made from noisy tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dp_core.client.interactions import cell_variance
from dp_core.client.released import Measurement, Table, Totals
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.questions.linear_questions import Interaction
from dp_core.methods.reconstruction.estimates.consistency import (
    column_tables,
    estimates,
    overlapping,
    reconcile,
)
from dp_core.methods.reconstruction.estimates.shrinkage import shrunk
from dp_core.methods.reconstruction.graphical.junction_fit import Target
from dp_core.schema.structure.structural_zeros import StructuralZeros

_LEAST_PENALTY = 1e-3  # records; keeps the log factor of an empty target cell finite
_SETTLING = 3e-4  # penalty of a shrunk table relative to its variance; resolves contradictions


def targets(
    domain: Domain,
    measurements: Sequence[Measurement],
    *,
    rows: int | None,
    zeros: StructuralZeros,
    shrink: bool,
    smoothing: float,
    interactions: Sequence[Totals] = (),
    together: bool = True,
) -> tuple[tuple[Target, ...], int]:
    """Return one target for each measured column and each larger table, and the number of records.

    Overlapping tables first get their joint least-squares estimate. Only contradictions that no
    nonnegative joint table can satisfy remain, and the penalties resolve those.

    Args:
        domain: All columns.
        measurements: Noisy tables, at least one.
        rows: Number of records if it is public, otherwise None.
        zeros: Impossible cells.
        shrink: Whether noisy tables are first shrunk towards the estimates from smaller tables.
        smoothing: Without `shrink`, a cell with expected count `E` from the one-way tables gets
            the penalty `smoothing * variance / sqrt(E)`, which corresponds to a deviation of about
            `E ** 0.75 / sqrt(smoothing)`.
        interactions: Noisy interactions.
        together: With shrinkage, whether pairs also improve each other's estimates.
    """
    variance = {
        table.clique: table.variance for table in estimates(domain, measurements, zeros=zeros)
    }
    for item in interactions:
        clique = tuple(name for name in domain.columns if name in item.of.clique)
        assert isinstance(item.of, Interaction)
        noise = cell_variance(item.of, item.variance)
        variance[clique] = 1 / (1 / noise + 1 / variance.get(clique, np.inf))
    if shrink or interactions:
        tables, total = shrunk(
            domain,
            measurements,
            rows=rows,
            zeros=zeros,
            interactions=interactions,
            together=together,
            believe=not shrink,
        )
        columns, larger = tables[: len(domain)], tables[len(domain) :]
    else:
        columns, total = column_tables(domain, measurements, rows=rows, zeros=zeros)
        agreeing, subsets, total = overlapping(domain, measurements, rows=total, zeros=zeros)
        reconcile(agreeing, subsets, total=float(total))
        larger = tuple(Table(t.domain, t.values) for t in agreeing if len(t.clique) > 1)
    measured = {name for clique in variance for name in clique}
    found = [
        Target(table.domain, table.values, np.full(table.domain.sizes, _LEAST_PENALTY))
        for table in columns
        if table.clique[0] in measured
    ]
    share = {table.clique[0]: table.values / total for table in columns}
    for table in larger:
        # Shrunk tables need only a small penalty, which resolves their contradictions.
        expected = np.asarray(float(total))
        for name in table.clique:
            expected = np.multiply.outer(expected, share[name])
        penalty = np.full(table.domain.sizes, _SETTLING * variance[table.clique])
        if not shrink:
            penalty = smoothing * variance[table.clique] / np.sqrt(np.maximum(expected, 1e-3))
        found.append(Target(table.domain, table.values, np.maximum(penalty, _LEAST_PENALTY)))
    return tuple(found), total
