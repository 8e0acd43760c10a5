"""Checks whether a release may start or continue, without Prefect and without opening the data."""

from __future__ import annotations

from pathlib import Path

from dp_core.confidential.data_files import find_data_files
from dp_core.errors import BadInput, Held, LedgerCorrupt
from dp_core.plan.data_location import DatabaseTable, places_of, store_of
from dp_core.plan.plan import Plan
from dp_core.plan.release_spec import ReleaseSpec
from tasks.ledger.ledger import Ledger
from tasks.ledger.reservations import Reservation
from tasks.run.earlier_releases import load_plan
from tasks.run.home import home, open_ledger
from tasks.run.publication_refusals import refuse_failed, refuse_waiting
from tasks.run.release_cleanup import clear_leftovers
from tasks.support.run_folder import RunFolder


def check_start(plan: Plan, out: Path) -> None:
    """Raise unless a release may start or continue; nothing is reserved.

    If the release awaits approval, or ended without a bundle, confidential files that an
    interruption left are deleted.

    Args:
        plan: Plan of the release, compared with the one that the ledger has.
        out: Folder of the bundle.

    Raises:
        BadInput: if the output folder cannot be used, the name is used, or a new release names data
            files that are not there or are of no known kind.
        BudgetRefused: if an account does not allow the release.
        Held: if the release awaits approval.
        Unpublished: if its own thresholds ended it.
    """
    name = plan.spec.release
    ledger = open_ledger(home())
    reservation = ledger.reservation(name)
    if reservation is not None:
        clear_leftovers(home(), ledger, name)
        _refuse_waiting(ledger, reservation, plan)
        refuse_failed(home(), reservation, plan)
    if reservation is None or not is_publishing(reservation, plan):
        ledger.check(plan)
        if reservation is None or reservation.outcome == "returned":
            _check_data_files(plan.spec)
        # Imported here: a wrong path is reported before pyarrow and the report are loaded.
        from dp_core.bundle.writer import check_destination

        check_destination(out)
        return
    folder = RunFolder(home(), name, reservation.link)
    if folder.facts_of("publish") is not None and folder.facts_of("tidy") is not None:
        raise BadInput(
            f"Release {name!r} is finished; its bundle is in {folder.recorded_paths()[1]}."
            " A release is made once: choose a new name under `release` for another.",
            row="finished-already",
        )


def _check_data_files(spec: ReleaseSpec) -> None:
    """Raise unless the local data files are there and their names tell a known kind.

    A release under way is not checked: it may no longer need its data.

    Raises:
        BadInput: if `find_data_files` raises it.

    Privacy:
        Only names are looked at, before an attempt on the data is recorded. A path that names
        nothing is not an attempt.
    """
    if spec.measurements is not None:
        return  # it opens no data
    for place in places_of(spec.data):
        if not isinstance(place, DatabaseTable) and store_of(place) is None:
            find_data_files(place, spec.folder)


def plan_of_release(spec: Path, release: str | None) -> Plan:
    """Return the plan of a spec.

    Args:
        spec: Path of the spec.
        release: Name that the release must have; None for any.

    Raises:
        BadInput: if spec or schema is invalid, or the name differs.
    """
    plan = load_plan(spec)
    name = plan.spec.release
    if release is not None and name != release:
        raise BadInput(
            f"The spec {spec} now names release {name!r}, not {release!r}. Restore the name to"
            f" continue, or make the other release with `dp-release run {spec} --out DIR`.",
            row="spec-of-another-release",
        )
    return plan


def _refuse_waiting(ledger: Ledger, reservation: Reservation, plan: Plan) -> None:
    """Refuse to continue a release that awaits approval.

    Raises:
        BadInput: if the plan is not the one that awaits approval.
        Held: otherwise.
    """
    try:
        refuse_waiting(ledger, reservation)
    except Held as error:
        if reservation.plan == plan.hash:
            raise
        raise BadInput(
            f"Release {reservation.release!r} awaits approval, and its spec or schema changed"
            " since: it is published as it is or withdrawn, never made again with another plan,"
            " seed or method. Undo the change, or choose a new name under `release`.",
            row="held-changed",
        ) from error


def require_known_results(at: Path, ledger: Ledger, reservation: Reservation) -> None:
    """Raise unless the ledger has a charge for every noisy result of a reservation.

    Raises:
        LedgerCorrupt: if a noisy result has no charge.
    """
    stored = RunFolder(at, reservation.release, reservation.link).batches()
    forgotten = stored - {charge.batch for charge in ledger.charges(reservation)}
    if forgotten:
        raise LedgerCorrupt(
            f"Release {reservation.release!r} has a noisy result ({min(forgotten)}) that the ledger"
            " has no charge for, so the ledger is older than the run's folder. Restore the"
            " ledger's newest copy.",
            row="result-without-charge",
        )


def is_publishing(reservation: Reservation | None, plan: Plan) -> bool:
    """Return whether the release is settled and only its bundle may be missing."""
    return (
        reservation is not None
        and reservation.outcome == "finished"
        and reservation.plan == plan.hash
    )
