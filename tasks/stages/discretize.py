"""The file as codes; leaves nothing outside the confidential folder."""

from __future__ import annotations

from functools import partial

from tasks.run.confidential_run import ConfidentialRun
from tasks.stages.stage_task import stage


@stage("discretize")
def discretize(run: ConfidentialRun) -> None:
    """Make sure that the codes are there: validation's, or written now."""
    from tasks.inputs.coding import left_by_validation, write_codes

    progress = partial(run.progress, "discretize")
    if left_by_validation(run.schema.stored, run.codes):
        return
    # Something between columns stops the release, which this says, or the codes were lost.
    write_codes(run.source, run.schema.stored, run.codes, progress)
