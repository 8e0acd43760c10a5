"""Exact marginals of a dataset in memory: for notebooks, comparisons and benchmarks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dp_core.counting import count_codes
from dp_core.dataset import Dataset
from dp_core.domain import Clique
from dp_core.marginals import Marginal
from dp_core.sparse_counting import observed_cells


class MemoryCounter:
    """Counts cliques of a dataset; implements `dp_core.marginals.Counter`."""

    def __init__(self, data: Dataset) -> None:
        """Count a dataset. Confidential, whatever was said of it."""
        self._data = data

    def __repr__(self) -> str:
        return f"MemoryCounter({len(self._data.domain)} columns, confidential)"

    def count(self, cliques: Sequence[Clique]) -> Mapping[Clique, Marginal]:
        domain = self._data.domain
        axes = [domain.axes(clique) for clique in cliques]
        counts = count_codes(list(self._data.codes), domain.sizes, axes)
        return {
            clique: Marginal(domain.project(clique), table)
            for clique, table in zip(cliques, counts, strict=True)
        }

    def observed(self, clique: Clique) -> tuple[NDArray[np.uint16], NDArray[np.int64]]:
        codes = self._data.codes[list(self._data.domain.axes(clique))]
        return observed_cells(codes, self._data.domain.project(clique).sizes)
