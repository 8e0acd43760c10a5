"""Sets of the records that a selection method made, each as often as any other to within one.

DualQuery releases a few hundred records and nothing else; their proportions are its estimates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import Records, Released, ReleasedKind, Table
from dp_core.errors import BadInput
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.methods.reconstruction.estimates.implied_pairs import counted
from dp_core.methods.reconstruction.reconstructor import FittedTables, MadeAnew, piece_rows
from dp_core.methods.reconstruction.sampling.drawing import equally_often
from dp_core.schema.structure.structural_zeros import StructuralZeros
from dp_core.tables.cliques import row_bytes


@dataclass(frozen=True, slots=True, eq=False)
class RecordsModel(FittedTables):
    """A list of records, of which every set has each as often as any other to within one.

    `tables` holds one one-way table per column, in the domain's order.

    Attributes:
        data: The records, at least one.
    """

    data: Dataset

    @property
    def streams(self) -> bool:
        """Whether a large set is drawn in pieces; not if a piece cannot hold every record."""
        return self.data.rows <= piece_rows(self.domain)

    def project(self, clique: Clique) -> NDArray[np.float64]:
        return counted(self.data, clique) * (self.rows / self.data.rows)

    def sample(self, rows: int, *, rng: np.random.Generator) -> Dataset:
        drawn = self.data.codes[:, equally_often(self.data.rows, rows, rng=rng)]
        return self.zeros.repair(Dataset(self.domain, np.ascontiguousarray(drawn)), rng=rng)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsAgain(MadeAnew[RecordsModel]):
    """Repeat the records that the selection made, each equally often to within one."""

    takes: ClassVar[frozenset[ReleasedKind]] = frozenset({"records"})

    def memory(self, domain: Domain, cliques: Sequence[Clique], rows: int) -> int:  # noqa: ARG002
        # The set, its copy while impossible records are repaired, and the index drawn for each row.
        return (2 * row_bytes(domain) + 16) * rows + (64 << 20)

    def make(
        self, domain: Domain, released: Sequence[Released], rows: int, zeros: StructuralZeros
    ) -> RecordsModel:
        data = records_of(domain, released)
        tables = tuple(
            Table(domain.project((name,)), counted(data, (name,)) * (rows / data.rows))
            for name in domain.columns
        )
        return RecordsModel(domain, tables, rows, zeros, data)

    def number(self, domain: Domain, released: Sequence[Released]) -> int:
        """Return the number of records that the selection made."""
        return records_of(domain, released).rows


def records_of(domain: Domain, released: Sequence[Released]) -> Dataset:
    """Return all released records, with columns in the domain's order.

    Raises:
        BadInput: if there are none.
    """
    made = [item.dataset for item in released if isinstance(item, Records)]
    codes = [data.codes[list(data.domain.axes(domain.columns))] for data in made]
    if not sum(part.shape[1] for part in codes):
        raise BadInput(
            "The reconstruction `records` repeats records, and the selection made none;"
            " use it with a selection that makes some, such as dualquery."
        )
    return Dataset(domain, np.ascontiguousarray(np.concatenate(codes, axis=1)))


METHOD = RecordsAgain
