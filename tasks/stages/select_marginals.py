"""The stage `select`: chooses the tables to measure, privately or from the plan."""

from __future__ import annotations

from dp_core.plan.procedure import select
from dp_core.wall.stage_grant import StageGrant
from tasks.run.confidential_run import ConfidentialRun
from tasks.stages.measure_marginals import basics, write_selections
from tasks.stages.stage_task import granted_stage


@granted_stage("select")
def select_marginals(run: ConfidentialRun, grant: StageGrant) -> None:
    """Choose the tables to measure with the selection's share of the budget.

    A selection that works in rounds also measures its tables here.
    """
    curator = run.curator(grant)
    known = () if run.plan.selected() is not None else basics(run, curator)
    write_selections(run, select(run.plan, curator, known))
