"""The stages `validate` and `discretize`: the file is checked and coded."""

from __future__ import annotations

from functools import partial

from dp_core.errors import StageFailed
from tasks.run.confidential_run import ConfidentialRun
from tasks.stages.stage_task import stage


@stage("validate")
def validate_schema(run: ConfidentialRun) -> None:
    """Check every value of the file against the schema.

    Raises:
        BadInput: if two levels are one number or time, or if the library cannot judge a team's own
            expectation; the data are not opened.
        SchemaViolation: if a value does not fit, or rows break a rule between columns.
    """
    from dp_core.confidential.linked.linked_source import LinkedSource
    from dp_core.kernel.coding.raw_values import Reader
    from tasks.validation.expectations import try_expectations, validate, validate_linked

    # Before `run.source`, which begins an attempt.
    for column in run.rules.columns:
        Reader(column)
    try_expectations(run.schema.stored)
    progress = partial(run.progress, "validate")
    if isinstance(run.opened, LinkedSource):
        validate_linked(run.opened, run.schema, run.folder.internal, progress, run.codes, run.rules)
        return
    # Write the codes too, so that the file is read only once.
    schema, source = run.schema.stored, run.source
    validate(source, schema, run.folder.internal, progress, run.codes, run.rules)


@stage("discretize")
def discretize(run: ConfidentialRun) -> None:
    """Weigh the units of the codes that validation wrote; write them again if they are unusable.

    Raises:
        SchemaViolation: if the file does not fit the schema.
        StageFailed: if a unit has another weight in the codes than the document states.
    """
    try:
        _ = run.stored_rows
    except StageFailed:
        from dp_core.confidential.coding import write_codes

        # The codes that validation wrote were lost, or a fault of the machine is in them.
        write_codes(run.opened, run.rules, run.codes, partial(run.progress, "discretize"))
        _ = run.stored_rows
