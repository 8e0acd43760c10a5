"""A model that is one table of all columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.dataset import Dataset
from dp_core.domain import Clique
from dp_core.reconstruction.base import FittedTables
from dp_core.reconstruction.drawing import draw
from dp_core.reconstruction.raking import margin


@dataclass(frozen=True, slots=True, eq=False)
class DenseModel(FittedTables):
    """A joint table: its only table, with nothing in impossible cells."""

    @property
    def streams(self) -> bool:
        return True

    def project(self, clique: Clique) -> NDArray[np.float64]:
        return margin(self.tables[0], clique)

    def sample(self, rows: int, *, rng: np.random.Generator) -> Dataset:
        codes = np.empty((len(self.domain), rows), dtype=np.uint16)
        draw(self.tables[0], codes, tuple(range(len(self.domain))), rng=rng)
        # Only where no cell at all is possible are there broken rows, and that is an error.
        return self.zeros.repair(Dataset(self.domain, codes), rng=rng)
