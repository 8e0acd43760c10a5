"""Records in the home when the ledger was last verified, and with which result.

The record is for monitoring only; no rule depends on it.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from dp_core.errors import LedgerCorrupt, ReleaseError
from dp_core.text.canonical import canonical_json
from tasks.support.run_folder import write_atomically

VERIFIED = "ledger.verified"
VERIFIED_VERSION = 1


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
def noting(home: Path) -> Iterator[None]:
    """Record when the check in the block ended, and whether the ledger verified.

    A check that could not be carried out (no disk, no database) is not recorded.
    """
    try:
        yield
    except LedgerCorrupt:
        note(home, passed=False)
        raise
    note(home, passed=True)


def note(home: Path, *, passed: bool) -> None:
    """Record a check that ended now; a record that cannot be written is skipped."""
    if not home.is_dir():
        return  # for example on an auditor's machine, which has no home
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
    """Return the last recorded check; None if there is none, or it cannot be read."""
    try:
        values = json.loads((home / VERIFIED).read_bytes())
        at = datetime.fromisoformat(values["at"])
        passed = values["passed"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Verified(at, passed) if at.tzinfo is not None and isinstance(passed, bool) else None
