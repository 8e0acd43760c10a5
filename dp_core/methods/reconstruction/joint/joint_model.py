"""A model that is one table of all columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import Table
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.methods.reconstruction.estimates.raking import margin
from dp_core.methods.reconstruction.reconstructor import FittedTables
from dp_core.methods.reconstruction.sampling.drawing import records
from dp_core.schema.structure.structural_zeros import StructuralZeros


@dataclass(frozen=True, slots=True, eq=False)
class DenseModel(FittedTables):
    """A model with a single table, the joint table of all columns; impossible cells are 0."""

    def project(self, clique: Clique) -> NDArray[np.float64]:
        return margin(self.tables[0], clique)

    def sample(self, rows: int, *, rng: np.random.Generator) -> Dataset:
        # Impossible records can be drawn only if no cell is possible; then `repair` raises the
        # error.
        return self.zeros.repair(records(self.domain, self.tables, rows, rng=rng), rng=rng)


def model_of_whole_counts(
    domain: Domain, tables: Sequence[Table], rows: int, zeros: StructuralZeros
) -> DenseModel | None:
    """Return the model of the last table if it has whole counts of all columns, otherwise None.

    Such a table was measured (`posterior.joint_draws`). Records have exactly its counts.

    Args:
        domain: All columns.
        tables: Estimated tables; larger ones come last.
        rows: Number of records.
        zeros: Impossible cells.
    """
    last = tables[-1]
    if len(domain) < 2 or len(last.clique) < len(domain) or (last.values % 1).any():
        return None
    return DenseModel(domain, (last,), rows, zeros)
