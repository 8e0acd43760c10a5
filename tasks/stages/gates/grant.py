"""The ledger's task `grant`: lets one stage look at the data."""

from __future__ import annotations

from dp_core.wall.stage_grant import StageGrant
from tasks.run.release_run import Run
from tasks.stages.gates.gate_task import gate


@gate("grant", "grant {stage}")
def grant(run: Run, stage: str, *after: object) -> StageGrant:  # noqa: ARG001 (edges of the graph)
    """Check the lease, the reservation, the plan and what is left for a stage; see `StageGrant`."""
    given = run.writer.grant(run.reservation, run.planned.hash, stage)
    run.granted(given)
    return given
