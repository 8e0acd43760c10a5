"""The confidential data, in files or in memory, as a stream of small record batches. Confidential.

The files are one CSV or Parquet file, or a glob of files of one kind. Opening reads headers and
footers only, and reports every error that they show. Rows are read lazily, one batch at a time, and
can be read repeatedly. CSV is read as text, so `?`, `NA`, `None` and `007` arrive unchanged.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from dp_core.confidential.csv_files import bad_csv, check_csv, count_csv_rows, csv_batches
from dp_core.confidential.data_files import Kind, find_data_files
from dp_core.confidential.row_digest import RowDigest
from dp_core.confidential.source_files import check_parquet, damaged, footer
from dp_core.confidential.sources.common_types import in_common_type
from dp_core.errors import BadInput, DataRefused
from dp_core.kernel.coding.raw_rows import UnitNotes
from dp_core.kernel.document import A_ROW

DIGEST_BLOCK_BYTES = 1 << 20
"""Bytes that are read at a time for the digest."""
PART_ROWS = 100
"""Least number of rows of a file that is recognised by itself if it is one of several."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Batch:
    """Some rows of one partition. Confidential.

    Attributes:
        partition: Number of the row group (Parquet) or of the file (CSV) they come from.
        records: The wanted columns, in the order requested.
        done: Fraction of the source read up to and including these rows, 0 to 1.
    """

    partition: int
    records: pa.RecordBatch
    done: float


@dataclass(frozen=True, slots=True)
class Stamp:
    """Size, time and inode of a file, a quick test that the file is still the same."""

    size: int
    modified: int
    inode: int

    @classmethod
    def of(cls, path: Path) -> Stamp:
        """Return the stamp of the file as it is now."""
        status = path.stat()
        return cls(status.st_size, status.st_mtime_ns, status.st_ino)


@dataclass(frozen=True, slots=True)
class Digests:
    """Keyed hashes by which the ledger recognises data.

    Attributes:
        whole: Hash of all data together, in hexadecimal.
        parts: Hash of each part that it recognises by itself, by the part's name; empty if the data
            are one file.
        small: Hashes of files that are too small to be such parts. One of them can be the whole
            input of another release.
    """

    whole: str
    parts: Mapping[str, str] = field(default_factory=dict)
    small: tuple[str, ...] = ()

    def named(self, name: str) -> dict[str, str]:
        """Return the hashes of these data as a part of other data: by this name, and each part."""
        own = {f"{name}, {part}": each for part, each in self.parts.items()}
        return {name: self.whole, **own}


class Source:
    """Files of one kind, checked against the wanted columns; see `open_source`.

    Attributes:
        files: Paths of the files, in the order in which they are read.
        kind: `csv` or `parquet`.
        columns: The wanted columns, in the order of the batches.
    """

    def __init__(self, files: Sequence[Path], kind: Kind, columns: Sequence[str]) -> None:
        self.files = tuple(files)
        self.kind = kind
        self.columns = tuple(columns)
        self._stamps = {path: _stamp(path) for path in self.files}

    def __repr__(self) -> str:
        return f"Source({len(self.files)} {self.kind} file(s))"

    def batches(self, notes: UnitNotes | None = None) -> Iterator[Batch]:
        """Yield all rows, in the order of the files, at most `BATCH_ROWS` at a time.

        Args:
            notes: Where the kernel notes the units of the rows; None (the default) if no code store
                is made of them.

        Raises:
            BadInput: if a file is damaged, ragged, not UTF-8, or has changed since it was opened.
            StageFailed: if a column is not once in a file's header, or a file was noted before.
        """
        self.assert_unchanged()
        noted = notes or UnitNotes(A_ROW, (), None, "")
        yield from self._csv_batches(noted) if self.kind == "csv" else self._parquet_batches(noted)
        self.assert_unchanged()

    def digests(self, key: bytes) -> Digests:
        """Return the HMAC-SHA256 of all files' bytes, in order, and of each file alone.

        A file with fewer than `PART_ROWS` rows is not a part but a small file.

        Privacy:
            Small files about different people can be equal, and one record can be guessed from its
            few possible values. Whoever guesses a part must know at least `PART_ROWS` rows of it.
        """
        whole = hmac.new(key, len(self.files).to_bytes(8, "big"), "sha256")
        parts: dict[str, str] = {}
        small: list[str] = []
        for number, path in enumerate(self.files, start=1):
            alone = hmac.new(key, (1).to_bytes(8, "big"), "sha256")
            hashed = (whole, alone) if len(self.files) > 1 else (whole,)
            with path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size.to_bytes(8, "big")
                for digest in hashed:
                    digest.update(size)
                while block := file.read(DIGEST_BLOCK_BYTES):
                    for digest in hashed:
                        digest.update(block)
            if len(self.files) == 1:
                continue
            if _has_rows(path, self.kind, PART_ROWS):
                parts[f"file {number}"] = alone.hexdigest()
            else:
                small.append(alone.hexdigest())
        return Digests(whole.hexdigest(), parts, tuple(small))

    def assert_unchanged(self) -> None:
        """Check size, time and identity of every file.

        Raises:
            BadInput: if a file is not as it was when the source was opened.
        """
        for path, stamp in self._stamps.items():
            try:
                same = Stamp.of(path) == stamp
            except OSError:
                same = False
            if not same:
                raise BadInput(
                    f"The data file {path.name} changed while the release was reading it;"
                    " start again when the file is complete.",
                    row="data-being-written",
                )

    def _parquet_batches(self, notes: UnitNotes) -> Iterator[Batch]:
        total = sum(footer(path).num_rows for path in self.files)
        before = rows = 0
        for path in self.files:
            try:
                for group, found in notes.parquet_rows(path, self.columns, in_common_type):
                    rows += found.num_rows
                    yield Batch(before + group, found, rows / total)
            except (pa.ArrowException, OSError) as error:
                damaged(path, error)
            before += footer(path).num_row_groups

    def _csv_batches(self, notes: UnitNotes) -> Iterator[Batch]:
        total = sum(stamp.size for stamp in self._stamps.values())
        before = 0
        for partition, path in enumerate(self.files):
            try:
                for found, read in csv_batches(path, self.columns, notes):
                    yield Batch(partition, found, (before + read) / total)
            except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
                bad_csv(path, error)
            before += self._stamps[path].size


