"""The file as codes; leaves nothing outside the confidential folder."""

from __future__ import annotations

from functools import partial

from tasks.run import Run
from tasks.stage import stage


@stage("discretize")
def discretize(run: Run) -> None:
    """Write the file as codes into the run's confidential folder."""
    from tasks.coding import left_by_validation, write_codes

    progress = partial(run.progress, "discretize")
    if left_by_validation(run.schema.stored, run.codes):
        return
    # Something between columns stops the release, which this says, or the codes were lost.
    write_codes(run.source, run.schema.stored, run.codes, progress)
