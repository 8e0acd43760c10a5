"""Independent columns: every one-way table right, no relation between columns."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.dataset import Dataset
from dp_core.domain import Clique, Domain
from dp_core.marginals import Measurement, Table
from dp_core.reconstruction.consistency import column_tables
from dp_core.structural_zeros import StructuralZeros


@dataclass(frozen=True, slots=True, eq=False)
class IndependentModel:
    """The product of one-way tables.

    Attributes:
        domain: All columns.
        tables: One for each column, in the domain's order.
        rows: Estimated number of records.
        zeros: Impossible combinations, which are mended in what is drawn.
    """

    domain: Domain
    tables: tuple[Table, ...]
    rows: int
    zeros: StructuralZeros

    @property
    def streams(self) -> bool:
        return True

    def project(self, clique: Clique) -> NDArray[np.float64]:
        parts = [self.tables[axis].values / self.rows for axis in self.domain.axes(clique)]
        product = functools.reduce(np.multiply.outer, parts, np.asarray(1.0))
        return np.asarray(product * self.rows)

    def sample(self, rows: int, *, rng: np.random.Generator) -> Dataset:
        from dp_core.reconstruction.kernels.alias import AliasTable

        codes = np.empty((len(self.domain), rows), dtype=np.uint16)
        for column, table in zip(codes, self.tables, strict=True):
            AliasTable.build(table.values).draw(column, rng=rng)
        return self.zeros.repair(Dataset(self.domain, codes), rng=rng)


@dataclass(frozen=True, slots=True, kw_only=True)
class Independent:
    """Draw every column by itself from what all measurements say about it."""

    def check(self, domain: Domain) -> None:
        """Every domain fits."""

    def memory(self, domain: Domain, cliques: Sequence[Clique], rows: int) -> int:
        tables = sum(domain.size(clique) for clique in cliques)
        # Records, and their copy while impossible ones are mended.
        return (4 * len(domain) + 8) * rows + 24 * tables + (16 << 20)

    def fit(
        self,
        domain: Domain,
        measurements: Sequence[Measurement],
        *,
        rows: int | None,
        zeros: StructuralZeros,
        rng: np.random.Generator,  # noqa: ARG002
    ) -> IndependentModel:
        tables, rows = column_tables(domain, measurements, rows=rows, zeros=zeros)
        return IndependentModel(domain, tables, rows, zeros)

    def restore(
        self, domain: Domain, tables: Sequence[Table], *, rows: int, zeros: StructuralZeros
    ) -> IndependentModel:
        return IndependentModel(domain, tuple(tables), rows, zeros)


METHOD = Independent
