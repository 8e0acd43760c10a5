"""Exact counts of what is certain to be asked for; they stay in this process."""

from __future__ import annotations

from functools import partial

from tasks.run.confidential_run import ConfidentialRun
from tasks.stages.measure_marginals import certain_cliques
from tasks.stages.stage_task import stage


@stage("count")
def count_marginals(run: ConfidentialRun) -> None:
    """Count in one pass what will be asked for whatever the selection finds.

    After a crash it is counted again, which costs nothing.
    """
    run.counter.count(certain_cliques(run), partial(run.progress, "count"))
