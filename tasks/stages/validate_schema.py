"""The file against the schema; leaves its codes in the confidential folder."""

from __future__ import annotations

from functools import partial

from tasks.run.confidential_run import ConfidentialRun
from tasks.stages.stage_task import stage


@stage("validate")
def validate_schema(run: ConfidentialRun) -> None:
    """Check every value of the file against the schema."""
    from tasks.validation.expectations import validate

    progress = partial(run.progress, "validate")
    # Every value is read here anyway: its code is kept, so that the file is read once.
    validate(run.source, run.schema.stored, run.folder.internal, progress, run.codes)
