"""Independent columns, related only by the rules of impossible cells."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import ReleasedKind, Table, tables_of
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.methods.method_inputs import FitInputs
from dp_core.methods.reconstruction.estimates.consistency import column_tables
from dp_core.methods.reconstruction.estimates.raking import MOST_CELLS, margin, possible_joint
from dp_core.methods.reconstruction.reconstructor import TABLES, FittedTables, FromTables
from dp_core.methods.reconstruction.sampling.drawing import records
from dp_core.schema.structure.structural_zeros import StructuralZeros
from dp_core.tables.cliques import row_bytes


@dataclass(frozen=True, slots=True, eq=False)
class IndependentModel(FittedTables):
    """The product of one-way tables; columns that share a rule are drawn from a joint table.

    `tables` holds one one-way table per column, in the domain's order.

    Attributes:
        blocks: Joint tables of disjoint cliques that cover all columns. Blocks are drawn
            independently of each other.
    """

    blocks: tuple[Table, ...]

    @classmethod
    def of_tables(
        cls, domain: Domain, tables: Sequence[Table], rows: int, zeros: StructuralZeros
    ) -> IndependentModel:
        """Return the model of one-way tables in the domain's order.

        A block's joint table is the maximum-entropy table with these one-way margins and no mass in
        impossible cells. If margins and rules contradict each other, the margins hold only
        approximately.
        """
        tied = zeros.blocks(domain, most_cells=MOST_CELLS)
        alone = [
            table
            for table in tables
            if not any(set(table.clique) <= set(clique) for clique in tied)
        ]
        joint = [possible_joint(domain, clique, tables, zeros) for clique in tied]
        return cls(domain, tuple(tables), rows, zeros, (*alone, *joint))

    def project(self, clique: Clique) -> NDArray[np.float64]:
        parts: list[NDArray[np.float64]] = [np.asarray(1.0)]
        columns: list[str] = []
        for block in self.blocks:
            held = tuple(name for name in block.clique if name in clique)
            if held:
                parts.append(margin(block, held) / self.rows)
                columns += held
        product = functools.reduce(np.multiply.outer, parts) * self.rows
        return np.asarray(product.transpose([columns.index(name) for name in clique]))

    def sample(self, rows: int, *, rng: np.random.Generator) -> Dataset:
        # Only blocks whose joint table was too large can have impossible records to repair.
        return self.zeros.repair(records(self.domain, self.blocks, rows, rng=rng), rng=rng)


@dataclass(frozen=True, slots=True, kw_only=True)
class Independent(FromTables):
    """Draw every column independently from its estimated one-way table."""

    takes: ClassVar[frozenset[ReleasedKind]] = TABLES
    model: ClassVar[type[FittedTables]] = IndependentModel

    def memory(self, domain: Domain, cliques: Sequence[Clique], rows: int) -> int:
        tables = sum(domain.size(clique) for clique in cliques)
        # Records, their copy while impossible ones are repaired, and the cells of a block.
        blocks = 72 * min(domain.size(), MOST_CELLS)
        return (2 * row_bytes(domain) + 24) * rows + 24 * tables + blocks + (16 << 20)

    def model_of(self, inputs: FitInputs) -> IndependentModel:
        domain = inputs.domain
        known = inputs.zeros.with_empty_levels(domain, most_cells=MOST_CELLS)
        tables, rows = column_tables(
            domain, tables_of(inputs.released), rows=inputs.rows, zeros=known
        )
        return IndependentModel.of_tables(domain, tables, rows, inputs.zeros)


METHOD = Independent
