"""How accurate the finished sets are, asked of the data against a charge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dp_core.schema.grid import Coarsening
from dp_core.spec.quality_checks import reference_counts
from dp_core.wall.coarse_counter import CoarseCounter
from dp_core.wall.quality_figures import Charged
from dp_core.wall.statistics import TableChecks
from tasks.run.release_run import Run

if TYPE_CHECKING:
    from dp_core.metrics.marginal_error import Tally


def ask_checks(run: Run, tallies: Sequence[Tally], records: int) -> tuple[Charged, ...]:
    """Return the charged figures of a release; none where its plan has none.

    Args:
        run: Whose sets are finished.
        tallies: Counts of the sets, in the schema's own codes.
        records: Of the file: public, or as the noisy tables have it.

    Privacy:
        The reference counts are made from the synthetic sets and a public or noisy number; a file
        of the same plan, seed and noisy results has the same, so asked again after a crash the
        question is the same, and its answer is read back.
    """
    from dp_core.wall.curator import Curator

    tables, cost = run.spec.checks, run.plan.costs["checks"]
    if not tables or not cost:
        return ()
    curator = run.curator
    if run.schema.coarse is not None:
        # In the schema's bins, not in positions of a grid: each row is in one cell of a table.
        coarsening = Coarsening(run.schema)
        counter = CoarseCounter(run.counter, coarsening)
        curator = Curator(coarsening.domain, counter, run.session)
    references = reference_counts(tallies, tables, records)
    return curator.check("distances", TableChecks(tables, references), cost)
