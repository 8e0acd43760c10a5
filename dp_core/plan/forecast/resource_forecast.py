"""The forecast of a release's time and memory, from public numbers of its plan only.

Each stage reads values, counts records in tables, fits cells, moves records, or checks and writes
sets. Each of these has a unit cost, measured by `benchmarks/time_forecast.py` on one processor of
one machine; `Machine` says how another compares. The costs of the first use of a library, such as
its import, belong to the stage that uses it first.

The bound of the memory is for the largest resident set of the process that makes the release,
without Prefect's server. Its unit costs were fitted to generated files by
`benchmarks/memory_forecast.py`; the bound is `SAFETY` times the fitted value. A file is read,
counted and drawn in pieces, so more rows than a piece has take no more memory, except for the
file's codes. These are mapped from disk, and the system can drop them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

from dp_core.accounts.requested import OCCASIONAL
from dp_core.kernel.counting.domain import Domain
from dp_core.methods.reconstruction.reconstructor import LANES as CHAINS
from dp_core.methods.reconstruction.reconstructor import piece_rows
from dp_core.methods.replicates.posterior.posterior_tables import drawn_pairs
from dp_core.metrics.marginal_error import (
    BATCH_CELLS,
    CELL_LIMIT,
    TRIPLES,
    small_cliques,
    within_limit,
)
from dp_core.plan.data_location import places_of
from dp_core.plan.forecast.stage_pace import Machine
from dp_core.plan.plan import Plan
from dp_core.plan.release_spec import name_of

LANES = 2
"""Processors that a stage with parallel work uses well; more gain little."""
PAIR_ROWS = 6
"""Pair rows of a household that are expected: a usual file has four to six, most of its households
having one or two members."""
MOST_CELLS = 1 << 20
"""Largest number of cells of a measured pair, for selections without `max_cells`."""
CHOSEN = 0.8
"""Part of the pairs that a selection is expected to choose."""
A_TABLE_A_COLUMN = frozenset({"mst", "privbayes", "aim", "mwem_pgm"})
"""Selections that choose about one table for each column instead."""


@dataclass(frozen=True, slots=True)
class ResourceForecast:
    """The expected time and memory of a release.

    Attributes:
        seconds: Expected seconds of each stage, in the order of the stages, on a machine that does
            nothing else; `start` is the start-up time of the program and of Prefect.
        memory_mb: Upper bound of its memory, in MB (a million bytes).
    """

    seconds: Mapping[str, float]
    memory_mb: float


def forecast_resources(plan: Plan, machine: Machine) -> ResourceForecast | None:
    """Return the expected time of each stage of a release, and a bound of its memory.

    The forecast uses only the plan, so it is public: the number of rows is that of `rows_about`,
    and no earlier release counts.

    Args:
        plan: Plan of the release.
        machine: The machine.

    Returns:
        None if the schema has no `rows_about`, without which the work is unknown.
    """
    if plan.spec.schema.rows_about is None:
        return None
    size = size_of(plan, machine.processors)
    return ResourceForecast(
        {stage: work.seconds(machine) for stage, work in stage_work(plan, size).items()},
        _memory_bound(plan, size),
    )


# -- the sizes of a release


@dataclass(frozen=True, slots=True)
class Size:
    """The sizes that the work and the memory of a release depend on. Public.

    Attributes:
        rows: Rows of the file, by `rows_about`; of linked tables `PAIR_ROWS` for each household.
        columns: Columns that are modelled.
        values: Values of the file.
        text: Whether the file is text, such as CSV, or a database table.
        pairs: Pairs of columns.
        cells: Cells of all pairs together, without pairs that are too large to be measured.
        tables: Noisy tables that the plan knows, or that the selection is expected to choose.
        noisy_cells: Cells of these tables.
        models: Fitted models.
        sets: Synthetic sets.
        drawn: Rows of a set, in the same way.
        fitted: Tables that a set is made to match.
        held: Values of the pieces that are held in memory at the same time.
        compared: Cells of the tables that `check` compares at a time.
        levels: Levels of all columns; of a column with a code list, all codes of the list.
    """

    rows: int
    columns: int
    values: int
    text: bool
    pairs: int
    cells: int
    tables: int
    noisy_cells: int
    models: int
    sets: int
    drawn: int
    fitted: int
    held: int
    compared: int
    levels: int

    @property
    def set_values(self) -> int:
        """Values of all sets."""
        return self.sets * self.drawn * self.columns

    @property
    def set_visits(self) -> int:
        """Records of all sets times the tables that each is made to match."""
        return self.sets * self.drawn * self.fitted


def size_of(plan: Plan, processors: int = 1) -> Size:
    """Return the sizes of a release.

    Args:
        plan: Plan of a release whose schema has `rows_about`.
        processors: Processors that the release may use; 1 by default.

    Raises:
        ValueError: if the schema has no `rows_about`.
    """
    spec, domain = plan.spec, plan.spec.schema.domain
    rows = spec.schema.rows_about
    if rows is None:
        raise ValueError("Without rows_about the work of a release is unknown.")
    each = PAIR_ROWS if spec.schema.linked else 1
    columns, rows, made = len(domain), each * rows, each * (spec.rows or rows)
    pairs = math.comb(columns, 2)
    most = getattr(spec.selector, "max_cells", MOST_CELLS)
    every = [one * two for one, two in itertools.combinations(domain.sizes, 2)]
    cells = sum(number for number in every if number <= most)
    known = [table for table in plan.tables if table.stage == "measure"]
    part = CHOSEN
    if name_of(spec.selector) in A_TABLE_A_COLUMN:
        part = min(1.0, columns / max(pairs, 1))
    chosen = len(known) or math.ceil(part * pairs)
    noisy_cells = sum(table.cells for table in known) or math.ceil(part * cells)
    # One more is drawn than there are processors, and the one before is still being written.
    # The households of a set are drawn at once.
    piece = max(rows, made) if domain.linked else piece_rows(domain)
    pieces = (min(processors + 1, CHAINS) + 1) * piece
    held = max(min(max(spec.sets, 1) * made, pieces), min(rows, piece))
    return Size(
        rows=rows,
        columns=columns,
        values=rows * columns,
        text=not _is_parquet(plan),
        pairs=pairs,
        cells=cells,
        tables=chosen * plan.replicates,
        noisy_cells=noisy_cells * plan.replicates,
        models=0 if not spec.sets else 1 if spec.mode == "shared" else spec.sets,
        sets=spec.sets,
        drawn=made,
        fitted=len(drawn_pairs(domain, ())) if spec.uses_posterior_tables else chosen,
        held=held * columns,
        compared=_largest_comparison(domain, [number for number in every if number <= CELL_LIMIT]),
        levels=sum(
            len(column.levels if column.codes is None else column.codes.codes)
            for column in spec.schema.columns
        ),
    )


# -- the time of each stage


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a stage, in seconds of one processor of the machine of the unit costs.

    Attributes:
        interpreted: Seconds of interpreted code, which one processor does.
        arrays: Seconds of array work.
        lanes: Most processors that share the array work; 1 by default.
    """

    interpreted: float
    arrays: float = 0.0
    lanes: int = 1

    def seconds(self, machine: Machine) -> float:
        """Return the seconds that the work takes on a machine."""
        lanes = min(self.lanes, machine.processors)
        return self.interpreted * machine.interpreter + self.arrays * machine.arrays / lanes