class RowSource(Source):
    """Rows that are identified by their values, in any order, not by the bytes of files.

    Attributes:
        untyped: Names of the columns that hold numbers, dates or times as text.
    """

    def __init__(
        self, files: Sequence[Path], columns: Sequence[str], untyped: frozenset[str] = frozenset()
    ) -> None:
        super().__init__(files, "parquet", columns)
        self.untyped = untyped

    def digests(self, key: bytes) -> Digests:
        """Return the keyed hash of the rows, which does not depend on their order or their types.

        Privacy:
            The ledger recognises the same table even if it is read in another order.
        """
        digest = RowDigest(key, self.columns, self.untyped)
        for batch in self.batches():
            digest.add(batch.records)
        return Digests(digest.hexdigest())


class MemorySource(RowSource):
    """Rows in memory, such as those of a frame.

    Args:
        types: Columns and types of the rows.
        batches: Returns all rows, each time it is called.
        columns: The wanted columns, each of which the rows have once.
    """

    def __init__(
        self,
        types: pa.Schema,
        batches: Callable[[], Iterable[pa.RecordBatch]],
        columns: Sequence[str],
    ) -> None:
        super().__init__((), columns)
        self._types = pa.schema([types.field(name) for name in columns])
        self._batches = batches

    def batches(self, _notes: UnitNotes | None = None) -> Iterator[Batch]:
        """Yield all rows, which are public, so nothing is noted; one batch if there are none."""
        records = None
        for records in self._batches():
            yield Batch(0, records.select(list(self.columns)), 0.0)
        if records is None:
            yield Batch(0, pa.RecordBatch.from_pylist([], schema=self._types), 0.0)


def open_source(
    pattern: str, folder: Path, columns: Sequence[str], ignore: Collection[str]
) -> Source:
    """Open the confidential files without reading their rows.

    Args:
        pattern: Path or glob, relative to `folder` unless absolute.
        folder: Folder of the spec file.
        columns: Columns to read; every file must have all of them.
        ignore: Further columns that files may have.

    Returns:
        The source; its files are sorted by path.

    Raises:
        BadInput: if no file matches, files are of unknown or different kinds, a file is empty,
            truncated or unreadable, lacks or repeats a column or has one that is in neither list,
            or if there is no row (then a `DataRefused`). No message shows a value.
    """
    files, kind = find_data_files(pattern, folder)
    some = False
    for path in files:
        if path.stat().st_size == 0:
            raise BadInput(
                f"The data file {path.name} is empty; name a file with rows.", row="data-empty"
            )
        if kind == "parquet":
            some |= check_parquet(path, columns, ignore)
        else:
            some |= check_csv(path, columns, ignore)
    if not some:
        raise DataRefused(
            f"The data in {pattern!r} have a header but no row; name a file with rows.",
            row="data-empty",
        )
    return Source(files, kind, columns)


class Identified(Protocol):
    """Data that keyed hashes identify: a `Source`, or those of linked tables."""

    def digests(self, key: bytes) -> Digests:
        """Return the keyed hashes of the data and of their parts."""

    def assert_unchanged(self) -> None:
        """Check that the data are as they were when they were opened."""


def keyed_digests(source: Identified, key: bytes) -> Digests:
    """Return the keyed hashes that identify the data and each of their parts.

    Parts are the files, if there are several, both linked tables, and the waves of a panel.

    For files a hash is the HMAC-SHA256 of their bytes, in order. It includes the number of files
    and the length of each, so moving bytes between files changes it; it does not include names, so
    renaming a folder does not. For a snapshot of a table it is the hash of the rows, in any order
    (`dp_core.confidential.row_digest`). For linked tables it is the hash of the two tables' hashes.

    Args:
        source: The data.
        key: Secret of the confidential side, at least 16 bytes.

    Raises:
        BadInput: if a file changed since the source was opened.

    Privacy:
        A hash without a key would be an exact answer about the data: whoever knows all rows but
        one could confirm the last. Without the key, this hash discloses nothing.
    """
    if len(key) < 16:
        raise ValueError("The key of the digest must have at least 16 bytes.")
    source.assert_unchanged()
    digests = source.digests(key)
    source.assert_unchanged()
    return digests


def keyed_digest(source: Identified, key: bytes) -> str:
    """Return the keyed hash of all data together; see `keyed_digests`."""
    return keyed_digests(source, key).whole


def _stamp(path: Path) -> Stamp:
    try:
        return Stamp.of(path)
    except OSError as error:
        damaged(path, error)


def _has_rows(path: Path, kind: Kind, least: int) -> bool:
    """Return whether a file, whose header or footer was checked before, has so many rows."""
    if kind == "parquet":
        return int(footer(path).num_rows) >= least
    return count_csv_rows(path, least) >= least
