"""The stage `identify`: binds a release to its input, so that no other file can be measured."""

from __future__ import annotations

from tasks.confidential.public_run import PublicRun
from tasks.stages.stage_task import stage


@stage("identify")
def identify(run: PublicRun) -> None:
    """Bind the reservation to the keyed hash of the input, or refuse another input."""
    run.confidential.find(run)
    run.confidential.work(run, "identify")
