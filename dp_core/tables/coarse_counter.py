"""Exact counts of coarse codes, computed from a counter of finer codes. Confidential."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.codes import Codes
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.counting.marginal import Counter, Marginal
from dp_core.kernel.counting.sparse_cells import pack
from dp_core.tables.cell_keys import count_keys, unpack


class Recoding:
    """Recodes columns to coarser codes.

    Attributes:
        domain: Domain of the coarser codes.
    """

    def __init__(self, domain: Domain, tables: Mapping[str, Codes]) -> None:
        """Prepare the recoding.

        Args:
            domain: Domain of the coarser codes.
            tables: For each column that changes, the new code of every code.
        """
        self.domain = domain
        self._tables = tables

    def codes(self, column: str, codes: NDArray[Any]) -> NDArray[Any]:
        """Return the coarse codes of a column's codes."""
        return self._tables[column][codes] if column in self._tables else codes

    def dataset(self, data: Dataset) -> Dataset:
        """Return records in the coarse codes."""
        columns = [self.codes(name, data.column(name)) for name in self.domain.columns]
        return Dataset(self.domain, np.stack(columns, dtype=self.domain.code_type))


class CoarseCounter:
    """A counter of coarse codes that uses a counter of finer codes.

    Its results are confidential if those of the finer counter are.
    """

    def __init__(self, counter: Counter, coarsening: Recoding) -> None:
        self._counter = counter
        self._coarsening = coarsening

    @property
    def shares(self) -> int:
        """Units of the counts: 1/`shares` of a record, as the finer counter has them."""
        return int(getattr(self._counter, "shares", 1))

    def count(self, cliques: Sequence[Clique]) -> Mapping[Clique, Marginal]:
        """Return the exact marginal of each clique."""
        return {clique: self._count(clique) for clique in cliques}

    def _count(self, clique: Clique) -> Marginal:
        domain = self._coarsening.domain.project(clique)
        cells, counts = self.observed(clique)
        flat = np.zeros(counts.size, dtype=np.int64)
        for axis, size in enumerate(domain.sizes):
            flat = flat * size + cells[:, axis]
        table = np.zeros(domain.size(), dtype=np.int64)
        table[flat] = counts
        return Marginal(domain, table.reshape(domain.sizes))

    def observed(self, clique: Clique) -> tuple[Codes, NDArray[np.int64]]:
        """Return the cells of a clique that hold a record, and the number of records in each."""
        sizes = self._coarsening.domain.project(clique).sizes
        cells, counts = self._counter.observed(clique)
        codes = [self._coarsening.codes(name, cells[:, axis]) for axis, name in enumerate(clique)]
        keys, found = count_keys(pack(codes, sizes, counts.size), counts)
        return unpack(keys, sizes), found
