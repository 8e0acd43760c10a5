"""The file of a batch's noisy result: what it carries, and the check that it is as committed.

Format: `MAGIC`, the length of the header (8 bytes, little-endian), the header as canonical JSON,
the values of all charges (int64, little-endian, in C order), and the SHA-256 of everything before.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_core.accounts.plain_entries import result_hash
from dp_core.errors import StageFailed
from dp_core.kernel.canonical import canonical_json
from tasks.ledger.reservations import Charge, Reservation

MAGIC = b"DPNOISE1"
CHECKSUM_BYTES = 32


@dataclass(frozen=True, slots=True)
class StoredResult:
    """A complete stored result.

    Attributes:
        header: `reservation` (its link), `charges` (their numbers), `shapes` (of each charge's
            values) and `attempt` (number of the draw, from 1).
        values: The values of each charge, of its shape.
    """

    header: Mapping[str, Any]
    values: list[NDArray[np.int64]]

    def values_of(self, header: Mapping[str, object]) -> list[NDArray[np.int64]] | None:
        """Return the values if the header is this one, of any draw; otherwise None."""
        same = {**self.header, "attempt": None} == {**header, "attempt": None}
        return self.values if same else None


def result_path(folder: Path, batch: str) -> Path:
    """Return the file of a batch's result in the folder of a run's noisy results."""
    return folder / f"{batch}.noise"


def prefix_of(header: Mapping[str, object]) -> bytes:
    """Return what a result's file begins with, before the values."""
    text = canonical_json(header)
    return MAGIC + struct.pack("<Q", len(text)) + text


def read_result(path: Path) -> StoredResult | None:
    """Return a stored result; None if it is missing, incomplete or damaged.

    Raises:
        OSError: if the file exists and cannot be read. Such a result is not drawn again.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    body, checksum = content[:-CHECKSUM_BYTES], content[-CHECKSUM_BYTES:]
    if not body.startswith(MAGIC) or hashlib.sha256(body).digest() != checksum:
        return None
    start = len(MAGIC) + 8
    try:
        (length,) = struct.unpack("<Q", body[len(MAGIC) : start])
        header: dict[str, Any] = json.loads(body[start : start + length])
        if set(header) != {"reservation", "charges", "shapes", "attempt"}:
            return None
        flat = np.frombuffer(body, dtype="<i8", offset=start + length).astype(np.int64)
        ends = np.cumsum([int(np.prod(shape, dtype=np.int64)) for shape in header["shapes"]])
        parts = np.split(flat, ends[:-1])
        values = [part.reshape(shape) for part, shape in zip(parts, header["shapes"], strict=True)]
    except (struct.error, ValueError, TypeError):
        return None  # its checksum is right, but nothing of ours wrote it
    return StoredResult(header, values)


def require_as_committed(folder: Path, reservation: Reservation, charges: Sequence[Charge]) -> None:
    """Refuse to continue unless every committed result is stored exactly as it was committed.

    What is published was computed from these results when they were drawn. They stay in the run's
    folder as the proof of it, so a change since then must not go unnoticed.

    Args:
        folder: Folder of the run's noisy results.
        reservation: The release's reservation.
        charges: All charges of the release.

    Raises:
        StageFailed: if a result is missing or was changed.
    """
    ordered = sorted(charges, key=lambda charge: (charge.batch, charge.number))
    for batch, group in groupby(ordered, key=lambda charge: charge.batch):
        together = list(group)
        path = result_path(folder, batch)
        stored = read_result(path)
        numbers = [charge.number for charge in together]
        if (
            stored is None
            or stored.header["reservation"] != reservation.link
            or stored.header["charges"] != numbers
            or result_hash(zip(numbers, stored.values, strict=True)) != together[0].result
        ):
            raise committed_result_gone(path, reservation)


def committed_result_gone(path: Path, reservation: Reservation) -> StageFailed:
    """Return the error for a committed result that is missing or was changed."""
    return StageFailed(
        f"The committed noisy result {path.name!r} of release {reservation.release!r} is missing or"
        " was changed. It is never drawn again: restore it from a backup and resume, or abandon the"
        " release.",
        row="committed-result-gone",
    )
