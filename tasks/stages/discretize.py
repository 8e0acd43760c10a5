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
    from dp_core.confidential.linked.linked_source import LinkedSource
    from tasks.inputs.coding import left_by_validation, write_codes
    from tasks.inputs.linked_coding import write_pair_codes

    progress = partial(run.progress, "discretize")
    if left_by_validation(run.schema.stored, run.codes):
        return
    # The codes were lost: validation wrote them.
    if isinstance(run.opened, LinkedSource):
        write_pair_codes(run.opened, run.schema, run.codes, progress)
    else:
        write_codes(run.source, run.schema.stored, run.codes, progress)
