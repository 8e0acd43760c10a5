"""The stage `analyses`: the noisy sums of the declared analyses."""

from __future__ import annotations

import json
from pathlib import Path

from dp_core.documents.canonical import canonical_json
from dp_core.errors import StageFailed
from dp_core.methods.declared.declared_questions import PARTS
from dp_core.spec.steps import declared_measurement
from dp_core.wall.released import Released
from dp_core.wall.stage_grant import StageGrant
from dp_core.wall.statistics import Sum, sum_from_json
from tasks.run.confidential_run import ConfidentialRun
from tasks.run.release_run import Run
from tasks.stages.measure_marginals import MARGINALS, read_selections
from tasks.stages.reconstruct import read_released, require_own_dependences
from tasks.stages.stage_task import granted_stage
from tasks.support.run_folder import write_atomically

STAGE = "analyses"


@granted_stage(STAGE)
def measure_analyses(run: ConfidentialRun, grant: StageGrant) -> None:
    """Measure the declared analyses, and add their sums to the file of all noisy results."""
    from dp_core.bundle.files.marginals_file import write_marginals

    before = [item for item in read_released(run) if not _is_of_analysis(item)]
    selections = read_selections(run)
    require_own_dependences(run, selections)
    # Where the number of rows is confidential, a file of the run's folder cannot make it public.
    rows, public = run.fact("basics", "rows"), run.spec.privacy.relation.rows_public
    found = declared_measurement.measure_analyses(
        run.plan,
        run.stored_curator(grant),
        before,
        selections,
        rows=rows if public and isinstance(rows, int) else None,
        settle=lambda name, question: _settled(
            run.folder.public / STAGE / f"{name}.json", question
        ),
    )
    write_marginals(run.folder.public / MARGINALS, [*before, *found], run.spec.schema)


def read_analyses(run: Run) -> None:
    """Raise unless the sums of all declared analyses can be read."""
    found = [item for item in read_released(run) if _is_of_analysis(item)]
    if len(found) != len(PARTS) * len(run.spec.analyses):
        raise StageFailed("The sums of a declared analysis are missing.")


def _is_of_analysis(item: Released) -> bool:
    return getattr(item, "stage", "") == STAGE


def _settled(path: Path, question: Sum) -> Sum:
    """Return the question that was stored when it was first asked; store this one if there is none.

    A question is computed from noisy results in floating point, which another machine may round
    differently. A run that resumes must ask exactly the question that was charged.
    """
    try:
        return sum_from_json(json.loads(path.read_bytes()))
    except (OSError, ValueError, LookupError, TypeError):
        path.parent.mkdir(mode=0o700, exist_ok=True)
        write_atomically(path, canonical_json(question.to_json()))
        return question
