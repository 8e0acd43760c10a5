"""Deletes the files of a release that awaits approval or ended without a bundle.

The ledger records the state first, and then the files are deleted, so a crash between the two
leaves files. The next command that meets the release deletes them. That is before Prefect is set
up, so nothing here may import it.

The same holds for what a command reads from the file of a published release.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dp_core.errors import StageFailed
from tasks.ledger.ledger import Ledger
from tasks.ledger.reservations import Reservation
from tasks.run.home import home_id
from tasks.support.run_folder import RunFolder, disk_errors, make_folder

_NEW, _READING, _LOCK = "new-", "reading-", "lock"


@contextmanager
def reading_folder(folder: RunFolder) -> Iterator[Path]:
    """Make a confidential folder for what a command reads from the file of a published release.

    It is deleted at the end. If the process is killed, the next reading of the release, `resume` or
    a sweep deletes it: the lock of a dead process is free.

    Args:
        folder: Folder of the run.

    Raises:
        StageFailed: if it cannot be made.
    """
    remove_readings(folder)
    with disk_errors("the run folder"):
        make_folder(folder.confidential)
        new = Path(tempfile.mkdtemp(prefix=_NEW, dir=folder.confidential))
        lock = os.open(new / _LOCK, os.O_WRONLY | os.O_CREAT, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Only now can others see it, so nobody deletes it before it is locked.
        path = new.rename(new.with_name(_READING + new.name.removeprefix(_NEW)))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)
        _remove_if_empty(folder)


def kept_files(folder: RunFolder) -> bool:
    """Return whether the confidential folder holds files of the release itself."""
    with suppress(OSError):
        return any(
            not path.name.startswith((_NEW, _READING)) for path in folder.confidential.iterdir()
        )
    return False


def remove_readings(folder: RunFolder) -> bool:
    """Delete what killed processes read from the file, and return whether there was anything."""
    found = False
    for path in folder.confidential.glob(f"{_READING}*"):
        with suppress(OSError):
            # A process that was killed while it deleted may have left everything but its lock.
            lock = os.open(path / _LOCK, os.O_WRONLY | os.O_CREAT, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
                found = True
            finally:
                os.close(lock)
    if found:
        _remove_if_empty(folder)
    return found


def _remove_if_empty(folder: RunFolder) -> None:
    with suppress(OSError):
        folder.confidential.resolve().rmdir()


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

    An unfinished or published release keeps its own files. Noisy results are always kept, as proof.

    Raises:
        StageFailed: if another process works on the release, and may be deleting them itself.
    """
    read = remove_readings(RunFolder(home, release))
    reservation = ledger.reservation(release)
    if reservation is None or not _are_left(home, ledger, reservation):
        return read
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
        if folder.facts_of("tidy") is not None and not folder.confidential.exists():
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
            return folder.facts_of("tidy") is None
        case "abandoned":
            return folder.confidential.exists()
        case None:
            return folder.facts_of("held") is None and ledger.gate(reservation).held is not None
        case _:
            return False
