"""Finds the earlier release that a spec names under `measurements`, and its committed tables.

The ledger decides which release may be used and what its results are. The files come from the
release's public run folder in this home: `marginals.parquet` with every noisy table, which must
have the hashes that the ledger committed, and the noisy results themselves, as at publication. The
internal folder is never read. Nothing here opens confidential data.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dp_core.errors import BadInput, StageFailed, similar
from dp_core.kernel.canonical import canonical_json, digest
from dp_core.plan.earlier_release import EarlierRelease
from dp_core.plan.plan import Plan
from dp_core.plan.reading import spec_file
from dp_core.plan.release_spec import ReleaseSpec
from tasks.run.declared_public.priors import find_prior
from tasks.run.home_folder import home
from tasks.support.run_folder import RunFolder, write_atomically

if TYPE_CHECKING:
    from dp_core.bundle.files.marginals_file import Measured
    from tasks.ledger.ledger import Ledger
    from tasks.ledger.reservations import Reservation

ROW = "measurements-unusable"
"""Row of the runbook for an earlier release whose tables cannot be used."""
PLAN = "plan.json"
"""File of a plan's document in the public folder of a run."""

_ENDED = {
    "withdrawn": "was withdrawn after a person could look at it; it is not made again in any form",
    "failed-thresholds": "was ended by its thresholds and not published",
    "abandoned": "was abandoned with incomplete measurements",
    "returned": "measured nothing",
}


def load_release(path: Path) -> ReleaseSpec:
    """Return the release of a spec file; the home's ledger has the release it may name.

    Args:
        path: The spec file.

    Raises:
        BadInput: for any mistake in the file, or an earlier release or a prior that cannot be used.
    """
    return spec_file.load_spec(
        path, find=partial(find_earlier, home()), find_prior=partial(find_prior, look_up=True)
    )


def load_plan(path: Path) -> Plan:
    """Return the plan of the release of a spec file; the arguments are those of `load_release`.

    Raises:
        BadInput: as for `load_release`, or if there is no such plan.
    """
    return spec_file.load_plan(
        path, find=partial(find_earlier, home()), find_prior=partial(find_prior, look_up=True)
    )


def preview_plan(path: Path) -> Plan:
    """Return the plan of the release of a spec file; writes nothing.

    A file that the spec declares public is neither recorded nor looked up in the ledger.

    Args:
        path: The spec file.

    Raises:
        BadInput: as for `load_plan`.
    """
    return spec_file.load_plan(
        path, find=partial(find_earlier, home()), find_prior=partial(find_prior, look_up=False)
    )


def _readers(*, look_up: bool) -> dict[str, Any]:
    """Return what reads the other releases and the public records that a spec names."""
    return {
        "find": partial(find_earlier, home()),
        "find_prior": partial(find_prior, look_up=look_up),
    }


def find_earlier(where: Path, release: str) -> EarlierRelease:
    """Return a finished release of a home, whose committed tables another release may use.

    Args:
        where: The home.
        release: Name of the finished release.

    Raises:
        BadInput: if there is no such release, it is not finished, it ended unpublished, or its
            files are not in this home.
    """
    from tasks.run.home import ledger_exists, open_ledger

    ledger = open_ledger(where) if ledger_exists(where) else None
    reservation = ledger.reservation(release) if ledger else None
    if ledger is None or reservation is None:
        hint = similar(release, ledger.releases()) if ledger else ""
        raise BadInput(
            f"there is no release {release!r} in this ledger, so its tables cannot be used.{hint}"
            " `dp-release status` names the releases.",
            row=ROW,
        )
    if reservation.outcome is None:
        raise _unusable(f"release {release!r} is not finished", "shows its state")
    if reservation.outcome != "finished":
        raise _unusable(f"release {release!r} {_ENDED[reservation.outcome]}", "names others")
    receipts = ledger.receipts(reservation)
    return EarlierRelease(
        release=release,
        account=reservation.account,
        plan=_plan(RunFolder(where, release, reservation.link), reservation),
        receipts=receipts,
        place=ledger.place(reservation),
    )


