"""Records from tables: by `pgm` if the graphical model is small enough, otherwise by `gum`.

A graphical model is the maximum-entropy distribution with the given tables, so it determines every
other table from them. However, it needs the joint table of each clique of its junction tree. If
these have too many cells, GUM changes records until they match the tables.

The tables are the centre of their posterior distribution: of every pair (`of_tables`) in a release
of up to 63 columns, except in mode `split`; otherwise of what was measured (`fit`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from dp_core.client.released import Released, ReleasedKind, Table
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.methods.method_inputs import FitInputs
from dp_core.methods.reconstruction.graphical.junction_tree import JunctionTree
from dp_core.methods.reconstruction.gum import Gum
from dp_core.methods.reconstruction.joint.joint_model import model_of_whole_counts
from dp_core.methods.reconstruction.pgm import Pgm
from dp_core.methods.reconstruction.reconstructor import (
    TABLES_AND_INTERACTIONS,
    Model,
    Reconstructor,
    piece_rows,
)
from dp_core.methods.replicates.posterior.posterior_tables import measured_tables
from dp_core.schema.structure.structural_zeros import StructuralZeros
from dp_core.tables.cliques import row_bytes

MOST_CELLS = 2**17
"""Largest total number of cells in the cliques of a graphical model."""
_MOST_VISITS = 2**24  # cells times tables; beyond it GUM is faster and as accurate


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoReconstruction(Reconstructor):
    """Fit a graphical model (`pgm`) if it is small enough, otherwise use `gum`."""

    takes: ClassVar[frozenset[ReleasedKind]] = TABLES_AND_INTERACTIONS

    def memory(self, domain: Domain, cliques: Sequence[Clique], rows: int) -> int:
        # The method is known only once tables are selected, so this is the larger of the two needs.
        # For the graphical model: cell numbers in each table, the cells, and a fixed minimum.
        most = min(rows, piece_rows(domain))
        fixed = 4 * _MOST_VISITS + 60 * MOST_CELLS + (64 << 20)
        pgm = (2 * row_bytes(domain) + 40) * most + fixed
        return max(pgm, Gum().memory(domain, cliques, rows))

    def model_of(self, inputs: FitInputs) -> Model:
        tables, total = measured_tables(inputs)
        return self.of_tables(inputs.domain, tables, rows=total, zeros=inputs.zeros)

    def of_tables(
        self, domain: Domain, tables: Sequence[Table], *, rows: int, zeros: StructuralZeros
    ) -> Model:
        """Return the model of estimated tables, without fitting them to noisy ones.

        Args:
            domain: All columns.
            tables: Nonnegative tables that nearly agree: of all columns in the domain's order, then
                larger ones.
            rows: Number of records.
            zeros: Impossible cells.
        """
        whole = model_of_whole_counts(domain, tables, rows, zeros)
        if whole:
            return whole
        method = self._by(domain, [table.clique for table in tables], zeros)
        if isinstance(method, Pgm):
            return method.of_tables(domain, tables, rows=rows, zeros=zeros)
        return method.restore(domain, tables, rows=rows, zeros=zeros)

    def restore(
        self,
        domain: Domain,
        tables: Sequence[Table],
        *,
        rows: int,
        zeros: StructuralZeros,
        released: Sequence[Released] = (),
    ) -> Model:
        whole = model_of_whole_counts(domain, tables, rows, zeros)
        if whole:
            return whole
        # GUM stores the tables of all columns first. No clique of a junction tree is in another.
        moved = [(name,) for name in domain.columns]
        by_moves = [table.clique for table in tables[: len(domain)]] == moved
        method = Gum() if by_moves else Pgm()
        return method.restore(domain, tables, rows=rows, zeros=zeros, released=released)

    def _by(self, domain: Domain, cliques: Sequence[Clique], zeros: StructuralZeros) -> Gum | Pgm:
        """Return the method to use for tables of these columns; counts do not influence it."""
        if all(len(clique) < 2 for clique in cliques):  # there is nothing to be implied
            return Gum()
        every = {frozenset(clique) for clique in [*cliques, *zeros.cliques]}
        cells = JunctionTree.of(domain, [*cliques, *zeros.cliques]).cells
        # In a forest the cliques of the junction tree are the tables, so each is visited once.
        visits = cells * len(cliques)
        if cells <= sum(domain.size(tuple(clique)) for clique in every):
            visits = cells
        # Members of a household are drawn from tables of pairs, not from their joint distribution.
        if domain.linked is None and cells <= MOST_CELLS and visits <= _MOST_VISITS:
            return Pgm()
        return Gum()


METHOD = AutoReconstruction
