"""Charge, draw, store, commit: the protocol by which a release spends its reservation.

No result is paid twice and none is measured without payment. The next step depends only on the
ledger's entries and on the result on disk:

| charged | committed | result on disk | what happens |
|---|---|---|---|
| no | no | no | charge, draw, store, commit |
| yes | no | no | draw under the same charge: its noise was never seen by anyone |
| yes | no | yes | commit: the crash came between the link and the commit |
| yes | no | damaged, or another's | refuse: it was complete once, and may have been read |
| yes | yes | yes, hash as committed | read it |
| yes | yes | no, or another hash | refuse: a committed result is never drawn again |
| no | no | yes | refuse: the ledger is older than the run's folder, such as a restored backup |

A result gets its name by a hard link, which fails if the name is taken. Two holders can draw for
the same charge if the first one was believed dead. Then only the result that was stored first is
read, and the other one is deleted unread.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dp_core.accounts.plain_entries import result_hash
from dp_core.errors import LedgerCorrupt, StageFailed
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.ledger.session import Draw
from dp_core.kernel.mechanisms.grant import Grant, Step
from dp_core.kernel.privacy import Relation
from dp_core.policies.stage_grant import StageGrant
from tasks.ledger.charging.charging_writer import ChargingWriter
from tasks.ledger.reservations import Charge, Reservation
from tasks.ledger.stored_result import (
    CHECKSUM_BYTES,
    committed_result_gone,
    prefix_of,
    read_result,
    result_path,
)
from tasks.support.run_folder import disk_errors, make_folder, sync_folder


@dataclass(frozen=True, slots=True)
class LedgerSession:
    """One release's reservation, with a folder for its noisy results.

    Attributes:
        writer: Writes to the ledger for this release.
        reservation: Reservation of the release.
        relation: Neighbouring relation that every event is calibrated to.
        folder: Folder of the noisy results.
        grant: The ledger's grant for the stage that asks; a charge outside it is refused.
        committed: Called with the charges after their results are stored and committed. By default
            nothing.
    """

    writer: ChargingWriter
    reservation: Reservation
    relation: Relation
    folder: Path
    grant: StageGrant
    committed: Callable[[Sequence[Charge]], None] = lambda _charges: None

    @property
    def currency(self) -> Currency:
        """Currency of the release, with its total."""
        return self.reservation.currency

    @property
    def forgets(self) -> bool:
        """False: the ledger records each charge."""
        return False

    def perform(
        self, batch: str, steps: Sequence[Step], draw: Draw
    ) -> tuple[tuple[Grant, NDArray[np.int64]], ...]:
        """Return the noisy results of steps that are drawn together; see `Session`.

        Raises:
            BudgetRefused: if the grant or a stage's budget does not allow a new batch, or the grant
                has no share for a batch that was charged and is not committed.
            LedgerCorrupt: if a result exists but the ledger has no charge for it.
            StageFailed: if a result is damaged or missing, or another process took over.
        """
        path = result_path(self.folder, batch)
        # Check the file before the charges. In the other order, another holder could charge and
        # store in between, and its result would seem to have no charge.
        there = path.exists()
        known = self.writer.charges(self.reservation, batch)
        if not known and there:
            # privacy: a new charge and draw would give two draws, but the ledger would record one.
            raise LedgerCorrupt(
                f"The noisy result {path.name!r} of release {self.reservation.release!r} exists,"
                " but the ledger has no charge for it: the ledger is older than the run's folder."
                " Restore the newest copy of the ledger; the result is never drawn again.",
                row="result-without-charge",
            )
        if not known:
            self.grant.require(steps)
        charges = self.writer.charge(self.reservation, batch, steps)
        grants = tuple(
            Grant(charge.number, step) for charge, step in zip(charges, steps, strict=True)
        )
        draws = charges[0].draws
        committed = charges[0].result
        if committed is not None:
            # Results of earlier stages are read back under any grant.
            return _pair(grants, self._committed(path, committed, grants))
        if known:
            # privacy: a draw looks at the data, so only the stage that may pay for it makes it.
            self.grant.require_shares(steps)
            stored = self._read(path, grants)
            if stored is not None:
                _erase_temporaries(path)
                self.writer.commit(self.reservation, batch, _fingerprint(grants, stored))
                self.committed(charges)
                return _pair(grants, stored)
            if path.exists():
                # privacy: a result gets its name when it is complete, so it may have been read.
                raise StageFailed(
                    f"The noisy result {path.name!r} of release {self.reservation.release!r} is"
                    " damaged or another's, and may have been read, so it is never drawn again."
                    " Restore it from a backup and resume, or abandon the release.",
                    row="result-damaged",
                )
            # privacy: without a result under its name, no noise was read by anyone. Temporary files
            # of an interrupted write are deleted before the new draw.
            _erase_temporaries(path)
            self.writer.record_redraw(self.reservation, batch)
            draws += 1
        _draw_and_store(path, grants, self._header(grants), draws, draw)
        values = self._read(path, grants)
        if values is None:
            self.writer.require()
            raise StageFailed(
                f"The noisy result {path.name!r} of release {self.reservation.release!r} changed"
                " after it was stored. Check whether another program writes to the run's folder,"
                " then resume.",
                row="result-not-as-stored",
            )
        self.writer.commit(self.reservation, batch, _fingerprint(grants, values))
        self.committed(charges)
        return _pair(grants, values)

    def _header(self, grants: Sequence[Grant]) -> dict[str, object]:
        """Return the header of a result: its reservation, charges and shapes."""
        return {
            "reservation": self.reservation.link,
            "charges": [grant.number for grant in grants],
            "shapes": [list(grant.step.shape) for grant in grants],
        }

    def _read(self, path: Path, grants: Sequence[Grant]) -> list[NDArray[np.int64]] | None:
        stored = read_result(path)
        return None if stored is None else stored.values_of(self._header(grants))

    def _committed(
        self, path: Path, committed: str, grants: Sequence[Grant]
    ) -> list[NDArray[np.int64]]:
        stored = self._read(path, grants)
        if stored is None or _fingerprint(grants, stored) != committed:
            raise committed_result_gone(path, self.reservation)
        # An earlier holder that was killed may have left a second draw, which must not be read.
        _erase_temporaries(path)
        return stored


def _draw_and_store(
    path: Path, grants: Sequence[Grant], carries: dict[str, object], draws: int, draw: Draw
) -> None:
    """Draw noise and store the result under its name, unless another holder stored one first.

    The space is allocated before the draw, so that no failure depends on the drawn values.
    """
    cells = sum(int(np.prod(grant.step.shape, dtype=np.int64)) for grant in grants)
    prefix = prefix_of({**carries, "attempt": draws})
    # The name is unique to this draw, so that a delayed earlier holder cannot write to the file.
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}.tmp")
    with disk_errors("a noisy result"):
        make_folder(path.parent)
        with temporary.open("xb") as file:
            os.posix_fallocate(file.fileno(), 0, len(prefix) + 8 * cells + CHECKSUM_BYTES)
            # privacy: nothing between the draw and the store depends on the values.
            values = draw(grants)
            payload = b"".join(np.ascontiguousarray(v, dtype="<i8").tobytes() for v in values)
            checksum = hashlib.sha256(prefix + payload).digest()
            file.write(prefix + payload + checksum)
            file.flush()
            os.fsync(file.fileno())
        # privacy: if another holder stored first (FileExistsError), its result is valid and this
        # one is deleted. A holder that took over may have deleted it already (FileNotFoundError).
        with contextlib.suppress(FileExistsError, FileNotFoundError):
            os.link(temporary, path)
        temporary.unlink(missing_ok=True)
        sync_folder(path.parent)


def _erase_temporaries(path: Path) -> None:
    with disk_errors("a noisy result"):
        for left in path.parent.glob(f"{glob.escape(path.name)}.*.tmp"):
            left.unlink(missing_ok=True)


def _fingerprint(grants: Sequence[Grant], values: Sequence[NDArray[np.int64]]) -> str:
    return result_hash((grant.number, array) for grant, array in _pair(grants, values))


def _pair(
    grants: Sequence[Grant], values: Sequence[NDArray[np.int64]]
) -> tuple[tuple[Grant, NDArray[np.int64]], ...]:
    return tuple(zip(grants, values, strict=True))
