"""A note in the home of when the ledger was last verified, and how that ended.

The note is for those who watch: no rule asks for it, and losing it loses nothing but the date.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from dp_core.documents.canonical import canonical_json
from dp_core.errors import LedgerCorrupt, ReleaseError
from tasks.support.run_folder import write_atomically

VERIFIED = "ledger.verified"
VERIFIED_VERSION = 1


@dataclass(frozen=True, slots=True)
class Verified:
    """The last check of a home's ledger.

    Attributes:
        at: When it ended, UTC.
        passed: Whether every entry was in order.
    """

    at: datetime
    passed: bool


@contextlib.contextmanager
def noting(home: Path) -> Iterator[None]:
    """Note when the check in the block ended, and whether the ledger was in order.

    A check that could not be done (no disk, no database) is noted as nothing: it found nothing.
    """
    try:
        yield
    except LedgerCorrupt:
        note(home, passed=False)
        raise
    note(home, passed=True)


def note(home: Path, *, passed: bool) -> None:
    """Note a check that ended now; where no note can be written the check still counts."""
    if not home.is_dir():
        return  # an auditor's machine, which has no home of ours
    values = {
        "version": VERIFIED_VERSION,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "passed": passed,
    }
    temporary = home / f"{VERIFIED}.{os.getpid()}"
    with contextlib.suppress(OSError, ReleaseError):
        write_atomically(temporary, canonical_json(values))
        temporary.replace(home / VERIFIED)


def last_verified(home: Path) -> Verified | None:
    """Return the last check that was noted, None if there is none that can be read."""
    try:
        values = json.loads((home / VERIFIED).read_bytes())
        at = datetime.fromisoformat(values["at"])
        passed = values["passed"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Verified(at, passed) if at.tzinfo is not None and isinstance(passed, bool) else None
