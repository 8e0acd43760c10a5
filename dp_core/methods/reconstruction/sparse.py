"""Draws records from the kept cells of a thresholded table of all columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import Released, ReleasedKind, SparseTable, Table
from dp_core.errors import BadInput
from dp_core.kernel.codes import Codes
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.methods.reconstruction.estimates.implied_pairs import counted
from dp_core.methods.reconstruction.reconstructor import FittedTables, MadeAnew
from dp_core.methods.reconstruction.sampling.kept_cells import (
    kept_rows,
    nothing_left,
    possible_cells,
)
from dp_core.schema.structure.structural_zeros import StructuralZeros
from dp_core.tables.cliques import row_bytes


@dataclass(frozen=True, slots=True, eq=False)
class SparseModel(FittedTables):
    """A distribution over the kept cells, proportional to their noisy counts.

    `tables` holds one one-way table per column, in the domain's order.

    Attributes:
        cells: Codes of the kept cells that are possible, shape (cells, columns).
        weights: Their noisy counts, all positive, shape (cells,).
    """

    cells: Codes
    weights: NDArray[np.int64]

    def project(self, clique: Clique) -> NDArray[np.float64]:
        counts = counted(Dataset(self.domain, self.cells.T), clique, weights=self.weights)
        return counts * float(self.rows / self.weights.sum())

    def sample(self, rows: int, *, rng: np.random.Generator) -> Dataset:
        drawn = rng.choice(self.weights.size, size=rows, p=self.weights / self.weights.sum())
        codes = np.ascontiguousarray(self.cells[drawn].T)
        return self.zeros.repair(Dataset(self.domain, codes), rng=rng)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sparse(MadeAnew[SparseModel]):
    """Draw records from the cells that passed the threshold of SBA."""

    takes: ClassVar[frozenset[ReleasedKind]] = frozenset({"sparse"})

    def memory(self, domain: Domain, cliques: Sequence[Clique], rows: int) -> int:  # noqa: ARG002
        # Codes, weights and probabilities of the kept cells, fewer than rows; the set and its copy.
        return (4 * row_bytes(domain) + 64) * rows + (32 << 20)

    def make(
        self, domain: Domain, released: Sequence[Released], rows: int, zeros: StructuralZeros
    ) -> SparseModel:
        """Return the model of the thresholded table of all columns.

        Raises:
            StageFailed: if no possible cell was kept.
        """
        table = _joint(domain, released)
        cells, weights = possible_cells(table, zeros)
        if not len(weights):
            raise nothing_left([table])
        cells = cells[:, list(table.domain.axes(domain.columns))]
        records = Dataset(domain, cells.T)
        tables = tuple(
            Table(
                domain.project((name,)),
                counted(records, (name,), weights=weights) * (rows / weights.sum()),
            )
            for name in domain.columns
        )
        return SparseModel(domain, tables, rows, zeros, cells, weights)

    def number(self, domain: Domain, released: Sequence[Released]) -> int:  # noqa: ARG002
        """Return the largest sum of kept counts."""
        return kept_rows(released)


def _joint(domain: Domain, released: Sequence[Released]) -> SparseTable:
    for item in released:
        if isinstance(item, SparseTable) and set(item.clique) == set(domain.columns):
            return item
    raise BadInput(
        "The reconstruction `sparse` needs one thresholded table of all columns: use it with"
        " select: {method: sba}, or take reconstruct: {method: gibbs}."
    )


METHOD = Sparse
