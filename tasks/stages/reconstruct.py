"""The stage `reconstruct`: fits models to the noisy tables, and reads nothing else."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dp_core.methods.selection.selector import Selection
from dp_core.plan import procedure
from dp_core.plan.procedure import fits, model_numbers, replicates
from dp_core.wall.released import Records, Released, Table
from tasks.run.committed_dependences import require_committed_dependences
from tasks.run.release_run import Run
from tasks.stages.measure_marginals import MARGINALS, SELECTION, read_selections
from tasks.stages.stage_task import stage
from tasks.support.run_folder import RunFolder, write_atomically

if TYPE_CHECKING:
    from dp_core.methods.reconstruction.reconstructor import Model

LEARNT = 7
"""What posterior models share takes as long as so many draws
(`dp_core.plan.forecast.resource_forecast`)."""


@stage("reconstruct")
def reconstruct(run: Run) -> Mapping[str, object]:
    """Fit one model for all sets, or one for each set, as the plan says."""
    rows = run.fact(run.measured_in("basics"), "rows")
    released = (*read_released(run), *_read_records(run))
    fitted = []
    numbers = model_numbers(run.plan)
    # Where the number of rows is confidential, a file of the run's folder cannot make it public.
    is_public = run.spec.privacy.relation.rows_public
    selections = read_selections(run)
    if run.spec.mode == "posterior":
        require_own_dependences(run, selections)
    # The first of several posterior models waits for what all of them share.
    learnt = LEARNT if run.spec.mode == "posterior" else 0
    public_rows = rows if is_public and isinstance(rows, int) else None
    for number, model in fits(run.plan, released, selections, rows=public_rows):
        _write_tables(model_file(run, number), model.tables)
        fitted.append({"number": number, "rows": model.rows})
        run.progress("reconstruct", (learnt + len(fitted)) / (learnt + len(numbers)))
    return {"models": fitted}


def require_own_dependences(run: Run, selections: Sequence[Selection]) -> None:
    """Refuse dependences that are not those that the release paid for, or the one it uses."""
    earlier = run.planned.spec.measurements
    reservation = run.ledger.reservation(earlier.release if earlier else run.spec.release)
    assert reservation is not None
    folder = RunFolder(run.home, reservation.release, reservation.link) if earlier else run.folder
    file = run.folder.public / SELECTION
    charges = run.ledger.charges(reservation)
    shares = run.spec.privacy.shares
    require_committed_dependences(
        selections, folder.noisy, reservation, charges, file, shares=shares
    )


def read_released(run: Run) -> tuple[Released, ...]:
    """Return all noisy results of the run's stage `measure`."""
    from dp_core.bundle.files.marginals_file import read_marginals

    return read_marginals(run.folder.public / MARGINALS)


def _read_records(run: Run) -> tuple[Records, ...]:
    """Return the synthetic records that the selections produced; empty for most methods."""
    return tuple(
        Records(selection.records, replicate)
        for selection, replicate in zip(read_selections(run), replicates(run.plan), strict=False)
        if selection.records is not None
    )


def restored_models(run: Run) -> dict[int, Model]:
    """Return the fitted models by number of the set; 0 is the model that all sets share."""
    facts = run.fact("reconstruct", "models")
    assert isinstance(facts, list)
    released = (*read_released(run), *_read_records(run))
    return {
        fact["number"]: procedure.restore(
            run.plan,
            released,
            fact["number"],
            tables=_read_tables(run, model_file(run, fact["number"])),
            rows=fact["rows"],
        )
        for fact in facts
    }


def model_file(run: Run, number: int) -> Path:
    """Return the path of a fitted model; number 0 is the model that all sets share."""
    return run.folder.public / "models" / f"{number}.npz"


def _write_tables(path: Path, tables: tuple[Table, ...]) -> None:
    arrays: dict[str, np.ndarray] = {}
    for index, table in enumerate(tables):
        arrays[f"{index}-values"] = table.values
        arrays[f"{index}-columns"] = np.array(table.clique, dtype=np.str_)
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **arrays)
    # The file is synced to disk before the stage is marked as done.
    write_atomically(path, content.getvalue())


def _read_tables(run: Run, path: Path) -> tuple[Table, ...]:
    domain = run.spec.schema.domain
    with np.load(path, allow_pickle=False) as arrays:
        return tuple(
            Table(
                domain.project(tuple(str(c) for c in arrays[f"{index}-columns"])),
                arrays[f"{index}-values"],
            )
            for index in range(len(arrays.files) // 2)
        )
