"""The forecast of how long each stage of a release takes on a machine."""

from __future__ import annotations

from collections.abc import Mapping

from dp_core.spec.duration.machine_speed import Machine
from dp_core.spec.duration.stage_work import Work, stage_work
from dp_core.spec.plan import Plan


def forecast(plan: Plan, machine: Machine) -> Mapping[str, float] | None:
    """Return the expected seconds of each stage, in the order of the stages.

    The forecast is for a machine that does nothing else. `start` is the start-up time of the
    program and of Prefect. It uses only the plan, so it is public: the number of rows is that of
    `rows_about`, and no earlier release counts.

    Args:
        plan: Plan of the release.
        machine: The machine.

    Returns:
        The seconds by name of the stage; None if the schema has no `rows_about`, without which the
        work is unknown.
    """
    if plan.spec.schema.rows_about is None:
        return None
    return {stage: seconds(work, machine) for stage, work in stage_work(plan).items()}


def seconds(work: Work, machine: Machine) -> float:
    """Return the seconds that some work takes on a machine."""
    return work.interpreted * machine.interpreter + work.arrays * machine.arrays / min(
        work.lanes, machine.processors
    )
