"""A graphical model: the maximum-entropy distribution with the measured tables.

Private-PGM (McKenna, Sheldon and Miklau, ICML 2019). The model is stored as the tables of a
junction tree's cliques, so it gives any small table, measured or not, without drawing records.
Columns without a measured relation are conditionally independent.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import ReleasedKind, Table, tables_of
from dp_core.errors import BadInput
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.methods.method_inputs import FitInputs
from dp_core.methods.reconstruction.estimates.implied_pairs import unmeasured
from dp_core.methods.reconstruction.estimates.raking import MOST_CELLS
from dp_core.methods.reconstruction.graphical.answers import Answers
from dp_core.methods.reconstruction.graphical.junction_fit import Target, fit_tree
from dp_core.methods.reconstruction.graphical.junction_tree import JunctionTree, within
from dp_core.methods.reconstruction.graphical.targets import targets
from dp_core.methods.reconstruction.reconstructor import (
    TABLES_AND_INTERACTIONS,
    FittedTables,
    FromTables,
    piece_rows,
)
from dp_core.methods.reconstruction.sampling.drawing import records
from dp_core.methods.reconstruction.sampling.drawing_progress import (
    Progress,
    ReportingSampler,
    step_of,
)
from dp_core.methods.reconstruction.sampling.series import CorrectedPieces
from dp_core.methods.replicates.posterior.larger_draws import working_memory
from dp_core.methods.replicates.posterior.posterior_tables import measured_tables
from dp_core.schema.structure.structural_zeros import StructuralZeros
from dp_core.tables.cliques import row_bytes

_LOG = logging.getLogger(__name__)
EVENED = 3
"""Largest number of final visits of every drawn record, which remove the sampling noise of the draw
from all pairs of columns; a fourth one gains little. A large set that is drawn in pieces has one
visit, because later pieces correct the errors of earlier ones."""
SWEEPS = 50
"""Largest number of passes over the junction tree."""
TOLERANCE = 1e-4
"""Fitting ends after a pass that changes a smaller part of all records; noise is larger."""
_MOST_EVENED = 100  # columns; with more, computing all pairs takes longer than the draw
# Parts of the drawing after each step, for the progress. `_DRAWN` and `_COMPARED` are parts of what
# follows `_TABLES_MADE`.
_TABLES_MADE, _DRAWN, _COMPARED = 0.05, 0.05, 0.15
_SETTLING = 0.1  # penalty of a cell of given tables; resolves their contradictions
_RECORDS_A_CELL = 8  # of larger cliques than pairs, on average, to adjust records to their tables


@dataclass(frozen=True, slots=True, eq=False)
class GraphicalModel(ReportingSampler, FittedTables):
    """A graphical model stored as the tables of a junction tree's cliques, in the tree's order."""

    @property
    def tree(self) -> JunctionTree:
        """The junction tree that connects the cliques of the tables."""
        return JunctionTree.ordered(self.domain, [table.clique for table in self.tables])

    def project(self, clique: Clique) -> NDArray[np.float64]:
        return Answers(self.tree, self.tables).table(clique)

    def series(
        self,
        number: int,
        pieces: int | None = None,  # noqa: ARG002
    ) -> Sequence[CorrectedPieces]:
        """Return `number` samplers for pieces of a large set.

        Every record is visited once; the next piece corrects the remaining error.
        """
        tables, once = self.held_to(piece_rows(self.domain)), partial(self.drawn, sweeps=1)
        return [CorrectedPieces(self.domain, tables, repeat(once)) for _ in range(number)]

    def sample_reporting(
        self, rows: int, *, rng: np.random.Generator, progress: Progress
    ) -> Dataset:
        tables = self.held_to(rows)
        progress(_TABLES_MADE)
        told = step_of(progress, _TABLES_MADE, 1.0)
        return self.drawn(rows, tables, sweeps=EVENED, rng=rng, progress=told)

    def drawn(
        self,
        rows: int,
        tables: Sequence[Table],
        *,
        sweeps: int,
        rng: np.random.Generator,
        progress: Progress,
    ) -> Dataset:
        """Return records drawn from the model and adjusted to some tables.

        Args:
            rows: Number of records.
            tables: Tables to match; single values are changed until no change reduces the error.
            sweeps: Largest number of times every record is visited for these changes.
            rng: Generator; same state, same records.
            progress: Called with the part that is done.
        """
        from dp_core.methods.reconstruction.kernels.descent import Gaps, descend

        data = records(self.domain, self.tables, rows, rng=rng)
        if rows and tables:
            progress(_DRAWN)
            gaps = Gaps.of(data, tables)
            told = step_of(progress, _COMPARED, 1.0)
            descend(data, gaps, sweeps=sweeps, rng=rng, progress=told)
        return self.zeros.repair(data, rng=rng)

    def held_to(self, rows: int) -> tuple[Table, ...]:
        """Return the model's tables of all columns and pairs, and of cliques with few cells.

        Args:
            rows: Number of records of the set. The result is empty if records are not adjusted.
        """
        if not rows or len(self.domain) > _MOST_EVENED:
            return ()
        answers = Answers(self.tree, self.tables)
        wanted: list[Clique] = [(name,) for name in self.domain.columns]
        wanted += unmeasured(self.domain, ())
        # A larger clique tells more than its pairs if its cells have enough records.
        most = rows // _RECORDS_A_CELL
        wanted += [c for c in self.tree.cliques if len(c) > 2 and self.domain.size(c) <= most]
        tables = []
        for clique in wanted:
            with suppress(KeyError):  # an intermediate table would be too large
                tables.append(Table(self.domain.project(clique), answers.table(clique)))
        return tuple(tables)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pgm(FromTables):
    """Fit a graphical model to noisy tables.

    Tables whose junction tree has more than `max_cells` cells are refused; if they were measured
    already, they are used only through the margins that they share with tables that fit.

    Attributes:
        shrink: Whether to fit the centre of the tables' posterior distribution; otherwise the noisy
            tables, with the model's own penalty (`targets.SMOOTHING`).
    """

    # Of the junction tree's cliques together: a fit in 16 MB and seconds.
    max_cells: ClassVar[int] = 2**21
    takes: ClassVar[frozenset[ReleasedKind]] = TABLES_AND_INTERACTIONS
    model: ClassVar[type[FittedTables]] = GraphicalModel

    shrink: bool = True

    def check(self, domain: Domain) -> None:
        if sum(domain.sizes) > self.max_cells:
            raise BadInput(
                f"The columns alone have {sum(domain.sizes):,} codes, more than the"
                f" {self.max_cells:,} cells that `reconstruct: pgm` holds; use"
                " `reconstruct: independent`, or coarser columns."
            )

    def memory(self, domain: Domain, cliques: Sequence[Clique], rows: int) -> int:
        """Return about how many bytes are needed.

        Raises:
            BadInput: if the tables have no junction tree of at most `max_cells` cells.
        """
        cells = JunctionTree.of(domain, cliques).cells
        if cells > self.max_cells:
            raise BadInput(
                f"A graphical model that holds all these tables has {cells:.3g} cells, more than"
                f" the {self.max_cells:,} that `reconstruct: pgm` holds; use `reconstruct: gum`,"
                " or fewer tables."
            )
        # Per cell: its number in each table that its clique contains, the tables, and working
        # copies.
        rows = min(rows, piece_rows(domain))
        fit = (4 * len(cliques) + 60) * cells + working_memory(domain, cliques)
        return (2 * row_bytes(domain) + 40) * rows + fit + (64 << 20)

    def model_of(self, inputs: FitInputs) -> GraphicalModel:
        domain, zeros = inputs.domain, inputs.zeros
        self.check(domain)
        if self.shrink:
            tables, total = measured_tables(inputs)
            return self.of_tables(domain, tables, rows=total, zeros=zeros)
        known = zeros.with_empty_levels(domain, most_cells=MOST_CELLS)
        wanted, total = targets(domain, tables_of(inputs.released), rows=inputs.rows, zeros=known)
        fitted = _fitted(self._tree(domain, wanted, zeros), wanted, total, known)
        return GraphicalModel(domain, fitted, total, zeros)

    def of_tables(
        self, domain: Domain, tables: Sequence[Table], *, rows: int, zeros: StructuralZeros
    ) -> GraphicalModel:
        """Return the model of estimated tables, which nearly agree.

        Args:
            domain: All columns.
            tables: Nonnegative tables, at least one of every column.
            rows: Number of records.
            zeros: Impossible cells.
        """
        known = zeros.with_empty_levels(domain, most_cells=MOST_CELLS)
        wanted = [
            Target(each.domain, each.values, np.full(each.domain.sizes, _SETTLING))
            for each in tables
        ]
        fitted = _fitted(self._tree(domain, wanted, zeros), wanted, rows, known)
        return GraphicalModel(domain, fitted, rows, zeros)

    def _tree(
        self, domain: Domain, wanted: Sequence[Target], zeros: StructuralZeros
    ) -> JunctionTree:
        """Return the junction tree of the targets and rules that have room in it."""
        held = self._held(domain, [target.domain.columns for target in wanted])
        return JunctionTree.of(domain, within_rules(domain, held, zeros, most_cells=self.max_cells))

    def _held(self, domain: Domain, cliques: Sequence[Clique]) -> Sequence[Clique]:
        if JunctionTree.of(domain, cliques).cells <= self.max_cells:
            return cliques
        held = within(domain, cliques, most_cells=self.max_cells)
        # The tables are already paid for, so a model without some of them is better than none.
        _LOG.warning(
            "%d of %d tables have no room in the graphical model (max_cells: %d).",
            len(cliques) - len(held),
            len(cliques),
            self.max_cells,
        )
        return held


def _fitted(
    tree: JunctionTree, wanted: Sequence[Target], total: int, zeros: StructuralZeros
) -> tuple[Table, ...]:
    """Return the tables of a junction tree's cliques, fitted to the targets that it holds."""
    placed = [each for each in wanted if tree.holder(each.domain.columns) is not None]
    return fit_tree(
        tree, placed, total=float(total), zeros=zeros, sweeps=SWEEPS, tolerance=TOLERANCE
    ).tables


def within_rules(
    domain: Domain, cliques: Sequence[Clique], zeros: StructuralZeros, *, most_cells: int
) -> list[Clique]:
    """Return the cliques, and those of rules for impossible cells as far as `most_cells` allows."""
    rules = sorted(zeros.cliques, key=domain.size)
    return within(domain, [*cliques, *rules], most_cells=most_cells)


METHOD = Pgm
