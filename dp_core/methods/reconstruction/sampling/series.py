"""Large sets drawn in pieces, each of which corrects the errors of earlier pieces.

A piece of a set that is drawn by itself misses its tables by some records, whatever its size. If
every piece is aimed at what the set still lacks, and not at its own part of the tables, these
errors do not add up: a chain of pieces misses its tables by no more records than its last piece
does (error feedback, as in the diffusion of rounding errors; Floyd and Steinberg 1976). So the work
for one record may be small where there are many.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dp_core.metrics.marginal_error import Tally
from dp_core.tables.dataset import Dataset
from dp_core.tables.domain import Domain
from dp_core.wall.released import Table


class Owed:
    """The tables of the records that a set still lacks.

    Attributes:
        domain: All columns.
        tables: Target tables of the whole set, with any total, each for other columns.
    """

    def __init__(self, domain: Domain, tables: Sequence[Table]) -> None:
        self.domain = domain
        self.tables = tuple(tables)
        self._drawn = Tally(domain, [table.clique for table in tables])

    def of(self, rows: int) -> tuple[Table, ...]:
        """Return the tables for the next so many records, nonnegative and about of that total."""
        after = self._drawn.rows + rows
        return tuple(
            Table(table.domain, np.maximum(self._wanted(table, after), 0.0))
            for table in self.tables
        )

    def add(self, piece: Dataset) -> None:
        """Count what was drawn."""
        self._drawn.add(piece)

    def _wanted(self, table: Table, rows: int) -> NDArray[np.float64]:
        total = float(table.values.sum())
        share = (
            table.values / total if total > 0 else np.full_like(table.values, 1 / table.values.size)
        )
        return np.asarray(share * rows - self._drawn.count(table.clique))
