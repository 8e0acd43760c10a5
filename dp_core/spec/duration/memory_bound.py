"""A bound of the memory that a release takes, from public numbers of its plan only.

The largest resident set of the process that makes the release, without Prefect's own. The unit
costs were fitted to generated files by `benchmarks/memory_forecast.py`; the bound is `SAFETY` times
the fitted value. A file is read, counted and drawn in pieces, so more rows than a piece has take no
more memory, except for the codes of the file, which may be read from the disk again.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from dp_core.methods.reconstruction.reconstructor import piece_rows
from dp_core.metrics.marginal_error import (
    CELL_LIMIT,
    TRIPLES,
    small_cliques,
    within_limit,
)
from dp_core.spec.duration.stage_work import size_of
from dp_core.spec.plan import Plan
from dp_core.spec.procedure import LANES
from dp_core.tables.domain import Domain

SAFETY = 1.25
"""Factor from the fitted value to the bound."""
BASE_MB = 415.0
"""Memory of the program and its libraries, once all stages have run."""
A_VALUE = 12.0
"""Bytes for each value of the pieces that are drawn and decoded at the same time."""
A_CODE = 1.0
"""Bytes for each value of the whole file, in codes."""
A_PAIR = 4_500.0
"""Bytes for each pair of columns: counted, scored, compared and published."""
A_CELL = 110.0
"""Bytes for each cell of the tables of pairs that records are made to match."""
A_COMPARED = 65.0
"""Bytes for each cell of the tables that the stage `check` compares at a time."""
MOST_COMPARED = 4_000_000
"""Cells of the tables that are compared at a time; a larger table is compared by itself."""
EQUATIONS_MB = 400.0
"""Memory for the equations of noise-aware sets."""


@dataclass(frozen=True, slots=True)
class Held:
    """What a release holds in memory. Public.

    Attributes:
        values: Values of the pieces that are drawn at the same time.
        codes: Values of the whole file.
        pairs: Pairs of columns.
        cells: Cells of the tables of pairs that may be measured.
        compared: Cells of the tables that `check` compares at a time.
    """

    values: int
    codes: int
    pairs: int
    cells: int
    compared: int


def held_by(plan: Plan, processors: int) -> Held:
    """Return what a release holds in memory.

    Args:
        plan: Plan of a release whose schema has `rows_about`.
        processors: Processors that the release may use.

    Raises:
        ValueError: if it has none.
    """
    size, domain = size_of(plan), plan.spec.schema.domain
    pieces = (min(processors, LANES) + 1) * piece_rows(domain)
    rows = max(min(max(size.sets, 1) * size.drawn, pieces), min(size.rows, piece_rows(domain)))
    pairs = [one * two for one, two in itertools.combinations(domain.sizes, 2)]
    return Held(
        values=rows * size.columns,
        codes=size.values,
        pairs=size.pairs,
        cells=size.cells,
        compared=_compared(domain, sum(cells for cells in pairs if cells <= CELL_LIMIT)),
    )


def _compared(domain: Domain, pairs: int) -> int:
    """Return the cells of tables compared at a time, at most; `pairs` are those of all pairs."""
    triples, _ = within_limit(domain, small_cliques(domain, 3, most=TRIPLES))
    cells = [domain.size(clique) for clique in triples]
    return min(max(pairs, sum(cells)), max(MOST_COMPARED, *cells, 0))


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
    needed = A_VALUE * held.values + A_CODE * held.codes + A_PAIR * held.pairs
    needed += A_CELL * held.cells
    if plan.spec.sets:
        needed += A_COMPARED * held.compared
    if _name(plan.spec.reconstructor) not in ("auto", "gum"):
        needed += plan.memory or 0
    fitted = BASE_MB + needed / 1e6
    if plan.spec.mode == "noise-aware":
        fitted += EQUATIONS_MB
    return SAFETY * fitted


def _name(method: object) -> str:
    """Return the name of a method: that of its module."""
    return type(method).__module__.rpartition(".")[2]
