"""The joint table of all columns, held cell by cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.dataset import Dataset
from dp_core.domain import Clique, Domain
from dp_core.errors import BadInput
from dp_core.marginals import Measurement, Table
from dp_core.reconstruction.consistency import consistent
from dp_core.structural_zeros import StructuralZeros


@dataclass(frozen=True, slots=True, eq=False)
class DenseModel:
    """A joint table.

    Attributes:
        domain: All columns.
        tables: The joint table alone; it is what the model is.
        rows: Estimated number of records, which it sums to.
        zeros: Impossible combinations; their cells are 0, so no draw has them.
    """

    domain: Domain
    tables: tuple[Table, ...]
    rows: int
    zeros: StructuralZeros

    @property
    def streams(self) -> bool:
        return True

    def project(self, clique: Clique) -> NDArray[np.float64]:
        others = tuple(axis for axis, name in enumerate(self.domain.columns) if name not in clique)
        sums = np.asarray(self.tables[0].values.sum(axis=others))
        kept = [name for name in self.domain.columns if name in clique]
        return sums.transpose([kept.index(name) for name in clique])

    def sample(self, rows: int, *, rng: np.random.Generator) -> Dataset:
        from dp_core.reconstruction.kernels.alias import AliasTable

        cells = np.empty(rows, dtype=np.int64)
        AliasTable.build(self.tables[0].values).draw(cells, rng=rng)
        codes = np.empty((len(self.domain), rows), dtype=np.uint16)
        for axis in reversed(range(len(self.domain))):
            cells, codes[axis] = np.divmod(cells, self.domain.sizes[axis])
        # Only where no cell at all is possible are there broken rows, and that is an error.
        return self.zeros.repair(Dataset(self.domain, codes), rng=rng)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dense:
    """Fit the joint table: the noisy one where it was measured, else that of largest entropy.

    A measured joint table is made nonnegative and used as it is. From smaller tables iterative
    proportional fitting gives the joint table of largest entropy that has them; from one-way
    tables that is their product.

    Attributes:
        max_cells: Largest joint table that is attempted.
        rounds: Largest number of fitting rounds; it stops when no cell moves by 0.01 records.
    """

    max_cells: int = 2**22
    rounds: int = 100

    def check(self, domain: Domain) -> None:
        if domain.size() > self.max_cells:
            raise BadInput(
                f"The joint table of all columns has {domain.size():.3g} cells, more than the"
                f" {self.max_cells} that `reconstruct: dense` holds; use `method: privsyn`, or"
                " fewer and coarser columns."
            )

    def memory(self, domain: Domain, cliques: Sequence[Clique], rows: int) -> int:  # noqa: ARG002
        return 72 * domain.size() + (4 * len(domain) + 24) * rows + (16 << 20)

    def fit(
        self,
        domain: Domain,
        measurements: Sequence[Measurement],
        *,
        rows: int | None,
        zeros: StructuralZeros,
        rng: np.random.Generator,  # noqa: ARG002
    ) -> DenseModel:
        self.check(domain)
        tables, rows = consistent(domain, measurements, rows=rows, zeros=zeros)
        whole = next((table for table in tables if table.clique == domain.columns), None)
        if whole is None:
            whole = Table(domain, self._proportional(domain, tables, rows, zeros))
        return DenseModel(domain, (whole,), rows, zeros)

    def restore(
        self, domain: Domain, tables: Sequence[Table], *, rows: int, zeros: StructuralZeros
    ) -> DenseModel:
        return DenseModel(domain, tuple(tables), rows, zeros)

    def _proportional(
        self, domain: Domain, tables: Sequence[Table], rows: int, zeros: StructuralZeros
    ) -> NDArray[np.float64]:
        """Return the joint table of largest entropy with the given (agreeing) tables."""
        joint = (~zeros.mask(domain)).astype(np.float64)
        joint *= rows / max(joint.sum(), 1.0)
        for _ in range(self.rounds):
            moved = 0.0
            for table in tables:
                others = tuple(
                    axis for axis, name in enumerate(domain.columns) if name not in table.clique
                )
                sums = joint.sum(axis=others, keepdims=True)
                wanted = table.values.reshape(sums.shape)
                moved = max(moved, float(np.abs(wanted - sums).max()))
                joint *= np.divide(wanted, sums, out=np.zeros_like(sums), where=sums > 0)
            if moved < 0.01:
                break
        # Tables that disagree a little leave a total a little off.
        total = joint.sum()
        return joint * (rows / total) if total > 0 else joint


METHOD = Dense
