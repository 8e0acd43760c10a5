"""Arithmetic on the cells that passed a threshold. Public side of the wall."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import Released, SparseTable
from dp_core.errors import StageFailed
from dp_core.kernel.codes import Codes
from dp_core.kernel.counting.dataset import Dataset
from dp_core.schema.structure.structural_zeros import StructuralZeros

_WHAT_TO_DO = (
    "Abandon the release (what was charged stays spent), then use fewer columns, wider bins, a"
    " larger epsilon or delta, or a method without a threshold, such as privsyn."
)


def sparse_tables(released: Sequence[Released]) -> tuple[SparseTable, ...]:
    """Return the thresholded tables among the released results, in order."""
    return tuple(item for item in released if isinstance(item, SparseTable))


def possible_cells(table: SparseTable, zeros: StructuralZeros) -> tuple[Codes, NDArray[np.int64]]:
    """Return the possible kept cells, shape (cells, columns), and their noisy counts."""
    rules = tuple(rule for rule in zeros.rules if set(rule.columns) <= set(table.clique))
    data = Dataset(table.domain, np.ascontiguousarray(table.cells.T))
    possible = ~StructuralZeros(rules).violations(data)
    return table.cells[possible], table.values[possible]


def kept_rows(released: Sequence[Released]) -> int:
    """Return the largest sum of a table's kept counts, at least 1."""
    return max([1, *(int(table.values.sum()) for table in sparse_tables(released))])


def nothing_left(tables: Sequence[SparseTable]) -> StageFailed:
    """Return the error for tables without a possible kept cell."""
    least = min(table.threshold for table in tables)
    return StageFailed(
        "The threshold removed everything: no combination of codes that the rules allow has a noisy"
        f" count of {least} or more. {_WHAT_TO_DO}",
        row="nothing-kept",
    )


def no_start() -> StageFailed:
    """Return the error for a Gibbs sampler without a start state."""
    return StageFailed(
        "No start state: no record was found in a kept cell of every table. " + _WHAT_TO_DO,
        row="nothing-kept",
    )
