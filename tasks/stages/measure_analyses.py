"""The stage `analyses`: the noisy sums of the declared analyses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dp_core.client.released import Records, Released
from dp_core.errors import StageFailed
from dp_core.kernel.questions.statistic import Sum
from dp_core.kernel.questions.vetted import sum_from_json
from dp_core.methods.declared.declared_questions import PARTS
from dp_core.plan.steps import posterior_draws
from dp_core.plan.steps.statistics_measurement import statistic_answers
from dp_core.policies.stage_grant import StageGrant
from tasks.confidential.public_run import PublicRun
from tasks.run.public_files import MARGINALS, read_released
from tasks.run.release_run import Run
from tasks.stages.measure_marginals import read_selections
from tasks.stages.reconstruct import require_own_dependences
from tasks.stages.stage_task import granted_stage

if TYPE_CHECKING:
    from dp_core.bundle.files.marginals_file import Measured
    from dp_core.bundle.verification.claims import Charge

STAGE = "analyses"


@granted_stage(STAGE)
def measure_analyses(run: PublicRun, grant: StageGrant) -> None:
    """Measure the declared analyses, and add their sums to the file of all noisy results."""
    from dp_core.bundle.files.marginals_file import write_marginals

    before = [
        item
        for item in read_released(run)
        if not (isinstance(item, Records) or _is_of_analysis(item))
    ]
    _require_committed(run, before)
    selections = read_selections(run)
    require_own_dependences(run, selections)
    # Where the number of rows is confidential, a file of the run's folder cannot make it public.
    rows, public = run.fact("basics", "rows"), run.spec.privacy.relation.rows_public
    charged = _charged_questions(run)
    found = posterior_draws.measure_analyses(
        run.plan,
        run.curator(grant, "stored"),
        before,
        selections,
        rows=rows if public and isinstance(rows, int) else None,
        # A question follows from noisy results by floating-point arithmetic, which another machine
        # may round otherwise. What was charged must stay what is asked.
        settle=lambda name, question: charged.get(name, question),
    )
    write_marginals(run.folder.public / MARGINALS, [*before, *found], run.spec.schema)


def read_analyses(run: Run) -> None:
    """Raise unless the sums of all declared analyses can be read."""
    found = [item for item in read_released(run) if _is_of_analysis(item)]
    if len(found) != len(PARTS) * len(run.spec.analyses) + statistic_answers(run.spec):
        raise StageFailed("The sums of a declared analysis are missing.")


def _is_of_analysis(item: Released) -> bool:
    return getattr(item, "stage", "") == STAGE


def _charged_questions(run: Run) -> dict[str, Sum]:
    """Return the questions that an earlier attempt of the stage charged, by step."""
    charges = _own_charges(run)
    return {each.step: sum_from_json(each.asks) for each in charges if each.stage == STAGE}


def _require_committed(run: Run, measured: Sequence[Measured]) -> None:
    """Refuse noisy tables that are not those that the ledger committed.

    Privacy:
        The questions follow from these tables and are published. So nobody can put other numbers
        into them by writing into the run's folder.
    """
    from dp_core.bundle.verification.charges_check import not_as_paid
    from dp_core.bundle.verification.claims import committed_in

    charges = [each for each in _own_charges(run) if each.stage != STAGE]
    committed = committed_in(run.ledger.receipts(run.reservation))
    shares = run.spec.privacy.relation.shares
    if not_as_paid(measured, charges, committed, run.spec.sets, shares):
        raise StageFailed(
            f"{run.folder.public / MARGINALS} of release {run.spec.release!r} is not what the"
            " ledger committed. Delete the file, then resume: the stage `measure` writes it again.",
            row="result-of-stage-gone",
        )


def _own_charges(run: Run) -> list[Charge]:
    from dp_core.bundle.verification.claims import read_charge

    receipts = run.ledger.receipts(run.reservation)
    return [read_charge(row) for row in receipts if row.kind == "charge"]
