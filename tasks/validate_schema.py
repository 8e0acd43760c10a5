"""The file against the schema; leaves nothing outside the internal folder."""

from __future__ import annotations

from functools import partial

from tasks.run import Run
from tasks.stage import stage


@stage("validate")
def validate_schema(run: Run) -> None:
    """Check every value of the file against the schema."""
    from tasks.expectations import validate

    progress = partial(run.progress, "validate")
    validate(run.source, run.schema.stored, run.folder.internal, progress)
