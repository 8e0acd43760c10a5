"""The stage `discretize`: makes sure that the file's codes are in the confidential folder."""

from __future__ import annotations

from functools import partial

from tasks.run.confidential_run import ConfidentialRun
from tasks.stages.stage_task import stage


@stage("discretize")
def discretize(run: ConfidentialRun) -> None:
    """Keep the codes that validation wrote; write them if they are missing or incomplete.

    Raises:
        SchemaViolation: if the file does not fit the schema.
    """
    from dp_core.confidential.coding import left_by_validation, write_codes

    schema = run.schema.stored
    if not left_by_validation(schema, run.codes):
        # The codes were lost: validation wrote them.
        write_codes(run.opened, schema, run.codes, partial(run.progress, "discretize"))
