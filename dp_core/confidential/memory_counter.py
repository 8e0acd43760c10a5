"""Exact marginals of a dataset in memory: for notebooks, comparisons and benchmarks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.codes import Codes
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Clique
from dp_core.kernel.counting.marginal import Marginal
from dp_core.kernel.counting.sparse_cells import pack
from dp_core.tables.cell_keys import count_keys, unpack
from dp_core.tables.table_plan import count_codes

CACHED_BYTES = 1 << 28
"""Bytes of counts to keep, because methods with rounds ask for the same tables repeatedly."""


class MemoryCounter:
    """Counts cliques of a dataset, once each, as a `dp_core.kernel.counting.marginal.Counter`."""

    def __init__(self, data: Dataset) -> None:
        """Create a counter of a dataset, which is treated as confidential."""
        self._data = data
        self._cached: dict[Clique, NDArray[np.int64]] = {}
        self._room = CACHED_BYTES

    def __repr__(self) -> str:
        return f"MemoryCounter({len(self._data.domain)} columns, confidential)"

    def count(self, cliques: Sequence[Clique]) -> Mapping[Clique, Marginal]:
        domain = self._data.domain
        wanted = [clique for clique in dict.fromkeys(cliques) if clique not in self._cached]
        axes = [domain.axes(clique) for clique in wanted]
        counted = count_codes(list(self._data.codes), domain.sizes, axes)
        found = dict(zip(wanted, counted, strict=True))
        for clique, table in found.items():
            if table.nbytes <= self._room:
                self._cached[clique] = table
                self._room -= table.nbytes
        known = {**self._cached, **found}
        return {clique: Marginal(domain.project(clique), known[clique]) for clique in cliques}

    def observed(self, clique: Clique) -> tuple[Codes, NDArray[np.int64]]:
        codes = self._data.codes[list(self._data.domain.axes(clique))]
        return observed_cells(codes, self._data.domain.project(clique).sizes)


def observed_cells(codes: Codes, sizes: Sequence[int]) -> tuple[Codes, NDArray[np.int64]]:
    """Return the non-empty cells, ascending, shape (cells, columns), and their counts.

    Args:
        codes: Codes of the records, shape (columns, rows).
        sizes: Numbers of codes of the columns.

    >>> cells, counts = observed_cells(np.array([[1, 0, 1], [2, 0, 2]], np.uint16), [2, 3])
    >>> cells.tolist(), counts.tolist()
    ([[0, 0], [1, 2]], [1, 2])
    """
    found, counts = count_keys(pack(codes, sizes))
    return unpack(found, sizes), counts
