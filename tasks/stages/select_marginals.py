"""Which tables to measure: chosen privately, or known from the plan."""

from __future__ import annotations

from dp_core.spec.procedure import select
from tasks.run.confidential_run import ConfidentialRun
from tasks.stages.measure_marginals import basics, write_selections
from tasks.stages.stage_task import stage


@stage("select")
def select_marginals(run: ConfidentialRun) -> None:
    """Choose the tables to measure, under the selection's own share; measure them if in rounds."""
    known = () if run.spec.selector.planned(run.spec.schema.domain) else basics(run)
    write_selections(run, select(run.plan, run.curator, known))
