"""GUM: changes records in small steps until they match the tables (PrivSyn, 2021, Section 5).

Every round visits every table and moves records from cells with too many to cells with too few.
There are two ways to move a record: overwrite it with a copy of a record of the new cell (which
keeps that record's relation to the other columns), or overwrite only the table's columns (which
keeps the moved record's other columns, and is the only way into an empty cell). A last step, not in
the paper, reduces the remaining error: it changes single values until no change reduces the summed
error over all tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, repeat
from typing import ClassVar

import numpy as np

from dp_core.client.released import Released, ReleasedKind, Table, tables_of
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.methods.method_inputs import FitInputs
from dp_core.methods.option_ranges import NO_OPTION
from dp_core.methods.reconstruction.estimates.consistency import column_tables, consistent
from dp_core.methods.reconstruction.estimates.implied_pairs import (
    counted,
    implied_tables,
    unmeasured,
)
from dp_core.methods.reconstruction.estimates.raking import MOST_CELLS, possible_joint
from dp_core.methods.reconstruction.joint.joint_model import DenseModel, model_of_whole_counts
from dp_core.methods.reconstruction.reconstructor import (
    TABLES_AND_INTERACTIONS,
    FittedTables,
    Reconstructor,
    piece_rows,
)
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

COPIES = 0.1
"""Part of the records moved into a cell that become copies of a record in it. More copies repeat
records, and without copies a moved record keeps values that do not go with its new ones."""
_STEP = 1.0  # part of a cell's error that the first round corrects
_DECAY = 0.9  # factor of the step after each round; with a constant step records never settle
_TOLERANCE = 0.0005  # rounds end when three in a row reduce the summed error by less than this part
_CONSISTENCY_ROUNDS = 5  # without `shrink`: how often agreement and nonnegativity alternate
_ROUNDS_BEFORE_RULES = 4  # enough for records to match the tables approximately
_JOINED_CELLS = 1 << 17  # rules that share columns get one table up to this number of cells
_RULE_ROUNDS = 50  # of raking; whole records cannot match a table more closely
_MOST_VISITS = 10**8  # visits of values in all sweeps, at 8 tables each: about 20 seconds
_ROUNDS_OF_A_PIECE = 6
_ROUNDS_AFTER_RULES = 2  # in early pieces
_LAST_PIECES = 2  # of a lane; the very last piece of a set may have too few records to correct much
# Parts of the drawing after each of its steps, for the progress.
_BEFORE_RULES, _MOVED, _IMPLIED = 0.05, 0.35, 0.6
_PRODUCT_SHARE = 0.01  # weight of the product of one-way tables in a rule's table before raking


@dataclass(frozen=True, slots=True, eq=False)
class GumModel(ReportingSampler, FittedTables):
    """Consistent tables; the records that the model draws match them.

    `tables` holds the one-way tables of all columns in the domain's order, then the larger tables.

    Attributes:
        options: The method with its options.
    """

    options: Gum

    def series(self, number: int, pieces: int | None = None) -> Sequence[CorrectedPieces]:
        """Return `number` samplers for pieces of a large set.

        A piece gets fewer rounds than a whole set and keeps a slightly larger error, which the next
        piece corrects. So early pieces get one sweep only, and few rounds after those that the
        rules need. Pairs that no table contains are not adjusted: in a large set their sampling
        noise is small.
        """
        options = self.options
        last = replace(options, rounds=min(options.rounds, _ROUNDS_OF_A_PIECE), implied=False)
        rules = rule_cliques(self.domain, self.tables, self.zeros)
        first = replace(
            last,
            rounds=min(last.rounds, _ROUNDS_AFTER_RULES) if rules else last.rounds,
            sweeps=min(last.sweeps, 1),
        )
        late, early = (partial(self._records, options=each) for each in (last, first))
        # A sampler draws every `number`-th piece. Errors of all but its last ones are corrected.
        own = [0 if pieces is None else len(range(at, pieces, number)) for at in range(number)]
        return [
            CorrectedPieces(
                self.domain, self.tables, chain(repeat(early, each - _LAST_PIECES), repeat(late))
            )
            for each in own
        ]

    def _records(
        self,
        rows: int,
        tables: tuple[Table, ...],
        *,
        options: Gum,
        rng: np.random.Generator,
        progress: Progress,
    ) -> Dataset:
        """Return records drawn with other tables and options."""
        model = replace(self, tables=tables, options=options)
        return model.sample_reporting(rows, rng=rng, progress=progress)

    def sample_reporting(
        self, rows: int, *, rng: np.random.Generator, progress: Progress
    ) -> Dataset:
        from dp_core.methods.reconstruction.kernels.descent import Gaps, descend
        from dp_core.methods.reconstruction.kernels.record_moves import start

        data = Dataset(self.domain, start(self.tables[: len(self.domain)], rows, rng=rng))
        larger = self.tables[len(self.domain) :]
        apart = rule_cliques(self.domain, self.tables, self.zeros)
        if rows and apart:
            # Records that nearly match the tables estimate the joint table of a rule's columns that
            # the tables imply. Without its impossible cells it becomes one more table to match.
            before = step_of(progress, 0.0, _BEFORE_RULES)
            self._move(data, larger, _ROUNDS_BEFORE_RULES, rng=rng, progress=before)
            larger += rule_tables(data, apart, self.tables, self.zeros)
        moved = step_of(progress, _BEFORE_RULES, _MOVED)
        self._move(data, larger, self.options.rounds, rng=rng, progress=moved)
        if rows and self.options.implied and self.options.sweeps:
            held = [*(table.clique for table in larger), *self.zeros.cliques]
            pairs = unmeasured(self.domain, held)
            # The rounds leave records whose unmeasured pairs are far from what the tables imply.
            # Only the sweeps mend them; if these cannot end, the pairs would be kept as they are.
            most = _MOST_VISITS * 8 // max(8, 2 * (len(larger) + len(pairs)) // len(self.domain))
            if data.codes.size * self.options.sweeps <= most:
                implied = step_of(progress, _MOVED, _IMPLIED)
                columns = self.tables[: len(self.domain)]
                larger += implied_tables(data, pairs, columns, progress=implied)
        if larger and rows and self.options.sweeps:
            # Change single values until no change reduces the error.
            gaps = Gaps.of(data, (*self.tables[: len(self.domain)], *larger))
            last = step_of(progress, _IMPLIED, 1.0)
            descend(data, gaps, sweeps=self.options.sweeps, rng=rng, progress=last)
        return self.zeros.repair(data, rng=rng)

    def _move(
        self,
        data: Dataset,
        tables: Sequence[Table],
        rounds: int,
        *,
        rng: np.random.Generator,
        progress: Progress,
    ) -> None:
        """Change records, in place, so that their counts approach the tables."""
        from dp_core.methods.reconstruction.kernels.record_moves import Targets, update

        if tables and data.rows:
            update(
                data.codes,
                Targets.pack(self.domain, tables, data.rows, rng=rng),
                rounds=rounds,
                step=_STEP,
                decay=_DECAY,
                copies=COPIES,
                tolerance=_TOLERANCE,
                seed=int(rng.integers(1 << 63)),
                progress=progress,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Gum(Reconstructor):
    """Make the tables consistent, then change records until they match the tables.

    Large sets are drawn in pieces (`piece_rows`), and each piece corrects the errors of earlier
    ones. In pieces `rounds` is at most 6 and `implied` has no effect. In all but the last eight
    pieces of a set, `sweeps` is at most 1, and `rounds` at most 2 where structural zeros are over
    columns that no table contains, for which other rounds are made.

    Attributes:
        rounds: Largest number of times every table is visited.
        sweeps: Largest number of final visits of every record that change single values; 0 for
            none, as in the paper. They end after one that gains little.
        shrink: Whether to use the centre of the tables' posterior distribution; otherwise the noisy
            tables, with negative cells set to zero, as in the paper.
        implied: Whether the final visits also adjust pairs of columns that no table contains:
            their dependence in the records is shrunk as far as sampling noise explains it. It has
            no effect in files with so many values and pairs that the visits would not end, such as
            50,000 records of 75 columns, or 7,000 of 200.
    """

    rounds: int = 20
    sweeps: int = 3
    shrink: bool = True
    implied: bool = field(default=True, metadata=NO_OPTION)

    takes: ClassVar[frozenset[ReleasedKind]] = TABLES_AND_INTERACTIONS
    for_drawing: ClassVar[frozenset[str]] = frozenset({"rounds", "sweeps"})
    """Options of how records are drawn from given tables of all pairs."""

    def __post_init__(self) -> None:
        for name in ("rounds", "sweeps"):
            if not getattr(self, name) >= 0:  # written so that NaN is refused
                raise ValueError(f"{name} must be at least 0, not {getattr(self, name)}.")

    def memory(self, domain: Domain, cliques: Sequence[Clique], rows: int) -> int:
        cells = sum(domain.size(clique) for clique in cliques)
        # Records and their copy while values are changed; working arrays of a visit; tables; the
        # estimation of the largest one; a table of a rule's columns.
        rule = 72 * min(domain.size(), MOST_CELLS)
        rows, fit = min(rows, piece_rows(domain)), 250 * cells + working_memory(domain, cliques)
        return (2 * row_bytes(domain) + 24) * rows + fit + rule + (32 << 20)

    def model_of(self, inputs: FitInputs) -> GumModel | DenseModel:
        domain, zeros = inputs.domain, inputs.zeros
        if self.shrink:
            tables, total = measured_tables(inputs)
            return self.restore(domain, tables, rows=total, zeros=zeros)
        measurements = tables_of(inputs.released)
        known = zeros.with_empty_levels(domain, most_cells=MOST_CELLS)
        tables, total = consistent(
            domain, measurements, rows=inputs.rows, zeros=known, rounds=_CONSISTENCY_ROUNDS
        )
        columns, _ = column_tables(domain, measurements, rows=total, zeros=known)
        larger = tuple(table for table in tables if len(table.clique) > 1)
        return self.restore(domain, (*columns, *larger), rows=total, zeros=zeros)

    def restore(
        self,
        domain: Domain,
        tables: Sequence[Table],
        *,
        rows: int,
        zeros: StructuralZeros,
        released: Sequence[Released] = (),  # noqa: ARG002
    ) -> GumModel | DenseModel:
        whole = model_of_whole_counts(domain, tables, rows, zeros)
        return whole or GumModel(domain, tuple(tables), rows, zeros, self)


def rule_cliques(
    domain: Domain, tables: Sequence[Table], zeros: StructuralZeros
) -> tuple[Clique, ...]:
    """Return the cliques of rules that no fitted table contains; none is a subset of another.

    Rules that share columns are joined into one clique if it has few cells. A rule over more than
    `MOST_CELLS` cells is left out; drawn records that break it are repaired.
    """
    rules = [clique for clique in zeros.cliques if domain.size(clique) <= MOST_CELLS]
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
    """Return the records' tables for some cliques, raked to the fitted tables and to the rules.

    Args:
        data: Records that nearly match the tables, at least one.
        cliques: Columns of each result.
        tables: Fitted tables, including the one-way table of every column.
        zeros: Impossible cells; they are 0 in the results.
    """
    domain = data.domain
    found = []
    for clique in cliques:
        product = np.asarray(1.0)
        for name in clique:
            product = np.multiply.outer(product, counted(data, (name,)) / data.rows)
        seen = counted(data, clique)
        # Mix in the product of the columns, so that possible cells without records are not 0.
        mixed = (1 - _PRODUCT_SHARE) * seen / data.rows + _PRODUCT_SHARE * product
        table = possible_joint(domain, clique, tables, zeros, start=mixed, rounds=_RULE_ROUNDS)
        found.append(table)
    return tuple(found)


METHOD = Gum
