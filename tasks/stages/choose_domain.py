"""Bins and levels that the schema leaves to be chosen privately; the first stage that pays."""

from __future__ import annotations

from collections.abc import Mapping

from dp_core.spec import procedure
from dp_core.wall.released import Totals
from tasks.run.confidential_run import ConfidentialRun
from tasks.run.release_run import Run
from tasks.stages.stage_task import stage

DOMAIN = "domain.parquet"


@stage("domain")
def choose_domain(run: ConfidentialRun) -> Mapping[str, object]:
    """Measure what bins and levels are chosen by, and choose them.

    Committed results are read back; doing this again costs nothing and chooses the same.
    """
    from dp_core.bundle.files.marginals_file import write_marginals
    from dp_core.spec.chosen_domain import choose

    released = procedure.choose_domain(run.planned, run.domain_curator())
    schema = run.planned.spec.schema
    write_marginals(run.folder.public / DOMAIN, released, schema)
    choices = choose(schema, released)
    # Public: they follow from noisy counts alone.
    return {"choices": [chosen.entry(name) for name, chosen in choices.items()]}


def read_domain(run: Run) -> tuple[Totals, ...]:
    """Return what bins and levels were chosen by; nothing where all are public."""
    if not run.has("domain"):
        return ()
    from dp_core.bundle.files.marginals_file import read_marginals

    found = read_marginals(run.folder.public / DOMAIN)
    assert all(isinstance(item, Totals) for item in found)
    return tuple(item for item in found if isinstance(item, Totals))
