"""Large sets drawn in pieces, each of which corrects the errors of earlier pieces.

A piece that is drawn independently deviates from its tables by some records, whatever its size. If
the target of every piece is what the set still lacks, instead of its own part of the tables, these
errors do not accumulate: the deviation of the whole set is only that of its last piece (error
feedback, as in error diffusion; Floyd and Steinberg 1976). So a large set needs little work per
record.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import Table
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.metrics.marginal_error import Tally


class Owed:
    """Keeps the tables of the records that a set still lacks.

    Attributes:
        domain: All columns.
        tables: Target tables of the whole set, with any total and distinct cliques.
    """

    def __init__(self, domain: Domain, tables: Sequence[Table]) -> None:
        self.domain = domain
        self.tables = tuple(tables)
        self._drawn = Tally(domain, [table.clique for table in tables])

    def of(self, rows: int) -> tuple[Table, ...]:
        """Return nonnegative target tables for the next `rows` records, with about that total."""
        after = self._drawn.rows + rows
        return tuple(
            Table(table.domain, np.maximum(self._wanted(table, after), 0.0))
            for table in self.tables
        )

    def add(self, piece: Dataset) -> None:
        """Count the records of a drawn piece."""
        self._drawn.add(piece)

    def _wanted(self, table: Table, rows: int) -> NDArray[np.float64]:
        total = float(table.values.sum())
        share = (
            table.values / total if total > 0 else np.full_like(table.values, 1 / table.values.size)
        )
        return np.asarray(share * rows - self._drawn.count(table.clique))
