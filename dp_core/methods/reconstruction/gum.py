"""GUM: records moved in small steps until they match the tables (PrivSyn, 2021, Section 5).

Every round visits every table. Records of cells that hold too many leave; cells that hold too few
receive them, either as a copy of a record that is there already (which keeps what that record says
about the other columns) or by rewriting the table's columns of the leaver (which keeps what the
leaver says about the others; the only way into an empty cell). What error that leaves is mended in
the end, which is ours: single values are changed until no change brings the records nearer to all
tables together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_core.methods.option_ranges import check_ranges
from dp_core.methods.reconstruction.estimates.consistency import column_tables, consistent
from dp_core.methods.reconstruction.estimates.implied_pairs import (
    counted,
    implied_tables,
    unmeasured,
)
from dp_core.methods.reconstruction.estimates.raking import MOST_CELLS, margin, possible_joint
from dp_core.methods.reconstruction.estimates.shrinkage import shrunk
from dp_core.methods.reconstruction.reconstructor import (
    TABLES_AND_INTERACTIONS,
    FittedTables,
    piece_rows,
)
from dp_core.methods.reconstruction.sampling.series import Owed
from dp_core.tables.dataset import Dataset
from dp_core.tables.domain import Clique, Domain
from dp_core.tables.structural_zeros import StructuralZeros
from dp_core.wall.released import Released, ReleasedKind, Table, interactions_of, tables_of

_ROUNDS_BEFORE_RULES = 4  # enough for records to have about the tables
_JOINED_CELLS = 1 << 17  # rules that share columns are reached together up to so many cells
_RULE_ROUNDS = 50  # of raking; records are whole and reach no table better than this
_MOST_VISITS = 10**8  # of values in all sweeps, of 8 tables each: about 20 seconds
_ROUNDS_OF_A_PIECE = 6
_PRODUCT_SHARE = 0.01  # of a rule's table, before it is raked: the product of its columns


@dataclass(frozen=True, slots=True, eq=False)
class GumModel(FittedTables):
    """Consistent tables, from which records are drawn that match them.

    The tables are one-way tables of all columns in their order, then the larger ones.

    Attributes:
        options: Options of the method.
        in_series: Whether what a piece of a set misses is made good by the next one.
    """

    options: Gum
    in_series: bool = False

    @property
    def streams(self) -> bool:
        return True

    def project(self, clique: Clique) -> NDArray[np.float64]:
        holders = [table for table in self.tables if set(clique) <= set(table.clique)]
        if not holders:
            raise KeyError(f"No table holds {list(clique)} together; sample and count instead.")
        return margin(min(holders, key=lambda holder: holder.values.size), clique)

    def series(self, number: int) -> Sequence[GumSeries]:
        """Return chains of pieces of a large set."""
        return [GumSeries(self) for _ in range(number)]

    def sample(self, rows: int, *, rng: np.random.Generator) -> Dataset:
        from dp_core.methods.reconstruction.kernels.record_moves import start

        data = Dataset(self.domain, start(self.tables[: len(self.domain)], rows, rng=rng))
        larger = self.tables[len(self.domain) :]
        apart = rule_cliques(self.domain, self.tables, self.zeros)
        if rows and apart:
            # What records say of a rule's columns when they nearly have the tables is what the
            # tables imply; without the impossible cells it is a table to reach like the others.
            self._move(data, larger, _ROUNDS_BEFORE_RULES, rng=rng)
            larger += rule_tables(data, apart, self.tables, self.zeros)
        self._move(data, larger, self.options.rounds, rng=rng)
        if rows and self.options.implied and self.options.sweeps:
            held = [*(table.clique for table in larger), *(r.columns for r in self.zeros.rules)]
            pairs = unmeasured(self.domain, held)
            larger += implied_tables(data, pairs, self.tables[: len(self.domain)])
        self._mend(data, larger, rng=rng)
        return self.zeros.repair(data, rng=rng)

    def _mend(self, data: Dataset, tables: Sequence[Table], *, rng: np.random.Generator) -> None:
        """Change single values until no change helps, in place."""
        from dp_core.methods.reconstruction.kernels.descent import OF_A_PIECE, Effort, Gaps, descend

        if tables and data.rows and self.options.sweeps:
            most = _MOST_VISITS * 8 // max(8, 2 * len(tables) // len(self.domain))
            if self.in_series:
                # However many tables: what a record has too much of, no later piece takes away.
                most = max(most, data.codes.size)
            descend(
                data,
                Gaps.of(data, (*self.tables[: len(self.domain)], *tables)),
                sweeps=self.options.sweeps,
                most_visits=most,
                effort=OF_A_PIECE if self.in_series else Effort(),
                rng=rng,
            )

    def _move(
        self, data: Dataset, tables: Sequence[Table], rounds: int, *, rng: np.random.Generator
    ) -> None:
        """Move records towards tables, in place."""
        from dp_core.methods.reconstruction.kernels.record_moves import Targets, update

        if tables and data.rows:
            update(
                data.codes,
                Targets.pack(self.domain, tables, data.rows, rng=rng),
                rounds=rounds,
                step=self.options.step,
                decay=self.options.decay,
                copies=self.options.copies,
                tolerance=self.options.tolerance,
                seed=int(rng.integers(1 << 63)),
            )


class GumSeries:
    """Pieces of a large set, each moved towards the records that the set still lacks.

    A piece misses a few more records for being moved less, and the next one makes them good. Pairs
    that no table holds are left as they come: of many records there is little chance in them.
    """

    def __init__(self, model: GumModel) -> None:
        options = model.options
        self._model = replace(
            model,
            options=replace(
                options,
                rounds=min(options.rounds, _ROUNDS_OF_A_PIECE),
                implied=False,
            ),
            in_series=True,
        )
        self._owed = Owed(model.domain, model.tables)

    def sample(self, rows: int, *, rng: np.random.Generator) -> Dataset:
        """Return the next records."""
        piece = replace(self._model, tables=self._owed.of(rows)).sample(rows, rng=rng)
        self._owed.add(piece)
        return piece


@dataclass(frozen=True, slots=True, kw_only=True)
class Gum:
    """Make the tables consistent, then move records until they match.

    Large sets are drawn in pieces (`piece_rows`), each of which makes good what those before it
    missed. There `rounds` is at most 6, sweeps end as soon as few values change, and `implied` is
    left out.

    Attributes:
        rounds: Largest number of times every table is visited.
        step: Part of a cell's error that the first round mends, at most 1.
        decay: Factor of the step after every round.
        copies: Part of the received records that are copies of one already in the cell.
        sweeps: Largest number of times every record is visited in the end, to change single values;
            0: none, as in the paper.
        implied: Whether in the end pairs that no table holds are cleared of chance, too: what
            records say of them is drawn towards independence as far as chance explains it.
        tolerance: Stop when three rounds in a row lower the summed error by less than this part.
        shrink: Whether noisy cells are drawn towards what smaller tables say of them, as much as
            the noise warrants; otherwise negative ones are moved to zero, as in the paper.
        together: With `shrink`, whether pairs of columns also inform each other.
        consistency_rounds: Without `shrink`, how often agreement and nonnegativity alternate.
    """

    rounds: int = 20
    step: float = 1.0
    decay: float = 0.9
    copies: float = 0.1
    sweeps: int = 3
    implied: bool = True
    tolerance: float = 0.0005
    shrink: bool = True
    together: bool = True
    consistency_rounds: int = 5

    takes: ClassVar[frozenset[ReleasedKind]] = TABLES_AND_INTERACTIONS
    for_inference: ClassVar[Mapping[str, object]] = {"shrink": False, "implied": False}

    def __post_init__(self) -> None:
        check_ranges(
            self,
            rounds=(0, None),
            step=(0, 1),
            decay=(0, 1),
            copies=(0, 1),
            sweeps=(0, None),
            tolerance=(0, None),
            consistency_rounds=(1, None),
        )

    def check(self, domain: Domain) -> None:
        """Accept any domain; only the tables are held in memory, never their joint table."""

    def memory(self, domain: Domain, cliques: Sequence[Clique], rows: int) -> int:
        cells = sum(domain.size(clique) for clique in cliques)
        # Records and their copy while values are mended; working arrays of a visit; tables with the
        # mixture of the largest ones; a table of a rule's columns.
        rule = 72 * min(domain.size(), MOST_CELLS)
        rows = min(rows, piece_rows(domain))
        return (4 * len(domain) + 24) * rows + 250 * cells + rule + (32 << 20)

    def fit(
        self,
        domain: Domain,
        released: Sequence[Released],
        *,
        rows: int | None,
        zeros: StructuralZeros,
        rng: np.random.Generator,  # noqa: ARG002
    ) -> GumModel:
        measurements, interactions = tables_of(released), interactions_of(released)
        known = zeros.with_empty_levels(domain, most_cells=MOST_CELLS)
        if self.shrink or interactions:
            tables, total = shrunk(
                domain,
                measurements,
                rows=rows,
                zeros=known,
                interactions=interactions,
                together=self.together,
                believe=not self.shrink,
            )
            return GumModel(domain, tables, total, zeros, self)
        tables, total = consistent(
            domain, measurements, rows=rows, zeros=known, rounds=self.consistency_rounds
        )
        columns, _ = column_tables(domain, measurements, rows=total, zeros=known)
        larger = tuple(table for table in tables if len(table.clique) > 1)
        return GumModel(domain, (*columns, *larger), total, zeros, self)

    def restore(
        self,
        domain: Domain,
        tables: Sequence[Table],
        *,
        rows: int,
        zeros: StructuralZeros,
        released: Sequence[Released] = (),  # noqa: ARG002
    ) -> GumModel:
        return GumModel(domain, tuple(tables), rows, zeros, self)


def rule_cliques(
    domain: Domain, tables: Sequence[Table], zeros: StructuralZeros
) -> tuple[Clique, ...]:
    """Return the columns of rules that no fitted table holds together, none inside another.

    Rules that share columns come together where few cells hold both. A rule over more than
    `MOST_CELLS` cells is left out; it is kept by mending what is drawn.
    """
    rules = [rule.columns for rule in zeros.rules if domain.size(rule.columns) <= MOST_CELLS]
    held = [set(table.clique) for table in tables]
    apart = [columns for columns in rules if not any(set(columns) <= clique for clique in held)]
    found: list[Clique] = []
    joined = zeros.blocks(domain, most_cells=_JOINED_CELLS)
    for columns in (*joined, *sorted(apart, key=len, reverse=True)):
        new = any(set(rule) <= set(columns) for rule in apart)
        if new and not any(set(columns) <= set(clique) for clique in found):
            found.append(tuple(name for name in domain.columns if name in columns))
    return tuple(found)


def rule_tables(
    data: Dataset, cliques: Sequence[Clique], tables: Sequence[Table], zeros: StructuralZeros
) -> tuple[Table, ...]:
    """Return what records imply for some cliques, made to agree with the rules and the tables.

    Args:
        data: Records that nearly have the tables, at least one.
        cliques: Columns of each result.
        tables: Fitted tables, among them all one-way ones.
        zeros: Impossible cells; the results hold nothing there.
    """
    domain = data.domain
    found = []
    for clique in cliques:
        product = np.asarray(1.0)
        for name in clique:
            product = np.multiply.outer(product, counted(data, (name,)) / data.rows)
        seen = counted(data, clique)
        # A little of everything possible, so that what was not drawn may be.
        mixed = (1 - _PRODUCT_SHARE) * seen / data.rows + _PRODUCT_SHARE * product
        table = possible_joint(domain, clique, tables, zeros, start=mixed, rounds=_RULE_ROUNDS)
        found.append(table)
    return tuple(found)


METHOD = Gum
