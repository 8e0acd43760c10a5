"""The stages `validate` and `discretize`: the file is checked and coded."""

from __future__ import annotations

from tasks.confidential.public_run import PublicRun
from tasks.stages.stage_task import stage


@stage("validate")
def validate_schema(run: PublicRun) -> None:
    """Check every value of the file against the schema."""
    run.confidential.work(run, "validate")


@stage("discretize")
def discretize(run: PublicRun) -> None:
    """Keep the codes that validation wrote; write them if they are missing or incomplete."""
    run.confidential.work(run, "discretize")
