"""Deletes the files of a release that awaits approval or ended without a bundle.

The ledger records the state first, and then the files are deleted, so a crash between the two
leaves files. The next command that meets the release deletes them. That is before Prefect is set
up, so nothing here may import it.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from dp_core.errors import StageFailed
from tasks.ledger.ledger import Ledger
from tasks.ledger.reservations import Reservation
from tasks.run.home import home_id
from tasks.support.run_folder import RunFolder


def remove_unpublished(folder: RunFolder, *, keep_confidential: bool = False) -> None:
    """Delete what an ended release no longer needs, and mark that it is done."""
    for left in folder.noisy.glob("*.tmp"):
        left.unlink(missing_ok=True)  # from a process that lost its lease
    for name in ("codes", "synthetic", "models"):
        shutil.rmtree(folder.public / name, ignore_errors=True)
    if not keep_confidential:
        folder.remove_confidential()
    folder.finish("tidy")


def mark_waiting(folder: RunFolder, *, keep_confidential: bool = False) -> None:
    """Delete the codes of a release that awaits approval, and mark that it is done.

    The comparison with the data is written, so no later stage reads the data.
    """
    if not keep_confidential:
        folder.remove_confidential()
    folder.finish("held")


def clear_leftovers(home: Path, ledger: Ledger, release: str) -> bool:
    """Delete the files that an interruption left, and return whether there were any.

    An unfinished or published release keeps its files. Noisy results are always kept, as proof.

    Raises:
        StageFailed: if another process works on the release, and may be deleting them itself.
    """
    reservation = ledger.reservation(release)
    if reservation is None or not _are_left(home, ledger, reservation):
        return False
    with ledger.lease(release, home_id(home)):
        folder = RunFolder(home, release, reservation.link)
        if reservation.outcome is None:
            mark_waiting(folder)
        elif reservation.outcome == "abandoned":
            folder.remove_confidential()
        else:
            remove_unpublished(folder)
    return True


def clear_all_leftovers(home: Path, ledger: Ledger) -> list[str]:
    """Delete the files that interruptions left in a home, and return the releases' names.

    A release that another process works on is skipped.
    """
    cleared = []
    for path in sorted((home / "runs").glob("*")):
        folder = RunFolder(home, path.name)
        if folder.done("tidy") is not None and not folder.confidential.exists():
            continue  # true of most releases, without reading the ledger
        with suppress(StageFailed):
            if clear_leftovers(home, ledger, path.name):
                cleared.append(path.name)
    return cleared


def _are_left(home: Path, ledger: Ledger, reservation: Reservation) -> bool:
    folder = RunFolder(home, reservation.release, reservation.link)
    if not folder.exists():
        return False
    match reservation.outcome:
        case "withdrawn" | "failed-thresholds":
            return folder.done("tidy") is None
        case "abandoned":
            return folder.confidential.exists()
        case None:
            return folder.done("held") is None and ledger.gate(reservation).held is not None
        case _:
            return False
