"""GUM: records moved, a little at a time, until they have the tables (PrivSyn, 2021, Section 5).

Every round visits every table. Records of cells that hold too many leave; cells that hold too few
receive them, either as a copy of a record that is there already (which keeps what that record says
about the other columns) or by rewriting the table's columns of the leaver (which keeps what the
leaver says about the others; the only way into an empty cell).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.dataset import Dataset
from dp_core.domain import Clique, Domain
from dp_core.marginals import Measurement, Table
from dp_core.reconstruction.consistency import column_tables, consistent
from dp_core.reconstruction.shrinkage import shrunk
from dp_core.structural_zeros import StructuralZeros


@dataclass(frozen=True, slots=True, eq=False)
class GumModel:
    """Consistent tables, and the way to draw records that have them.

    Attributes:
        domain: All columns.
        tables: One-way tables of all columns in their order, then the larger tables.
        rows: Estimated number of records.
        zeros: Impossible combinations.
        options: How records are moved.
    """

    domain: Domain
    tables: tuple[Table, ...]
    rows: int
    zeros: StructuralZeros
    options: Gum

    @property
    def streams(self) -> bool:
        return False

    def project(self, clique: Clique) -> NDArray[np.float64]:
        holders = [table for table in self.tables if set(clique) <= set(table.clique)]
        if not holders:
            raise KeyError(f"No table holds {list(clique)} together; sample and count instead.")
        table = min(holders, key=lambda holder: holder.values.size)
        others = tuple(axis for axis, name in enumerate(table.clique) if name not in clique)
        kept = [name for name in table.clique if name in clique]
        return np.asarray(table.values.sum(axis=others)).transpose(
            [kept.index(name) for name in clique]
        )

    def sample(self, rows: int, *, rng: np.random.Generator) -> Dataset:
        from dp_core.reconstruction.kernels.gum import Targets, start, update

        codes = start(self.tables[: len(self.domain)], rows, rng=rng)
        tables = self.tables[len(self.domain) :]
        if tables and rows:
            targets = Targets.pack(self.domain, tables, rows, rng=rng)
            update(
                codes,
                targets,
                rounds=self.options.rounds,
                step=self.options.step,
                decay=self.options.decay,
                copies=self.options.copies,
                tolerance=self.options.tolerance,
                seed=int(rng.integers(1 << 63)),
            )
        return self.zeros.repair(Dataset(self.domain, codes), rng=rng)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gum:
    """Make the tables consistent, then move records until they have them.

    Attributes:
        rounds: Largest number of times every table is visited.
        step: Part of a cell's error that the first round mends, at most 1.
        decay: What the step is multiplied by after every round.
        copies: Part of the received records that are copies of one already in the cell.
        tolerance: Stop when three rounds in a row lower the summed error by less than this part.
        shrink: Whether noisy cells are drawn towards what smaller tables say of them, as much as
            the noise warrants; otherwise negative ones are moved to zero, as in the paper.
        consistency_rounds: Without `shrink`, how often agreement and nonnegativity alternate.
    """

    rounds: int = 20
    step: float = 1.0
    decay: float = 0.9
    copies: float = 0.05
    tolerance: float = 0.0005
    shrink: bool = True
    consistency_rounds: int = 5

    def check(self, domain: Domain) -> None:
        """Every domain fits; only the tables are held, never their joint table."""

    def memory(self, domain: Domain, cliques: Sequence[Clique], rows: int) -> int:
        cells = sum(domain.size(clique) for clique in cliques)
        # Records and their copy while impossible ones are mended; working arrays of a visit; tables
        # with the mixture of the largest ones.
        return (4 * len(domain) + 20) * rows + 250 * cells + (32 << 20)

    def fit(
        self,
        domain: Domain,
        measurements: Sequence[Measurement],
        *,
        rows: int | None,
        zeros: StructuralZeros,
        rng: np.random.Generator,  # noqa: ARG002
    ) -> GumModel:
        if self.shrink:
            tables, total = shrunk(domain, measurements, rows=rows, zeros=zeros)
            return GumModel(domain, tables, total, zeros, self)
        tables, total = consistent(
            domain, measurements, rows=rows, zeros=zeros, rounds=self.consistency_rounds
        )
        columns, _ = column_tables(domain, measurements, rows=total, zeros=zeros)
        larger = tuple(table for table in tables if len(table.clique) > 1)
        return GumModel(domain, (*columns, *larger), total, zeros, self)

    def restore(
        self, domain: Domain, tables: Sequence[Table], *, rows: int, zeros: StructuralZeros
    ) -> GumModel:
        return GumModel(domain, tuple(tables), rows, zeros, self)


METHOD = Gum
