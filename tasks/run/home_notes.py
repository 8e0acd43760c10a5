"""Small notes in the home on which nothing depends: last check, running stage, last stop, speed.

A note that cannot be written is left out, and one that cannot be read counts as missing. So notes
are not synced to the disk.
"""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from json import loads
from pathlib import Path
from typing import Any

from dp_core.errors import LedgerCorrupt
from dp_core.kernel.canonical import canonical_json, digest
from dp_core.kernel.counting.processors import threads
from dp_core.plan.forecast.stage_pace import Machine, Moment, measure_machine
from tasks.support.run_folder import RunFolder

VERSION = 1
VERIFIED = "ledger.verified"
PROGRESS = "progress.json"
STOP = "stop.json"
MACHINES = "machines"
THOROUGH = 20
"""Repetitions of a thorough measurement; it takes about 0.2 s."""
_UNREADABLE = (OSError, ValueError, KeyError, TypeError)


def _write(path: Path, values: Mapping[str, object]) -> None:
    """Replace a note in a folder that exists."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with contextlib.suppress(OSError):
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(canonical_json({"version": VERSION, **values}))
        temporary.replace(path)


def _read(path: Path) -> dict[str, Any]:
    """Return the values of a note; raises one of `_UNREADABLE` if there are none."""
    values: dict[str, Any] = loads(path.read_bytes())
    if values["version"] != VERSION:
        raise ValueError("Another version wrote this note.")
    return values


# -- when the ledger was last verified, for monitoring


@dataclass(frozen=True, slots=True)
class Verified:
    """The last check of a home's ledger.

    Attributes:
        at: When it ended; UTC.
        passed: Whether every entry verified.
    """

    at: datetime
    passed: bool


@contextlib.contextmanager
def record_check(home: Path) -> Iterator[None]:
    """Record when the check in the block ended, and whether the ledger verified.

    A check that could not be carried out (no disk, no database) is not recorded.
    """
    try:
        yield
    except LedgerCorrupt:
        write_verified(home, passed=False)
        raise
    write_verified(home, passed=True)


def write_verified(home: Path, *, passed: bool) -> None:
    """Record a check that ended now; an auditor's machine may have no home, and gets no record."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    _write(home / VERIFIED, {"at": now, "passed": passed})


def last_verified(home: Path) -> Verified | None:
    """Return the last recorded check; None if there is none, or it cannot be read."""
    with contextlib.suppress(*_UNREADABLE):
        values = _read(home / VERIFIED)
        at, passed = datetime.fromisoformat(values["at"]), values["passed"]
        if at.tzinfo is not None and isinstance(passed, bool):
            return Verified(at, passed)
    return None


# -- how far the running stage of a release is, which `dp-release status` reads


def write_progress(folder: RunFolder, moment: Moment, process: int) -> None:
    """Write how far the running stage is; the process deletes this at its end.

    Args:
        folder: Folder of the run.
        moment: How far the stage is.
        process: Number of the process that makes the release.

    Privacy:
        The duration of a stage depends on the size of the data. So the note lies in the run's own
        folder, which only staff can read.
    """
    _write(_progress(folder), {"process": process, **asdict(moment)})


def read_progress(folder: RunFolder, process: int) -> Moment | None:
    """Return how far the running stage is; None if the process left no note.

    Args:
        folder: Folder of the run.
        process: Number of the process that makes the release; notes of others are old.
    """
    with contextlib.suppress(*_UNREADABLE):
        values = _read(_progress(folder))
        if values["process"] == process:
            done, left = (
                None if values[key] is None else float(values[key]) for key in ("done", "left")
            )
            return Moment(str(values["stage"]), done, float(values["seconds"]), left)
    return None


def remove_progress(folder: RunFolder) -> None:
    """Delete the note, if there is one."""
    with contextlib.suppress(OSError):
        _progress(folder).unlink(missing_ok=True)


def _progress(folder: RunFolder) -> Path:
    return folder.public.parent / PROGRESS


# -- why a release stopped, which `dp-release status` reads


@dataclass(frozen=True, slots=True)
class Stop:
    """Why the last attempt at a release stopped. Nothing confidential.

    Attributes:
        sentence: What happened, and what to do.
        row: Runbook row; None if the sentence says all.
        refused_at: Position of the ledger's last entry then, if the ledger refused; else None.
        kept: File of the internal folder with the sentence that `sentence` stands for; else None.
    """

    sentence: str
    row: str | None
    refused_at: int | None
    kept: str | None


def write_stop(folder: RunFolder, stop: Stop) -> None:
    """Write why a release stopped; the next attempt that begins deletes this."""
    _write(folder.path / STOP, asdict(stop))


def read_stop(folder: RunFolder) -> Stop | None:
    """Return why the last attempt stopped; None if it did not, or left no note."""
    with contextlib.suppress(*_UNREADABLE):
        values = _read(folder.path / STOP)
        row, at, kept = values["row"], values["refused_at"], values["kept"]
        refused_at = None if at is None else int(at)
        return Stop(str(values["sentence"]), row and str(row), refused_at, kept and str(kept))
    return None


def remove_stop(folder: RunFolder) -> None:
    """Delete the note, if there is one."""
    with contextlib.suppress(OSError):
        (folder.path / STOP).unlink(missing_ok=True)


# -- the speed of this machine, so that `plan` need not measure it


def machine_of(home: Path) -> Machine:
    """Return the speed of this machine: as measured before, otherwise from a short measurement.

    Args:
        home: The home, which need not exist.
    """
    return _known_machine(home) or measure_machine(threads())


def calibrate(home: Path) -> Machine:
    """Measure this machine, keep the result in the home, and return it.

    The fastest measurement of the machine counts, because other programs only slow it down. No time
    that a release took is kept, because it depends on the size of confidential data.

    Args:
        home: The home, which must exist.
    """
    known, measured = _known_machine(home), measure_machine(threads(), times=THOROUGH)
    machine = measured if known is None else measured.faster(known)
    with contextlib.suppress(OSError):
        _machine(home).parent.mkdir(mode=0o700, exist_ok=True)
        _write(_machine(home), {"machine": asdict(machine)})
    return machine


def _known_machine(home: Path) -> Machine | None:
    with contextlib.suppress(*_UNREADABLE):
        return Machine(**{**_read(_machine(home))["machine"], "processors": threads()})
    return None


def _machine(home: Path) -> Path:
    # A home may be on a disk that several machines share.
    name = digest([platform.node(), platform.machine(), platform.python_version(), os.cpu_count()])
    return home / MACHINES / f"{name[:16]}.json"
