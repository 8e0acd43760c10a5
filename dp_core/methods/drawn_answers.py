"""Questions of extensions, put to the curator, and their answers as methods use them."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dp_core.client.curator import Curator
from dp_core.client.released import SparseTable
from dp_core.kernel.canonical import digest
from dp_core.kernel.codes import Codes
from dp_core.kernel.cost.sensitivity import count_l1
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Clique
from dp_core.kernel.extensions.cell_draws import CellDraws
from dp_core.kernel.extensions.column_draws import ColumnDraws, differing_draws
from dp_core.kernel.extensions.thresholds import ThresholdTable
from dp_core.kernel.privacy import Stage
from dp_core.kernel.step_names import step_name, table_step
from dp_core.methods.drawn_events import draws_event, threshold_event, urn_event
from dp_core.tables.cell_keys import unpack


def threshold_table(
    curator: Curator,
    stage: Stage,
    clique: Clique,
    cost: Fraction,
    delta: Fraction,
    *,
    capacity: int,
    least: int | None = None,
    replicate: int = 0,
) -> SparseTable:
    """Return noisy counts of the observed cells that reach a threshold.

    It visits records only, so the clique may have any number of cells.

    Args:
        curator: The curator of the release.
        stage: Stage that pays.
        clique: Columns of the table.
        cost: Budget, in the release's currency.
        delta: Part of the delta that the release sets aside.
        capacity: Largest number of cells that are kept. Public, and fixed before the draw.
        least: Threshold, records; by default the least that `delta` allows.
        replicate: Index of the independent measurement, from 1; 0 (the default) if shared.

    Raises:
        ValueError: if the currency is `gaussian`, or `least` is lower than `delta` allows.
        BadInput: if households are the units.

    Privacy:
        One event of exactly `cost` and at most `delta`; see `StabilityEvent`.
    """
    domain, relation = curator.domain.project(clique), curator.relation
    event = threshold_event(
        curator.currency,
        cost,
        delta,
        l1=count_l1(relation),
        rows=relation.max_rows,
        threshold=least,
    )
    asked = ThresholdTable(tuple(clique), capacity, event.scale, event.threshold)
    name = table_step(clique, replicate)
    batch = digest(list(clique))[:16]
    grant, stored = curator.draw(asked, stage, name, cost, batch=batch, replicate=replicate)
    cells, values = read_sparse_result(stored, domain.sizes)
    return SparseTable(
        domain=domain,
        cells=cells,
        values=values,
        threshold=event.threshold,
        capacity=capacity,
        noise="laplace",
        scale=float(event.scale),
        stage=stage,
        replicate=replicate,
        grant=grant.number,
    )


def read_sparse_result(
    result: NDArray[np.int64], sizes: Sequence[int]
) -> tuple[Codes, NDArray[np.int64]]:
    """Return the cells, shape (cells, columns), and noisy counts that `sparse_result` stored.

    >>> from dp_core.kernel.counting.sparse_cells import sparse_result
    >>> cells = np.array([[0, 2], [1, 0]], np.uint16)
    >>> stored = sparse_result(cells, np.array([7, 9]), [2, 3], capacity=4)
    >>> [part.tolist() for part in read_sparse_result(stored, [2, 3])]
    [[[0, 2], [1, 0]], [7, 9]]
    """
    kept = result[result[:, 0] >= 0]
    return unpack(kept[:, :-1], sizes), kept[:, -1].copy()


def draw_cells(
    curator: Curator,
    stage: Stage,
    step: str,
    clique: Clique,
    cost: Fraction,
    *,
    records: int,
    kind: Literal["independent", "urn"],
    edges: Sequence[Sequence[int] | None] | None = None,
    replicate: int = 0,
) -> Dataset:
    """Return records drawn from the cells of a table, each with added virtual records.

    It visits records only, so the table may have any number of cells.

    Args:
        curator: The curator of the release.
        stage: Stage that pays.
        step: Name of the step, unique within its stage and replicate.
        clique: Columns of the table.
        cost: Budget of all records together, in the release's currency.
        records: Number of records; public.
        kind: `independent` or `urn`; see `CellDraws`.
        edges: Bins of each column; see `CellDraws`. By default no column has bins. Public.
        replicate: Index of the independent measurement, from 1; 0 (the default) if shared.

    Returns:
        Codes of the clique's columns; for a column with bins, the number of the bin.

    Raises:
        ValueError: if edges do not ascend from 0 to the number of codes, the currency is
            `gaussian`, or the budget of one draw is too small.
        BadInput: if households are the units.

    Privacy:
        One event of at most `cost`; see `PerturbedDrawsEvent` and `PolyaUrnEvent`.
    """
    bins = (None,) * len(clique) if edges is None else tuple(edges)
    plain = tuple(None if each is None else tuple(map(int, each)) for each in bins)
    of_kind = draws_event if kind == "independent" else urn_event
    virtual = of_kind(curator.currency, cost, records, curator.relation.max_rows).scale
    asked = CellDraws(tuple(clique), records, kind, plain, virtual)
    binned = asked.binned(curator.domain)
    name = step_name(step, replicate, 0)
    _, drawn = curator.draw(asked, stage, name, cost, batch=step, replicate=replicate)
    return Dataset(binned, np.ascontiguousarray(drawn.T.astype(binned.code_type)))


def draw_records(
    curator: Curator,
    stage: Stage,
    step: str,
    cliques: Sequence[Clique],
    cost: Fraction,
    *,
    records: int,
    sweeps: int = 1,
    replicate: int = 0,
) -> Dataset:
    """Return records drawn column by column from counts with added virtual records.

    Args:
        curator: The curator of the release.
        stage: Stage that pays.
        step: Name of the step, unique within its stage and replicate.
        cliques: One for each column, in the domain's order: the column, then the columns that
            it is drawn conditionally on.
        cost: Budget of all records together, in the release's currency.
        records: Number of records; public.
        sweeps: Number of times each column of a record is drawn; 1 by default.
        replicate: Index of the independent measurement, from 1; 0 (the default) if shared.

    Raises:
        ValueError: if the currency is `gaussian`, or the budget of one draw is too small.
        BadInput: if households are the units.

    Privacy:
        One event of at most `cost`; see `PerturbedDrawsEvent` and `differing_draws`.
    """
    relation = curator.relation
    draws = differing_draws(len(cliques), records, sweeps, relation)
    virtual = draws_event(curator.currency, cost, draws, relation.max_rows).scale
    asked = ColumnDraws(tuple(map(tuple, cliques)), records, sweeps, virtual)
    name = step_name(step, replicate, 0)
    _, drawn = curator.draw(asked, stage, name, cost, batch=step, replicate=replicate)
    domain = curator.domain
    return Dataset(domain, np.ascontiguousarray(drawn.T.astype(domain.code_type)))
