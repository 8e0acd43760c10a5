"""A bound of the memory that a release takes, from public numbers of its plan only.

It bounds the largest resident set of the process that makes the release, without Prefect's server.
The unit costs were fitted to generated files by `benchmarks/memory_forecast.py`; the bound is
`SAFETY` times the fitted value. A file is read, counted and drawn in pieces, so more rows than a
piece has take no more memory, except for the file's codes. These are mapped from disk, and the
system can drop them.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from dp_core.methods.reconstruction.reconstructor import LANES, piece_rows
from dp_core.metrics.marginal_error import (
    BATCH_CELLS,
    CELL_LIMIT,
    TRIPLES,
    small_cliques,
    within_limit,
)
from dp_core.spec.duration.stage_work import size_of
from dp_core.spec.plan import Plan
from dp_core.tables.domain import Domain

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
EQUATIONS_MB = 400.0
"""Memory for the equations of noise-aware sets."""


@dataclass(frozen=True, slots=True)
class Held:
    """What a release holds in memory. Public.

    Attributes:
        values: Values of the pieces that are held at the same time.
        codes: Values of the whole file.
        pairs: Pairs of columns.
        cells: Cells of the tables of pairs that may be measured.
        compared: Cells of the tables that `check` compares at a time.
        levels: Levels of all columns; of a column with a code list, all codes of the list.
    """

    values: int
    codes: int
    pairs: int
    cells: int
    compared: int
    levels: int


def held_by(plan: Plan, processors: int) -> Held:
    """Return what a release holds in memory.

    Args:
        plan: Plan of a release whose schema has `rows_about`.
        processors: Processors that the release may use.

    Raises:
        ValueError: if the schema has no `rows_about`.
    """
    size, domain = size_of(plan), plan.spec.schema.domain
    # One more is drawn than there are processors, and the one before is still being written.
    # The households of a set are drawn at once.
    piece = max(size.rows, size.drawn) if domain.linked else piece_rows(domain)
    pieces = (min(processors + 1, LANES) + 1) * piece
    rows = max(min(max(size.sets, 1) * size.drawn, pieces), min(size.rows, piece))
    pairs = [one * two for one, two in itertools.combinations(domain.sizes, 2)]
    return Held(
        values=rows * size.columns,
        codes=size.values,
        pairs=size.pairs,
        cells=size.cells,
        compared=_compared(domain, [cells for cells in pairs if cells <= CELL_LIMIT]),
        levels=sum(
            len(column.levels if column.codes is None else column.codes.codes)
            for column in plan.spec.schema.columns
        ),
    )


def _compared(domain: Domain, pairs: list[int]) -> int:
    """Return the largest number of cells compared at a time, from those of each pair's table."""
    triples, _ = within_limit(domain, small_cliques(domain, 3, most=TRIPLES))
    cells = [domain.size(clique) for clique in triples]
    return min(max(sum(pairs), sum(cells)), max(BATCH_CELLS, *cells, *pairs))


def memory_bound(plan: Plan, processors: int) -> float | None:
    """Return a bound of the memory of a release, in MB (a million bytes).

    Args:
        plan: Plan of the release.
        processors: Processors that the release may use.

    Returns:
        The bound; None if the schema has no `rows_about`, without which it is unknown.
    """
    if plan.spec.schema.rows_about is None:
        return None
    held = held_by(plan, processors)
    # Larger tables than pairs, and sets that are not drawn in pieces, are in the plan's own number.
    drawn = max(A_VALUE * held.values + A_CELL * held.cells, plan.memory or 0)
    needed = drawn + A_CODE * held.codes + A_PAIR * held.pairs + A_LEVEL * held.levels
    if plan.spec.sets:
        needed += A_COMPARED * held.compared
    fitted = BASE_MB + needed / 1e6
    if plan.spec.mode == "noise-aware":
        fitted += EQUATIONS_MB
    return SAFETY * fitted
