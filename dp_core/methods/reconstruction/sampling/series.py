"""Large sets drawn in pieces, each of which corrects the errors of earlier pieces.

A piece that is drawn independently deviates from its tables by some records, whatever its size. If
the target of every piece is what the set still lacks, instead of its own part of the tables, these
errors do not accumulate: the deviation of the whole set is only that of its last piece (error
feedback, as in error diffusion; Floyd and Steinberg 1976). So a large set needs little work per
record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import Table
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.methods.reconstruction.sampling.drawing_progress import Progress, ReportingSampler
from dp_core.metrics.marginal_error import Tally


class CorrectedPieces(ReportingSampler):
    """A sampler for pieces of a large set; each is fitted to the counts that the set lacks."""

    def __init__(
        self, domain: Domain, tables: Sequence[Table], drawings: Iterable[Callable[..., Dataset]]
    ) -> None:
        """Start a set.

        Args:
            domain: All columns.
            tables: Target tables of the whole set, with any total and distinct cliques.
            drawings: For each piece, a function of its rows and target tables, and of the keyword
                arguments `rng` and `progress`, that returns the piece.
        """
        self._tables = tuple(tables)
        self._drawn = Tally(domain, [table.clique for table in tables])
        self._drawings = iter(drawings)

    def sample_reporting(
        self, rows: int, *, rng: np.random.Generator, progress: Progress
    ) -> Dataset:
        after = self._drawn.rows + rows
        targets = tuple(
            Table(table.domain, np.maximum(self._lacking(table, after), 0.0))
            for table in self._tables
        )
        piece = next(self._drawings)(rows, targets, rng=rng, progress=progress)
        self._drawn.add(piece)
        return piece

    def _lacking(self, table: Table, rows: int) -> NDArray[np.float64]:
        total = float(table.values.sum())
        share = (
            table.values / total if total > 0 else np.full_like(table.values, 1 / table.values.size)
        )
        return np.asarray(share * rows - self._drawn.count(table.clique))
