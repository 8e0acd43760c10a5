"""Which tables to measure: chosen privately, or known from the plan."""

from __future__ import annotations

from tasks.measure_marginals import basics, write_selection
from tasks.run import Run
from tasks.stage import stage


@stage("select")
def select_marginals(run: Run) -> None:
    """Choose the tables to measure, under the selection's own share."""
    domain = run.spec.schema.domain
    selection = run.spec.selector.planned(domain)
    if selection is None:
        known = [found for found in basics(run) if found.replicate <= 1]
        selection = run.spec.selector.select(
            run.curator,
            known,
            domain=domain,
            cost=run.plan.costs["select"],
            measure_cost=run.plan.costs["measure"] / run.plan.replicates,
        )
    write_selection(run, selection)
