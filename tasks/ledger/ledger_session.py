"""Charge, draw, store, commit: the protocol by which a release spends its reservation.

Nothing is paid twice and nothing is measured unpaid, because what to do next is decided from two
facts only, the ledger's entries and a complete result on disk:

| charged | committed | result on disk | what happens |
|---|---|---|---|
| no | no | no | charge, draw, store, commit |
| yes | no | no | draw under the same charge: its noise was never seen by anyone |
| yes | no | yes | commit (the crash came between link and commit) |
| yes | no | damaged, or another's | refuse: under its name it was whole, and may have been read |
| yes | yes | yes, hash as committed | read it |
| yes | yes | no, or another hash | refuse: a committed result is never drawn again |
| no | no | yes | refuse: the ledger is older than the folder, as a restored backup is |

A result gets its name by a hard link, which fails where the name is taken. So of two holders that
draw for the same charge, the earlier having been taken for dead, one result is ever seen: the first
that was stored. The other is erased unread.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
import secrets
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_core.documents.canonical import canonical_json
from dp_core.errors import LedgerCorrupt, StageFailed
from dp_core.schema.privacy import Relation
from dp_core.wall.accounting.currency import Currency
from dp_core.wall.ledger.receipts import result_hash
from dp_core.wall.ledger.session import Draw, Grant, Step
from tasks.ledger.release_writer import ReleaseWriter
from tasks.ledger.reservations import Charge, Reservation
from tasks.support.run_folder import disk_errors, make_folder, sync_folder

MAGIC = b"DPNOISE1"


@dataclass(frozen=True, slots=True)
class LedgerSession:
    """One release's reservation, with a folder for its noisy results.

    Attributes:
        writer: Writes to the ledger for this release.
        reservation: What this release may spend.
        relation: The one that every event is calibrated to.
        folder: Where noisy results are kept.
        noted: Called after a charge and before the draw; it notes elsewhere how far the ledger
            went, so that a backup that lacks the charge is known for one.
        committed: Told of charges once their results are stored and committed.
    """

    writer: ReleaseWriter
    reservation: Reservation
    relation: Relation
    folder: Path
    noted: Callable[[], None] = lambda: None
    committed: Callable[[Sequence[Charge]], None] = lambda _charges: None

    @property
    def currency(self) -> Currency:
        """What the release pays in."""
        return self.reservation.currency

    def perform(
        self, batch: str, steps: Sequence[Step], draw: Draw
    ) -> tuple[tuple[Grant, NDArray[np.int64]], ...]:
        """Return the noisy results of steps that are drawn together; see `Session`."""
        path = self.folder / f"{batch}.noise"
        # Looked for before the charges are: then a holder that took over meanwhile is not mistaken
        # for a ledger that forgot.
        there = path.exists()
        known = self.writer.charges(self.reservation, batch)
        if not known and there:
            # privacy: to pay and draw once more would give two draws, of which one is on record.
            raise LedgerCorrupt(
                f"The noisy result {path.name!r} of release {self.reservation.release!r} is there,"
                " but the ledger has no charge for it: the ledger is older than the run's folder."
                " Restore the newest copy of the ledger; the result is never drawn again.",
                row="result-without-charge",
            )
        charges = self.writer.charge(self.reservation, batch, steps)
        grants = tuple(
            Grant(charge.number, step) for charge, step in zip(charges, steps, strict=True)
        )
        self.noted()
        attempt = charges[0].attempts
        committed = charges[0].result
        if committed is not None:
            return _pair(grants, self._committed(path, committed, grants))
        if known:
            stored = self._read(path, grants)
            if stored is not None:
                _erase_temporaries(path)
                self.writer.commit(self.reservation, batch, _fingerprint(grants, stored))
                self.committed(charges)
                return _pair(grants, stored)
            if path.exists():
                # privacy: it got its name only when it was whole, so its noise may have been read.
                raise StageFailed(
                    f"The noisy result {path.name!r} of release {self.reservation.release!r} is"
                    " damaged or another's, and may have been read: it is never drawn again."
                    " Restore it from a backup and resume, or abandon the release.",
                    row="result-damaged",
                )
            # privacy: no result under its name means its noise was never read by anyone; what an
            # interrupted write may have left is erased before anything is drawn again.
            _erase_temporaries(path)
            self.writer.attempt(self.reservation, batch)
            attempt += 1
        _draw_and_store(path, grants, self._header(grants), attempt, draw)
        values = self._read(path, grants)
        if values is None:
            self.writer.require()
            raise StageFailed(
                f"The noisy result {path.name!r} of release {self.reservation.release!r} was not"
                " what was stored; see whether another program writes to the run's folder, then"
                " resume.",
                row="result-not-as-stored",
            )
        self.writer.commit(self.reservation, batch, _fingerprint(grants, values))
        self.committed(charges)
        return _pair(grants, values)

    def _header(self, grants: Sequence[Grant]) -> dict[str, object]:
        """Return what a result carries besides its values: who paid for it, and its shapes."""
        return {
            "reservation": self.reservation.link,
            "charges": [grant.number for grant in grants],
            "shapes": [list(grant.step.shape) for grant in grants],
        }

    def _read(self, path: Path, grants: Sequence[Grant]) -> list[NDArray[np.int64]] | None:
        return _read(path, grants, self._header(grants))

    def _committed(
        self, path: Path, committed: str, grants: Sequence[Grant]
    ) -> list[NDArray[np.int64]]:
        stored = self._read(path, grants)
        if stored is None or _fingerprint(grants, stored) != committed:
            raise StageFailed(
                f"The committed noisy result {path.name!r} of release"
                f" {self.reservation.release!r} is missing or was changed. It is never drawn again:"
                " restore it from a backup and resume, or abandon the release.",
                row="committed-result-gone",
            )
        # What an earlier holder that was killed late left: a second draw, which nobody reads.
        _erase_temporaries(path)
        return stored


def _draw_and_store(
    path: Path, grants: Sequence[Grant], carries: dict[str, object], attempt: int, draw: Draw
) -> None:
    """Draw into space that is already allocated, so that no failure depends on what was drawn."""
    header = canonical_json({**carries, "attempt": attempt})
    cells = sum(int(np.prod(grant.step.shape, dtype=np.int64)) for grant in grants)
    prefix = MAGIC + struct.pack("<Q", len(header)) + header
    # Of this draw alone: no holder that wakes up late writes into it or stores under its name.
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}.tmp")
    with disk_errors("a noisy result"):
        make_folder(path.parent)
        with temporary.open("xb") as file:
            os.posix_fallocate(file.fileno(), 0, len(prefix) + 8 * cells + 32)
            # privacy: between the draw and the store nothing looks at the values.
            values = draw(grants)
            payload = b"".join(np.ascontiguousarray(v, dtype="<i8").tobytes() for v in values)
            checksum = hashlib.sha256(prefix + payload).digest()
            file.write(prefix + payload + checksum)
            file.flush()
            os.fsync(file.fileno())
        # privacy: where another holder stored first, its result is the one, and this is erased;
        # where another took over, it has erased this one already.
        with contextlib.suppress(FileExistsError, FileNotFoundError):
            os.link(temporary, path)
        temporary.unlink(missing_ok=True)
        sync_folder(path.parent)


def _erase_temporaries(path: Path) -> None:
    with disk_errors("a noisy result"):
        for left in path.parent.glob(f"{glob.escape(path.name)}.*.tmp"):
            left.unlink(missing_ok=True)


def _read(
    path: Path, grants: Sequence[Grant], carries: dict[str, object]
) -> list[NDArray[np.int64]] | None:
    """Return a stored result, None unless it is complete and paid for by these grants."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        # Only this: a result that is there and cannot be read now is not drawn again.
        return None
    body, checksum = content[:-32], content[-32:]
    if not body.startswith(MAGIC) or hashlib.sha256(body).digest() != checksum:
        return None
    start = len(MAGIC) + 8
    (length,) = struct.unpack("<Q", body[len(MAGIC) : start])
    header: dict[str, Any] = json.loads(body[start : start + length])
    if {**header, "attempt": None} != {**carries, "attempt": None}:
        return None
    flat = np.frombuffer(body, dtype="<i8", offset=start + length).astype(np.int64)
    values, at = [], 0
    for grant in grants:
        cells = int(np.prod(grant.step.shape, dtype=np.int64))
        values.append(flat[at : at + cells].reshape(grant.step.shape))
        at += cells
    return values


def _fingerprint(grants: Sequence[Grant], values: Sequence[NDArray[np.int64]]) -> str:
    return result_hash((grant.number, array) for grant, array in _pair(grants, values))


def _pair(
    grants: Sequence[Grant], values: Sequence[NDArray[np.int64]]
) -> tuple[tuple[Grant, NDArray[np.int64]], ...]:
    return tuple(zip(grants, values, strict=True))
