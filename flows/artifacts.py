"""What a release shows in Prefect: written here only, and from public values only.

Artifacts are for everybody who may open Prefect's pages. The one thing this writer takes is a plan
(made before any data is read) and the names of stages; it has no parameter for anything else.
"""

from __future__ import annotations

from uuid import UUID

from prefect import Task
from prefect.artifacts import (
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)

from dp_core.plan import Plan
from tasks.run import Run

StageTask = Task[[Run], None]


class ReleaseArtifacts:
    """The progress of one flow run, and the table of what it may spend."""

    def __init__(self, stages: tuple[str, ...]) -> None:
        """Show progress over these stages.

        Args:
            stages: Their names, in order.
        """
        self._stages = stages
        self._progress: UUID | None = None

    def perform(self, task: StageTask, run: Run) -> None:
        """Do a stage as a task of the flow, and show that it is done."""
        progress = self._progress = self._progress or self._begin(run.plan)
        task(run)
        if task.name in self._stages:
            done = 100.0 * (self._stages.index(task.name) + 1) / len(self._stages)
            update_progress_artifact(artifact_id=progress, progress=done)

    def _begin(self, plan: Plan) -> UUID:
        spec, privacy = plan.spec, plan.spec.privacy
        words = (
            f"Release {spec.release}: epsilon {float(privacy.epsilon):g}, delta"
            f" {float(privacy.delta):g}, {privacy.neighbours}, account {spec.account}."
        )
        rows = [
            {
                "stage": stage,
                "share": str(spec.shares[stage]),
                "budget": f"{float(cost):.6g}",
                "currency": plan.currency.kind,
            }
            for stage, cost in plan.costs.items()
            if cost
        ]
        create_table_artifact(key="privacy-budget", table=rows, description=words)
        made = create_progress_artifact(progress=0.0, key="release-progress", description=words)
        # Typed as perhaps a coroutine; a synchronous flow gets the identifier itself.
        assert isinstance(made, UUID)
        return made
