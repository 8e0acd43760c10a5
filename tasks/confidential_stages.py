"""The stages before anything is measured: identify, validate, discretize, count.

They leave no result outside the confidential and internal folders; a marker says they are done.
"""

from __future__ import annotations

from functools import partial

from tasks.measure_marginals import certain_cliques
from tasks.run import Run
from tasks.stage import stage


@stage("identify")
def identify(run: Run) -> None:
    """Bind the reservation to the keyed hash of the input, or refuse another input.

    Privacy:
        The hash is keyed; it goes to the ledger's sealed table and nowhere else.
    """
    from dp_core.source import keyed_digest

    run.ledger.bind_input(run.reservation, keyed_digest(run.source, run.key), run.key)


@stage("validate")
def validate_schema(run: Run) -> None:
    """Check every value of the file against the schema."""
    from tasks.validate_schema import validate

    progress = partial(run.progress, "validate")
    validate(run.source, run.spec.schema, run.folder.internal, progress)


@stage("discretize")
def discretize(run: Run) -> None:
    """Write the file as codes into the run's confidential folder."""
    from tasks.discretize import discretize as write_codes

    progress = partial(run.progress, "discretize")
    write_codes(run.source, run.spec.schema, run.codes, progress)


@stage("count")
def count_marginals(run: Run) -> None:
    """Count in one pass what will be asked for whatever the selection finds.

    The counts stay in this process: after a crash they are counted again, which costs nothing.
    """
    run.counter.count(certain_cliques(run))
