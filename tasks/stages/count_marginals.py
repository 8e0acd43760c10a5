"""The stage `count`: counts the tables that are certain to be needed; counts stay in memory."""

from __future__ import annotations

from functools import partial

from dp_core.tables.linked_columns import with_members
from dp_core.wall.stage_grant import StageGrant
from tasks.run.confidential_run import ConfidentialRun
from tasks.stages.measure_marginals import certain_cliques
from tasks.stages.stage_task import granted_stage


@granted_stage("count")
def count_marginals(run: ConfidentialRun, _grant: StageGrant) -> None:
    """Count, in one pass, the tables that are needed whatever the selection chooses.

    After a crash they are counted again, which costs no privacy.
    """
    cliques = certain_cliques(run)
    if run.schema.linked is not None:
        # The weights of pair rows need the number of members (`HouseholdCounter`).
        cliques = tuple(dict.fromkeys(map(with_members, cliques)))
    run.row_counter.count(cliques, partial(run.progress, "count"))
