"""Limits the rows of a person, by a rule that depends on that person's rows alone.

Rows with the same identifier belong to one person (`dp_core.kernel.coding.unit_hashes`). For each
person, the rows are ordered by a hash of identifier and codes, and the first ones are kept. So the
kept rows of a person depend on that person's rows only, not on other persons or on the order of
the file or its parts. Every person has an order of their own, so no kind of row is preferred. Rows
of one person with the same codes are interchangeable in every later step.

Privacy:
    Let F be the rows of a file after every row by itself became codes, by the schema's public rules
    (clipped, missing, settled), and D(F) what is kept: the union over persons of a part of their
    rows that depends on these rows only, of at most `max_rows`. If F and F' differ in the rows of
    one person, D(F) and D(F') are the same rows but for at most `max_rows` of that person on each:
    exactly the neighbours of `dp_core.kernel.privacy.Relation`, for which everything is calibrated.
    Whether a file is refused is decided earlier, from all its rows, so it does not depend on the
    order here. Like every refusal, it is outside epsilon.

    Two identifiers with the same 128-bit hash would count as one person. Among a billion persons
    this happens with a probability below 1e-20.

Cost: 1 to 2 microseconds for a row; 33 bytes for a row on disk, in the run's confidential folder,
while the rule is applied; in memory a 64th of that, and the rows of one batch.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_core.kernel.coding.unit_hashes import identifiers

BUCKETS = 64
"""Parts of the rows on disk, by person; one part is in memory at a time."""

Persons = NDArray[np.uint64]
"""Hashes of identifiers, shape (rows, 2)."""

_ROW = np.dtype([("person", np.uint64, 2), ("order", np.uint64), ("number", np.int64)])


def hashes(column: str, values: pa.Array, missing: Collection[str]) -> tuple[Persons, int]:
    """Return hashes of identifiers, and the number of rows without one. Confidential.

    Args:
        column: Name of the identifier column.
        values: Text, or whole numbers of any stored type.
        missing: Texts that mean missing, besides blanks.

    Raises:
        SchemaViolation: if identifiers have another type, or numbers are not whole or too large for
            their type.
    """
    found = identifiers(identifying(column), values, missing)
    return found.hashes(2), found.without


def orders(persons: Persons, codes: Sequence[NDArray[Any]]) -> NDArray[np.uint64]:
    """Return the key by which each row is ordered among its person's rows, shape (rows,).

    Args:
        persons: Hashed identifier of each row.
        codes: Codes of every column of the domain, each of shape (rows,).
    """
    # Any mixing function would do, as long as persons differ in the rows they keep.
    mixed = persons[:, 1].copy()
    for column in codes:
        mixed ^= column.astype(np.uint64)
        mixed = _mixed(mixed)
    return mixed


def kept_rows(persons: Persons, order: NDArray[np.uint64], max_rows: int) -> NDArray[np.bool_]:
    """Return which rows are kept, shape (rows,)."""
    # Stable: rows that are equal in all keys keep the order of the file.
    sort = np.lexsort((order, persons[:, 1], persons[:, 0]))
    first = np.ones(len(sort), np.bool_)
    first[1:] = (persons[sort][1:] != persons[sort][:-1]).any(axis=1)
    starts = np.flatnonzero(first)
    rank = np.arange(len(sort)) - np.repeat(starts, np.diff([*starts, len(sort)]))
    kept = np.zeros(len(sort), np.bool_)
    # privacy: no person keeps more than `max_rows` rows.
    kept[sort[rank < max_rows]] = True
    return kept


class RowLimit:
    """Finds the rows to keep of a file of any size; used as a context manager.

    Args:
        folder: Confidential folder, created here and deleted at the end; None to keep what it knows
            of the rows in memory.
        max_rows: Most rows of a person.
    """

    def __init__(self, folder: Path | None, max_rows: int) -> None:
        self.folder = folder
        self.max_rows = max_rows
        self.rows = 0
        self._in_memory: list[NDArray[np.void]] = []

    def __enter__(self) -> RowLimit:
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.mkdir(mode=0o700, parents=True)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def add(self, persons: Persons, codes: Sequence[NDArray[Any]]) -> None:
        """Add rows of the file, in its order."""
        found = np.empty(len(persons), _ROW)
        found["person"], found["order"] = persons, orders(persons, codes)
        found["number"] = np.arange(self.rows, self.rows + len(persons))
        self.rows += len(persons)
        if self.folder is None:
            self._in_memory.append(found)
            return
        bucket = (persons[:, 0] % np.uint64(BUCKETS)).astype(np.int64)
        found = found[np.argsort(bucket, kind="stable")]
        ends = np.cumsum(np.bincount(bucket, minlength=BUCKETS))
        for number, part in enumerate(np.split(found, ends[:-1])):
            if len(part):
                with _bucket(self.folder, number).open("ab") as file:
                    file.write(part.tobytes())

    def kept(self) -> NDArray[np.bool_]:
        """Return which rows are kept, in the order of the file, mapped from disk if it has them."""
        if not self.rows:
            return np.zeros(0, np.bool_)
        if self.folder is None:
            whole = np.concatenate(self._in_memory)
            return kept_rows(whole["person"], whole["order"], self.max_rows)
        kept: NDArray[np.bool_] = np.memmap(
            self.folder / "kept", dtype=np.bool_, mode="w+", shape=(self.rows,)
        )
        for number in range(BUCKETS):
            if (bucket := _bucket(self.folder, number)).exists():
                part = np.fromfile(bucket, _ROW)
                kept[part["number"]] = kept_rows(part["person"], part["order"], self.max_rows)
        return kept


def _bucket(folder: Path, number: int) -> Path:
    return folder / f"rows-{number:02d}"


def without_identifier(column: str) -> str:
    """Return the message about a file with rows without an identifier."""
    return (
        f"Column {column!r} has rows without an identifier, so the rows of a person cannot be"
        " limited; fill the column, or remove these rows from the file."
    )


def identifying(column: str) -> str:
    """Return the beginning of a message about how identifiers are stored."""
    return f"Column {column!r} identifies persons and"


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the values mixed, one to one (Steele, Lea & Flood 2014, the mix of SplitMix64)."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(values ^ (values >> np.uint64(31)))
