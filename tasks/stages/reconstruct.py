"""The stage `reconstruct`: fits models to the noisy tables, and reads nothing else."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dp_core.client.household_values import in_households
from dp_core.client.noise_scale import NoiseScale
from dp_core.client.released import Records, Table
from dp_core.errors import StageFailed
from dp_core.kernel.privacy import Noise
from dp_core.methods.selection.candidates.pairs import DISTANCES, INDIF
from dp_core.methods.selection.selector import Selection
from dp_core.plan import procedure
from dp_core.plan.procedure import fits, model_numbers, replicates
from tasks.ledger.reservations import Charge, Reservation
from tasks.ledger.stored_result import read_result, require_as_committed, result_path
from tasks.run.public_files import read_released
from tasks.run.release_run import Run
from tasks.stages.measure_marginals import SELECTION, read_selections
from tasks.stages.stage_task import stage
from tasks.support.run_folder import RunFolder, write_atomically

if TYPE_CHECKING:
    from dp_core.methods.reconstruction.reconstructor import Model

LEARNT = 7
"""What posterior models share takes as long as so many draws
(`dp_core.plan.forecast.resource_forecast`)."""
_CLOSE = 1e-9  # relative difference of standard deviations that is rounding


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


def require_committed_dependences(
    selections: Sequence[Selection],
    noisy: Path,
    reservation: Reservation,
    charges: Sequence[Charge],
    file: Path,
    *,
    shares: int = 1,
) -> None:
    """Refuse dependences that no committed result holds; a selection without any is accepted.

    Posterior sets are drawn from them, and they lie in the selection's file, which the ledger does
    not know. So they are compared with the committed result of their charge.

    Args:
        selections: Selections of the release.
        noisy: Folder of its noisy results.
        reservation: Reservation of the release that measured.
        charges: All its charges.
        file: File of the selections, for the message.
        shares: Shares of a record, in which the charges count; 1 by default.

    Raises:
        StageFailed: if a noisy result is not as committed, or a value, the noise or the unit of a
            dependence is not that of the charge.
    """
    if all(selection.dependences is None for selection in selections):
        return
    chosen = [charge for charge in charges if charge.stage == "select"]
    # A checksum alone does not show who wrote a file; the ledger's hash does.
    require_as_committed(noisy, reservation, chosen)
    paid = [charge for charge in chosen if charge.step in (INDIF, DISTANCES)]
    for selection in selections:
        asked = selection.dependences
        if asked is None:
            continue
        if not any(
            np.array_equal(in_households(values, shares), np.array(asked.values))
            and abs(stddev / shares - asked.stddev) <= _CLOSE * asked.stddev
            and unit == asked.unit
            for values, stddev, unit in (_noisy_values(charge, noisy) for charge in paid)
        ):
            raise StageFailed(
                f"{file} does not hold the noisy dependences that the ledger committed; restore it"
                " from a backup, then resume. Nothing is lost.",
                row="committed-result-gone",
            )


def _noisy_values(charge: Charge, noisy: Path) -> tuple[NDArray[np.int64], float, int]:
    """Return the noisy values of a charge, their standard deviation, and units in a record."""
    stored = read_result(result_path(noisy, charge.batch))
    event = charge.body["event"]
    assert isinstance(event, dict)
    kind: Noise = "gaussian" if event["mechanism"] == "discrete-gaussian" else "laplace"
    stddev = NoiseScale(kind, float(Fraction(event["scale"]))).stddev
    asks = charge.body["asks"]
    assert isinstance(asks, dict)
    unit = int(asks.get("grid", 1))
    if stored is None or charge.number not in stored.header["charges"]:
        return np.zeros(0, dtype=np.int64), stddev, unit
    return stored.values[stored.header["charges"].index(charge.number)].ravel(), stddev, unit
