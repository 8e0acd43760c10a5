"""The stage `domain`: chooses the private bins and levels; it is the first stage that pays."""

from __future__ import annotations

from collections.abc import Mapping

from dp_core.client.released import Totals
from dp_core.plan import procedure
from dp_core.policies.stage_grant import StageGrant
from tasks.confidential.public_run import PublicRun
from tasks.run.release_run import Run
from tasks.stages.stage_task import granted_stage

DOMAIN = "domain.parquet"


@granted_stage("domain")
def choose_domain(run: PublicRun, grant: StageGrant) -> Mapping[str, object]:
    """Measure noisy counts for the private bins and levels, and choose them.

    After a crash, committed results are read back: that costs nothing, and the choice is the same.
    """
    from dp_core.bundle.files.marginals_file import write_marginals
    from dp_core.plan.chosen_domain import choose

    released = procedure.choose_domain(run.planned, run.curator(grant, "stored"))
    schema = run.planned.spec.schema
    write_marginals(run.folder.public / DOMAIN, released, schema)
    choices = choose(schema, released)
    # The choices are public, because they depend on noisy counts only.
    return {"choices": [chosen.entry(name) for name, chosen in choices.items()]}


def read_domain(run: Run) -> tuple[Totals, ...]:
    """Return the noisy counts behind the chosen bins and levels; empty if all are public."""
    if not run.has("domain"):
        return ()
    from dp_core.bundle.files.marginals_file import read_marginals

    found = read_marginals(run.folder.public / DOMAIN)
    assert all(isinstance(item, Totals) for item in found)
    return tuple(item for item in found if isinstance(item, Totals))
