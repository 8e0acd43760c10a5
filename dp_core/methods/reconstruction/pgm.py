"""A graphical model: the distribution of largest entropy that has the measured tables.

Private-PGM (McKenna, Sheldon and Miklau, ICML 2019). It is held in the cliques of a junction tree,
so it answers any small table, measured or not, without drawing a record, and what was not measured
is independent given what was.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dp_core.errors import BadInput
from dp_core.methods.option_ranges import check_ranges
from dp_core.methods.reconstruction.estimates.implied_pairs import unmeasured
from dp_core.methods.reconstruction.estimates.raking import MOST_CELLS
from dp_core.methods.reconstruction.graphical.answers import Answers
from dp_core.methods.reconstruction.graphical.junction_fit import Target, fit_tree
from dp_core.methods.reconstruction.graphical.junction_tree import JunctionTree, within
from dp_core.methods.reconstruction.graphical.targets import targets
from dp_core.methods.reconstruction.reconstructor import (
    TABLES_AND_INTERACTIONS,
    FittedTables,
    piece_rows,
)
from dp_core.methods.reconstruction.sampling.drawing import records
from dp_core.methods.reconstruction.sampling.series import Owed
from dp_core.tables.dataset import Dataset
from dp_core.tables.domain import Clique, Domain
from dp_core.tables.structural_zeros import StructuralZeros
from dp_core.wall.released import (
    Measurement,
    Released,
    ReleasedKind,
    Table,
    interactions_of,
    tables_of,
)
from dp_core.wall.statistics.interactions import Interaction

_LOG = logging.getLogger(__name__)
_MBI_ROUNDS = 40
_MOST_EVENED = 100  # columns; of more, the model's pairs take longer than the draw
_RECORDS_A_CELL = 8  # of a clique that drawn records are held to as a whole
_MOST_VISITS = 10**9  # of values and of the other columns' tables in all sweeps: about 20 seconds


@dataclass(frozen=True, slots=True, eq=False)
class GraphicalModel(FittedTables):
    """The tables of a junction tree's cliques, in the order of the tree.

    Attributes:
        evened: Largest number of times every drawn record is visited, so that all pairs of columns
            have the model's tables without the deviations of a draw.
    """

    evened: int = 0

    @property
    def tree(self) -> JunctionTree:
        """How the tables hang together."""
        return JunctionTree.ordered(self.domain, [table.clique for table in self.tables])

    @property
    def streams(self) -> bool:
        return True

    def project(self, clique: Clique) -> NDArray[np.float64]:
        return Answers(self.tree, self.tables).table(clique)

    def series(self, number: int) -> Sequence[GraphicalSeries]:
        """Return chains of pieces of a large set."""
        tables = self.held_to(piece_rows(self.domain))
        return [GraphicalSeries(self, tables) for _ in range(number)]

    def sample(self, rows: int, *, rng: np.random.Generator) -> Dataset:
        return self.drawn(rows, self.held_to(rows), sweeps=self.evened, rng=rng)

    def drawn(
        self, rows: int, tables: Sequence[Table], *, sweeps: int, rng: np.random.Generator
    ) -> Dataset:
        """Return records of the model, brought to some tables.

        Args:
            rows: Number of records.
            tables: To which single values are changed until no change brings records nearer.
            sweeps: Largest number of times every record is visited for that.
            rng: Its state decides the records.
        """
        from dp_core.methods.reconstruction.kernels.descent import Gaps, descend

        data = records(self.domain, self.tables, rows, rng=rng)
        if rows and tables:
            descend(
                data,
                Gaps.of(data, tables),
                sweeps=sweeps,
                most_visits=_MOST_VISITS // len(self.domain),
                rng=rng,
            )
        return self.zeros.repair(data, rng=rng)

    def held_to(self, rows: int) -> tuple[Table, ...]:
        """Return the model's tables of all columns and pairs, and of cliques with few cells.

        Args:
            rows: Of the set; none are returned if its records are not brought to any.
        """
        if not rows or not self.evened or len(self.domain) > _MOST_EVENED:
            return ()
        answers = Answers(self.tree, self.tables)
        wanted: list[Clique] = [(name,) for name in self.domain.columns]
        wanted += unmeasured(self.domain, ())
        # Larger cliques say more than their pairs, where they have records enough to say it.
        most = rows // _RECORDS_A_CELL
        wanted += [c for c in self.tree.cliques if len(c) > 2 and self.domain.size(c) <= most]
        tables = []
        for clique in wanted:
            with suppress(KeyError):  # too many cells are needed on the way
                tables.append(Table(self.domain.project(clique), answers.table(clique)))
        return tuple(tables)


class GraphicalSeries:
    """Pieces of a large set, each moved towards the records that the set still lacks.

    Every record is visited once: what that leaves, the next piece makes good.
    """

    def __init__(self, model: GraphicalModel, tables: Sequence[Table]) -> None:
        """Begin a chain.

        Args:
            model: Draws the records.
            tables: To which they are brought, of the whole set.
        """
        self._model = model
        self._owed = Owed(model.domain, tables)

    def sample(self, rows: int, *, rng: np.random.Generator) -> Dataset:
        """Return the next records."""
        piece = self._model.drawn(rows, self._owed.of(rows), sweeps=1, rng=rng)
        self._owed.add(piece)
        return piece


@dataclass(frozen=True, slots=True, kw_only=True)
class Pgm:
    """Fit a graphical model to noisy tables.

    Attributes:
        max_cells: Most cells of the junction tree's cliques together. Tables for which there is no
            room are refused, or, where they were measured already, used for what their columns say.
        shrink: Whether noisy cells are drawn towards what smaller tables say of them beforehand, as
            much as the noise warrants; otherwise the model's own penalty does so.
        together: With `shrink`, whether pairs of columns also inform each other.
        smoothing: Without `shrink`, how strongly; near 0 is the least-squares fit of the paper,
            which takes more sweeps.
        sweeps: Largest number of walks along the tree.
        evened: Largest number of times every drawn record is visited in the end, so that all pairs
            of columns have the model's tables without the deviations of a draw; once, where a large
            set is drawn in pieces that make good what those before them missed.
        tolerance: A sweep that moves a smaller part of all records ends the work.
        engine: `native`, or `mbi`, the authors' package, which compiles anew for every structure;
            it fits the noisy tables as they are, in 40 rounds of its own for each sweep.
    """

    takes: ClassVar[frozenset[ReleasedKind]] = TABLES_AND_INTERACTIONS
    for_inference: ClassVar[Mapping[str, object]] = {
        "shrink": False,
        "smoothing": 0.1,
        "evened": 0,
    }

    max_cells: int = 2**21
    shrink: bool = True
    together: bool = True
    smoothing: float = 0.3
    sweeps: int = 50
    evened: int = 3
    tolerance: float = 1e-4
    engine: Literal["native", "mbi"] = "native"

    def __post_init__(self) -> None:
        check_ranges(
            self,
            max_cells=(1, None),
            smoothing=(0, None),
            sweeps=(1, None),
            evened=(0, None),
            tolerance=(0, None),
        )

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
        # Of a cell: its number in each table that its clique holds, tables, their working copies.
        rows = min(rows, piece_rows(domain))
        return (4 * len(domain) + 40) * rows + (4 * len(cliques) + 60) * cells + (64 << 20)

    def fit(
        self,
        domain: Domain,
        released: Sequence[Released],
        *,
        rows: int | None,
        zeros: StructuralZeros,
        rng: np.random.Generator,  # noqa: ARG002
    ) -> GraphicalModel:
        self.check(domain)
        measurements = tables_of(released)
        known = zeros.with_empty_levels(domain, most_cells=MOST_CELLS)
        wanted, total = targets(
            domain,
            measurements,
            rows=rows,
            zeros=known,
            shrink=self.shrink,
            smoothing=self.smoothing,
            interactions=interactions_of(released),
            together=self.together,
        )
        cliques = [target.domain.columns for target in wanted]
        held = self._held(domain, cliques)
        tree = JunctionTree.of(domain, within_rules(domain, held, zeros, most_cells=self.max_cells))
        if self.engine == "mbi":
            from dp_core.methods.reconstruction.graphical.mbi_engine import mbi_tables

            for_mbi = [*measurements, *_as_tables(wanted, released)]

            tables = mbi_tables(
                tree,
                [each for each in for_mbi if tree.holder(each.clique) is not None],
                total=total,
                zeros=known,
                rounds=_MBI_ROUNDS * self.sweeps,
            )
        else:
            placed = [each for each in wanted if tree.holder(each.domain.columns) is not None]
            tables = fit_tree(
                tree,
                placed,
                total=float(total),
                zeros=known,
                sweeps=self.sweeps,
                tolerance=self.tolerance,
            ).tables
        return GraphicalModel(domain, tables, total, zeros, self.evened)

    def restore(
        self,
        domain: Domain,
        tables: Sequence[Table],
        *,
        rows: int,
        zeros: StructuralZeros,
        released: Sequence[Released] = (),  # noqa: ARG002
    ) -> GraphicalModel:
        return GraphicalModel(domain, tuple(tables), rows, zeros, self.evened)

    def _held(self, domain: Domain, cliques: Sequence[Clique]) -> Sequence[Clique]:
        if JunctionTree.of(domain, cliques).cells <= self.max_cells:
            return cliques
        held = within(domain, cliques, most_cells=self.max_cells)
        # They are paid for, so a model without them is better than none.
        _LOG.warning(
            "%d of %d tables have no room in the graphical model (max_cells: %d).",
            len(cliques) - len(held),
            len(cliques),
            self.max_cells,
        )
        return held


def _as_tables(wanted: Sequence[Target], released: Sequence[Released]) -> list[Measurement]:
    """Return what interactions are once they are drawn in, for a package that knows tables only."""
    found = []
    for item in interactions_of(released):
        assert isinstance(item.of, Interaction)
        columns = set(item.of.clique)
        target = next(each for each in wanted if set(each.domain.columns) == columns)
        values = np.rint(target.values).astype(np.int64)
        scale = item.of.cell_variance(item.variance) ** 0.5
        found.append(
            Measurement(
                target.domain,
                values,
                noise="gaussian",
                scale=scale,
                stage=item.stage,
                replicate=item.replicate,
                grant=item.grant,
            )
        )
    return found


def within_rules(
    domain: Domain, cliques: Sequence[Clique], zeros: StructuralZeros, *, most_cells: int
) -> list[Clique]:
    """Return cliques and, as far as there is room, the columns of rules of impossible cells."""
    rules = sorted((rule.columns for rule in zeros.rules), key=domain.size)
    return within(domain, [*cliques, *rules], most_cells=most_cells)


METHOD = Pgm