def stage_work(plan: Plan, size: Size) -> Mapping[str, Work]:
    """Return the work of each stage of a release, in the order of the stages."""
    spec = plan.spec
    found = {"start": Work(START)}
    if spec.measurements is None:
        found |= _measuring(plan, size)
    else:
        found["reuse"] = Work(0.2 + 0.0015 * size.tables)
    if spec.sets:
        found["reconstruct"] = _reconstruct(plan, size)
        found["synthesize"] = _synthesize(plan, size)
        # The scores compare every pair with the file, in each set.
        of_all = (0.001 + 0.0018 * size.sets) * size.pairs
        of_fitted = 0.0022 * size.fitted
        found["check"] = Work(0.3 + of_all + of_fitted, 0.02e-6 * size.set_values)
    found["publish"] = Work(0.3 + 0.0045 * size.fitted, 0.04e-6 * size.set_values)
    return found


START = 5.5
"""Seconds of the program's imports, of Prefect and its server, and of the ledger."""


def _measuring(plan: Plan, size: Size) -> Mapping[str, Work]:
    """Return the work of the stages that open the data, up to the noisy tables."""
    a_value = 0.06e-6 if size.text else 0.03e-6
    found = {
        "validate": Work(0.8 + 0.015 * size.columns, a_value * size.values, LANES),
        "discretize": Work(0.01),
        "domain": Work(0.05),
        "count": Work(0.5 + 0.0006 * size.pairs, 0.2e-9 * size.rows * size.pairs, LANES),
        "basics": Work(0.05),
        "select": _select(plan, size),
        "measure": Work(0.05 + 0.0015 * size.tables, 0.3e-6 * size.noisy_cells),
        "analyses": Work(0.5 * len(plan.spec.declared), 1e-6 * size.rows * len(plan.spec.declared)),
    }
    left_out = {*OCCASIONAL} - {*plan.costs}
    return {stage: work for stage, work in found.items() if stage not in left_out}


def _is_parquet(plan: Plan) -> bool:
    return all(
        isinstance(place, str) and place.casefold().endswith((".parquet", ".pq"))
        for place in places_of(plan.spec.data)
    )


def _select(plan: Plan, size: Size) -> Work:
    """Return the work of the selection, which some methods do in rounds that fit a model."""
    name = name_of(plan.spec.selector)
    if plan.fixed_selection() is not None:
        return Work(0.05)
    first = 0.3 + 0.0008 * size.pairs
    if name not in ROUNDS:
        return Work(first)
    # Each of many rounds fits a model of all columns, whose work grows with its cells.
    of_rounds = ROUNDS[name] * size.columns**3 * math.sqrt(size.cells / max(size.pairs, 1) / 25)
    return Work(first + of_rounds)