def keep_plan(folder: RunFolder, document: Mapping[str, object]) -> None:
    """Store the document of a plan, for releases that use its tables later; nothing if it is there.

    Args:
        folder: Folder of the run.
        document: `Plan.document()`.
    """
    path = folder.public / PLAN
    if not path.is_file():
        write_atomically(path, canonical_json(dict(document)))


def committed_tables(where: Path, ledger: Ledger, earlier: EarlierRelease) -> Path:
    """Return the file of an earlier release's noisy tables, compared with the ledger.

    Args:
        where: The home.
        ledger: Its ledger.
        earlier: The earlier release.

    Raises:
        StageFailed: if a file is missing, or is not what the ledger committed.
    """
    from tasks.ledger.stored_result import require_as_committed

    reservation = ledger.reservation(earlier.release)
    assert reservation is not None
    folder = RunFolder(where, earlier.release, reservation.link)
    path = folder.public / "marginals.parquet"
    try:
        require_as_committed(folder.noisy, reservation, ledger.charges(reservation))
    except StageFailed:
        raise _file_changed(earlier.release, folder.noisy) from None
    require_committed(path, earlier)
    return path


def require_committed(path: Path, earlier: EarlierRelease) -> tuple[Measured, ...]:
    """Return the noisy tables of a file, which must be those that an earlier release committed.

    Args:
        path: File of noisy tables.
        earlier: The earlier release, with its receipts from the ledger.

    Raises:
        StageFailed: if the file is missing, or a table is not the committed one.
    """
    from dp_core.bundle.files.marginals_file import read_marginals
    from dp_core.bundle.verification.charges_check import not_as_paid
    from dp_core.bundle.verification.claims import committed_in, read_charge

    try:
        measured = read_marginals(path)
    except BadInput:
        raise _file_changed(earlier.release, path) from None
    receipts, sets = earlier.receipts, int(earlier.spec["synthesize"]["sets"])
    charges = [read_charge(row) for row in receipts if row.kind == "charge"]
    # The noisy tables of linked tables cannot be used again yet, so a unit has one share.
    if not_as_paid(measured, charges, committed_in(receipts), sets, shares=1):
        raise _file_changed(earlier.release, path)
    return measured


def _plan(folder: RunFolder, reservation: Reservation) -> Mapping[str, Any]:
    """Return the document of a release's plan, which must have the hash in the ledger.

    It is in the run's folder; releases of earlier versions have it in their bundle only.

    Raises:
        BadInput: if it is in neither place.
    """
    if not folder.exists():
        raise _unusable(
            f"release {folder.release!r} was made in another home, or its folder {folder.path} is"
            " gone",
            "shows where it is",
        )
    for path, keys in (
        (folder.public / PLAN, ()),
        (folder.recorded_paths()[1] / "release.json", ("method", "plan")),
    ):
        try:
            found: Any = json.loads(path.read_bytes())
            for key in keys:
                found = found[key]
            if digest(found) == reservation.plan:
                document: Mapping[str, Any] = found
                return document
        except (OSError, ValueError, LookupError, TypeError):
            continue
    raise _unusable(
        f"the plan of release {folder.release!r} is neither in {folder.public} nor in the bundle in"
        f" {folder.recorded_paths()[1]}; restore one of them",
        "shows its state",
    )


def _unusable(what: str, shows: str) -> BadInput:
    return BadInput(f"{what}, so its tables cannot be used; `dp-release status` {shows}.", row=ROW)


def _file_changed(release: str, path: Path) -> StageFailed:
    return StageFailed(
        f"{path} of release {release!r} is missing, or is not what the ledger committed, so its"
        " tables cannot be used. Restore it from a backup, then resume; nothing was spent.",
        row=ROW,
    )
