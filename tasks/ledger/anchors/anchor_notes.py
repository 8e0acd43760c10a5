"""Files with notes of the heads of ledgers: one in the home, one per ledger in the state folder.

A transaction that appends writes both notes once, after its commit; how many entries it appended
does not matter. Each note is written to a temporary file, synced and renamed.

- *Killed process.* The renamed file is either the earlier note or the new one. A ledger that is
  ahead of its notes by the last transactions is accepted, and its next opening notes its head.
- *Power failure.* An entry is on disk before its note is written (SQLite's level EXTRA,
  PostgreSQL's `synchronous_commit`), so no note is ahead of the ledger. The content of a note is
  on disk before its name is, so no note is torn or empty. The folder is not synced, so the earlier
  note may be back: the same case as a killed process.
- *A note ahead of the ledger* therefore means an older or another ledger, and is refused.

Both syncs are needed: on file systems such as XFS, a renamed file that was not synced can be empty
after a power failure, and a damaged note is refused until a person adopts the ledger. The two files
are synced one after the other: two threads, or beginning to write both before the first sync, made
a write at most a tenth faster (ext4).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeGuard

from dp_core.errors import BadInput, LedgerCorrupt
from dp_core.kernel.canonical import canonical_json
from tasks.ledger.database.ledger_store import Place
from tasks.support.run_folder import disk_errors

HEAD = "ledger.head"
"""Name of the file in the home."""

NOTES_VERSION = 3
"""Format version of the files. Version 1 had no `lives` and no `closed`, version 2 no `clock`."""

_LOCK_S = 2.0
"""Longest wait for another process that writes the same notes, seconds."""


@dataclass(frozen=True, slots=True)
class Note:
    """The newest known entry of a ledger.

    Attributes:
        position: Position of the entry.
        link: Link of the entry.
        place: Hash of the ledger's URL, without user and password.
        lives: Place of the ledger (`tasks.ledger.database.ledger_place`), and for SQLite its site,
            `device` and `boot`: the device number of its file, and the boot in which it was read.
        closed: Names of the closed accounts, sorted.
        clock: `boot`, in which the note was written, and `offset`, the time of day minus the time
            since that boot, seconds; empty if this is unknown.
    """

    position: int
    link: str
    place: str
    lives: Place = field(default_factory=dict)
    closed: tuple[str, ...] = ()
    clock: Place = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        """Return the note as plain JSON values."""
        return {
            "position": self.position,
            "link": self.link,
            "place": self.place,
            "lives": dict(self.lives),
            "closed": list(self.closed),
            "clock": dict(self.clock),
        }

    @classmethod
    def from_json(cls, values: Mapping[str, object]) -> Note:
        """Return the note that `to_json`, or an earlier version, wrote.

        Raises:
            ValueError: if it has other fields, or fields of other types.
        """
        position, link, place = values["position"], values["link"], values["place"]
        lives, closed = values.get("lives", {}), values.get("closed", [])
        clock = values.get("clock", {})
        if (
            type(position) is not int
            or not isinstance(link, str)
            or not isinstance(place, str)
            or not isinstance(lives, dict)
            or not all(value is None or type(value) in (int, str) for value in lives.values())
            or not isinstance(closed, list)
            or not all(isinstance(name, str) for name in closed)
            or not _is_clock(clock)
            or not {*values} <= {"position", "link", "place", "lives", "closed", "clock"}
        ):
            raise ValueError("The fields are not those of a note.")
        return cls(position, link, place, lives, tuple(closed), clock)


def _is_clock(clock: object) -> TypeGuard[Place]:
    return isinstance(clock, dict) and {name: type(value) for name, value in clock.items()} in (
        {},
        {"boot": str, "offset": int},
    )


def read_notes(path: Path) -> dict[str, Note]:
    """Return the notes in a file by ledger; empty if there is no such file.

    Raises:
        LedgerCorrupt: if the file is damaged or cannot be read.
    """
    try:
        ledgers = json.loads(path.read_bytes())["ledgers"]
        return {str(name): Note.from_json(note) for name, note in ledgers.items()}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise LedgerCorrupt(
            f"The note {path} of the ledger's last entry is damaged or cannot be read. Restore it,"
            " or let the privacy officer compare the ledger with its last export and accept it:"
            " `dp-release ledger adopt --by NAME --reason TEXT`.",
            row="head-damaged",
        ) from None


def write_notes(path: Path, notes: Mapping[str, Note]) -> None:
    """Replace a file of notes atomically; mode 0600.

    The folder is not synced: after a power failure the earlier note may be back, and a ledger that
    is ahead of its note is accepted.

    Raises:
        StageFailed: if the disk is full or the file cannot be written.
    """
    ledgers = {name: note.to_json() for name, note in notes.items()}
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    with disk_errors(path.name):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(canonical_json({"version": NOTES_VERSION, "ledgers": ledgers}))
            file.flush()
            os.fsync(file.fileno())
        # Processes that share a home may have different state folders and so different locks. The
        # deletion below can then remove the file that this process has just written, and the next
        # write of any process makes the note again.
        with contextlib.suppress(FileNotFoundError):
            temporary.replace(path)
        for left in path.parent.glob(f"{path.name}.*"):
            left.unlink(missing_ok=True)


def require_writable(folder: Path) -> None:
    """Create the state folder (mode 0700) if it is missing.

    A write to the ledger is refused without it. A warning in a nightly log would be overlooked, and
    without the note an old backup of the home could be spent from again.

    Raises:
        BadInput: if the folder cannot be created or written.
    """
    try:
        if not folder.is_dir():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.access(folder, os.W_OK | os.X_OK):
            return
        why = "no right to write"
    except OSError as error:
        why = os.strerror(error.errno or 0)
    raise BadInput(
        f"The ledger's last entry cannot be noted in the state folder {folder} ({why}), so nothing"
        " was recorded. Let this user write the folder, or set DP_RELEASE_STATE to another one"
        " outside the home.",
        row="state-folder",
    )


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file of notes while it is read, compared and replaced.

    Without the lock, the older of two notes could replace the newer one. That would only weaken the
    note until the next write, so a file system without locks, or a stopped process that holds the
    lock, delays the caller but does not refuse it.

    Args:
        path: Path of the file of notes; its lock is a file beside it.
    """
    with disk_errors(path.name):
        handle = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        end = time.monotonic() + _LOCK_S
        while time.monotonic() < end:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(0.005)
            except OSError:
                break
            else:
                break
        yield
    finally:
        os.close(handle)