def _reconstruct(plan: Plan, size: Size) -> Work:
    """Return the work of fitting all models."""
    if plan.spec.uses_posterior_tables:
        # What is learnt from all pairs costs as much as the draws of seven sets.
        part = (7 + size.models) / 12
        return Work(0.1 + 0.0055 * part * size.fitted, 12e-6 * part * size.cells)
    cost = MODELS.get(name_of(plan.spec.reconstructor), GUM)
    return Work(
        cost.first + size.models * cost.fit * size.tables / plan.replicates,
        size.models * cost.cell * size.noisy_cells / plan.replicates,
    )


def _synthesize(plan: Plan, size: Size) -> Work:
    """Return the work of drawing, decoding and writing all sets."""
    cost = GUM
    if not plan.spec.uses_posterior_tables:
        cost = MODELS.get(name_of(plan.spec.reconstructor), GUM)
    by_cells = 2e-6 * size.sets * size.cells if cost.visit else 0.0
    arrays = cost.value * size.set_values + cost.visit * size.set_visits + by_cells
    if plan.spec.schema.linked:
        return Work(0.1, MEMBERS * arrays, min(LANES, size.sets))  # a set is drawn in one piece
    if cost is GUM:
        arrays *= _part_in_pieces(size.drawn, piece_rows(plan.spec.schema.domain))
    return Work(0.1, arrays, LANES)


def _part_in_pieces(rows: int, most: int) -> float:
    """Return the part of the work of a set drawn at once that the same set in pieces takes.

    Args:
        rows: Records of the set.
        most: Records of a piece.
    """
    if rows <= most:
        return 1.0
    early = max(0, rows - 2 * CHAINS * most)  # records that later pieces correct
    return (EARLY * early + PIECE * (rows - early)) / rows


@dataclass(frozen=True, slots=True)
class ModelCost:
    """Unit costs of a reconstruction method, in seconds.

    Attributes:
        first: Once, for imports and compilation.
        fit: For each noisy table of each model.
        cell: For each of their cells.
        value: For each value of a set: drawn, decoded and written.
        visit: For each record of a set and each table that it is made to match; 0 for a method
            that draws records directly.
    """

    first: float = 0.1
    fit: float = 0.003
    cell: float = 2e-6
    value: float = 0.58e-6
    visit: float = 0.105e-6


GUM = ModelCost()
PIECE, EARLY = 0.44, 0.22
"""Work of a record in a piece of a large set, and in an early piece; 1 in a small set.

From the drawing of 20 columns and 186 tables in pieces of 500,000 records.
"""
MEMBERS = 2.0
"""How many times longer the pair rows of a set take than as many records."""
MODELS: Mapping[str, ModelCost] = {
    "gum": GUM,
    "independent": ModelCost(value=0.4e-6, visit=0.0),
    "bayes_network": ModelCost(fit=0.001, value=0.15e-6, visit=0.0),
}
"""Costs of the methods that were measured; others are expected to cost as much as `gum`."""

ROUNDS: Mapping[str, float] = {"aim": 0.0023, "mwem_pgm": 0.0023}
"""Seconds of all rounds of a selection, for each triple of columns with five levels."""


# -- the memory

SAFETY = 1.25
"""Factor from the fitted value to the bound."""
BASE_MB = 415.0
"""Memory of the program and its libraries, once all stages have run."""
A_VALUE = 12.0
"""Bytes for each value of the pieces that are held at the same time."""
A_CODE = 1.0
"""Bytes for each value of the whole file, in codes."""
A_PAIR = 4_500.0
"""Bytes for each pair of columns: counted, scored, compared and published."""
A_CELL = 110.0
"""Bytes for each cell of the tables of pairs that records are made to match."""
A_COMPARED = 65.0
"""Bytes for each cell of the tables that the stage `check` compares at a time."""
A_LEVEL = 1_600.0
"""Bytes for each level or listed code of each column, in the schema and what is written of it."""


def _largest_comparison(domain: Domain, pairs: list[int]) -> int:
    """Return the largest number of cells compared at a time, from those of each pair's table."""
    triples, _ = within_limit(domain, small_cliques(domain, 3, most=TRIPLES))
    cells = [domain.size(clique) for clique in triples]
    return min(max(sum(pairs), sum(cells)), max(BATCH_CELLS, *cells, *pairs))


def _memory_bound(plan: Plan, size: Size) -> float:
    """Return a bound of the memory of a release of these sizes, in MB (a million bytes)."""
    # Larger tables than pairs, and sets that are not drawn in pieces, are in the plan's own number.
    drawn = max(A_VALUE * size.held + A_CELL * size.cells, plan.memory or 0)
    needed = drawn + A_CODE * size.values + A_PAIR * size.pairs + A_LEVEL * size.levels
    if plan.spec.sets:
        needed += A_COMPARED * size.compared
    return SAFETY * (BASE_MB + needed / 1e6)
