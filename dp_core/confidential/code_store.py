"""The code store: the confidential file as memory-mapped columns of small integers.

The store has one uncompressed Arrow IPC file of one record batch for each half million rows;
reading maps the file. A column has the smallest type for its size (`stored_type`), which the file
states. If the unit is not a row, the last column is the hash of each row's unit, by which the
kernel weighs the units of the finished store (`dp_core.kernel.counting.stored_rows`). Files are
written under a temporary name, synced and renamed. The manifest is written last, so a store without
one is incomplete. The folder has mode 0700, the files 0600.

A store is read by chunks: ranges of rows of one file. A small store has several chunks as well, so
that every count can be divided.
"""

from __future__ import annotations

import copy
import itertools
import json
import math
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_core.kernel.codes import Codes, stored_type
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.counting.stored_rows import UNIT, unusable

if TYPE_CHECKING:
    from dp_core.schema.grid import Recoding

FORMAT = 1
CHUNK_ROWS = 1 << 19
"""Rows of a file by default, and most rows of a chunk."""
FEWEST_ROWS = 1 << 11
"""Rows below which a file is not divided into more chunks."""
CHUNKS = 8
"""Least number of chunks of a store that is large enough for them."""
MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One file of the store: its name, number of rows and length in bytes."""

    file: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """A range of rows of one file.

    Attributes:
        file: Name of the file.
        first: First row in the file.
        rows: Number of rows.
        file_rows: Number of rows of the whole file.
    """

    file: str
    first: int
    rows: int
    file_rows: int


class CodeStore:
    """A complete store, open for reading. Confidential.

    Attributes:
        folder: Folder of the store.
        domain: Columns and sizes, in the order of `read`.
        document: Hash of the rules by which its rows were coded (`FileRules.hash`); empty if the
            store was opened without.
        identity: Random text drawn when the store was written; no other store has it, not even one
            of the same rows.

    Privacy:
        A pickled store holds these and the numbers of its chunks, but no number of rows: whoever
        transports it must not learn one. It reads the manifest again when its rows are first
        needed.
    """

    def __init__(self, folder: Path, domain: Domain, document: str = "") -> None:
        """Open a store.

        Args:
            folder: Folder of the store.
            domain: Columns and sizes that the store must have.
            document: Hash of the rules by which it must have been coded; empty (the default) for
                rows that are not confidential.

        Raises:
            StageFailed: if it is incomplete, truncated, or was made for another schema.
        """
        self.folder = Path(folder)
        self.domain = domain
        self.document = document
        self.identity, files = _opened(self.folder, domain, document)
        self._ranges: tuple[Chunk, ...] | None = _divided(files)
        self._bounds = (0, len(self._ranges))

    def __repr__(self) -> str:
        return f"CodeStore({len(self.domain)} columns, confidential)"

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_ranges": None}

    @property
    def ranges(self) -> tuple[Chunk, ...]:
        """The chunks, in the order of the rows.

        Raises:
            StageFailed: after unpickling, if the store has become unusable.
        """
        if self._ranges is None:
            identity, files = _opened(self.folder, self.domain, self.document)
            if identity != self.identity:
                raise unusable("was written again")
            self._ranges = _divided(files)[slice(*self._bounds)]
        return self._ranges

    @property
    def chunks(self) -> int:
        """Number of chunks."""
        return len(self.ranges)

    @property
    def rows(self) -> int:
        """Number of records."""
        return sum(chunk.rows for chunk in self.ranges)

    def part(self, first: int, end: int) -> Self:
        """Return the store of the chunks from `first` to before `end`, numbered from 0."""
        some = copy.copy(self)
        some._ranges = self.ranges[first:end]
        start = self._bounds[0] + first
        some._bounds = (start, start + len(some._ranges))
        return some

    def joined(self) -> Self:
        """Return the store with neighbouring chunks of a file as one, for reading in sequence."""
        some = copy.copy(self)
        some._ranges = tuple(
            Chunk(file, chunks[0].first, sum(chunk.rows for chunk in chunks), chunks[0].file_rows)
            for file, group in itertools.groupby(self.ranges, key=lambda chunk: chunk.file)
            if (chunks := list(group))
        )
        return some

    def is_here(self) -> bool:
        """Return whether the current machine sees this very store in its folder.

        A machine's local disk may hold an older store in a folder of the same path.
        """
        try:
            return _identity(json.loads((self.folder / MANIFEST).read_text("utf-8"))) == (
                self.identity
            )
        except (OSError, ValueError, AttributeError):
            return False

    def read(self, chunk: int) -> tuple[NDArray[Any], ...]:
        """Return the columns of one chunk, read-only views of the mapped file.

        Args:
            chunk: Number of the chunk, below `chunks`.

        Raises:
            StageFailed: if the file disagrees with the manifest.
        """
        return self.read_whole(chunk)[: len(self.domain)]

    def read_whole(self, chunk: int) -> tuple[NDArray[Any], ...]:
        """Return the columns of one chunk, as `StoreWriter.append` takes them."""
        wanted = self.ranges[chunk]
        name = self.folder / wanted.file
        try:
            # The arrays keep the mapping open; it is closed when the last array is freed.
            batch = pa.ipc.open_file(pa.memory_map(str(name))).get_batch(0)
            rows = batch.slice(wanted.first, wanted.rows)
            columns = tuple(rows.column(i).to_numpy() for i in range(rows.num_columns))
        except (OSError, pa.ArrowException) as error:
            raise unusable("is damaged", error) from None
        expected = [*map(stored_type, self.domain.sizes), np.dtype(np.uint64)]
        found = [column.dtype for column in columns]
        if batch.num_rows != wanted.file_rows or found not in (expected, expected[:-1]):
            raise unusable("is damaged")
        return columns

    def codes(self, chunk: int) -> Codes:
        """Return a copy of one chunk as in a `Dataset`, shape (columns, rows)."""
        codes = np.empty((len(self.domain), self.ranges[chunk].rows), self.domain.code_type)
        for row, column in zip(codes, self.read(chunk), strict=True):
            row[:] = column
        return codes


class StoreWriter:
    """Writes a store; as a context manager it completes the store if the block does not raise.

    Args:
        folder: Folder of the store, created if necessary; an earlier store in it is replaced.
        domain: Columns and sizes.
        chunk_rows: Rows of each file; 524,288 by default.
        document: Hash of the rules by which rows are coded; empty by default.
        units: Whether the last column is the hash of each row's unit; False by default.
    """

    def __init__(
        self,
        folder: Path,
        domain: Domain,
        *,
        chunk_rows: int = CHUNK_ROWS,
        document: str = "",
        units: bool = False,
    ) -> None:
        self.folder = Path(folder)
        self.domain = domain
        self.document = document
        self.chunk_rows = chunk_rows
        self._files: list[StoredFile] = []
        self._buffered = 0
        self._finished = False
        kinds = [*map(stored_type, domain.sizes), *[np.dtype(np.uint64)] * units]
        self._names = [*domain.columns, *[UNIT] * units]
        self._columns = [np.empty(chunk_rows, kind) for kind in kinds]

    def __enter__(self) -> StoreWriter:
        self.begin()
        return self

    def begin(self) -> None:
        """Remove the earlier store; for use without a block, which then ends with `finish`."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        # The manifest goes first, so that the store counts as incomplete from here on.
        for old in [
            self.folder / MANIFEST,
            *self.folder.glob("chunk-*"),
            *self.folder.glob("*.units"),
            *self.folder.glob("*.tmp"),
        ]:
            old.unlink(missing_ok=True)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.finish()

    def append(self, columns: Sequence[NDArray[Any]]) -> None:
        """Add rows.

        Args:
            columns: Codes of every column of the domain, shape (rows,), any unsigned type; with
                `units` also the hash of each row's unit.
        """
        rows = len(columns[0])
        start = 0
        while start < rows:
            taken = min(rows - start, self.chunk_rows - self._buffered)
            for buffer, column in zip(self._columns, columns, strict=True):
                buffer[self._buffered : self._buffered + taken] = column[start : start + taken]
            self._buffered += taken
            start += taken
            if self._buffered == self.chunk_rows:
                self._flush()

    def _flush(self) -> None:
        batch = pa.record_batch(
            [pa.array(column[: self._buffered]) for column in self._columns],
            names=self._names,
        )
        name = f"chunk-{len(self._files):06d}.arrow"

        def write(file: int) -> None:
            with (
                os.fdopen(os.dup(file), "wb") as sink,
                pa.ipc.new_file(sink, batch.schema) as writer,
            ):
                writer.write_batch(batch)

        size = write_atomically(self.folder / name, write)
        self._files.append(StoredFile(name, self._buffered, size))
        self._buffered = 0

    def finish(self) -> None:
        """Complete the store; a second call does nothing."""
        if self._finished:
            return
        self._finished = True
        if self._buffered:
            self._flush()
        manifest = {
            "confidential": "Row numbers and codes of the confidential file; not for publication.",
            "format": FORMAT,
            "identity": secrets.token_hex(16),
            "document": self.document,
            "columns": self.domain.columns,
            "sizes": self.domain.sizes,
            "chunks": [{"file": f.file, "rows": f.rows, "bytes": f.bytes} for f in self._files],
        }
        text = json.dumps(manifest).encode()
        write_atomically(self.folder / MANIFEST, lambda file: _write_all(file, text))


def write_atomically(path: Path, write: Callable[[int], object]) -> int:
    """Write a file of mode 0600 completely or not at all; return its length in bytes.

    Args:
        path: Final name of the file.
        write: Called with the open file descriptor to write to.
    """
    temporary = path.with_name(path.name + ".tmp")
    file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        write(file)
        os.fsync(file)
        size = os.fstat(file).st_size
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    finally:
        os.close(file)
    temporary.rename(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # so that the new name survives a power failure
    finally:
        os.close(folder)
    return size


class RecodedStore(CodeStore):
    """A store read in coarser codes; nothing is written. Confidential."""

    def __init__(self, store: CodeStore, recoding: Recoding) -> None:
        """Read a store of finer codes.

        Args:
            store: A complete store.
            recoding: Recoding from its codes to coarser ones.
        """
        self._store = store
        self._recoding = recoding
        self.folder, self.document, self.identity = store.folder, store.document, store.identity
        # privacy: recoding changes single cells, never the shares of a household.
        self.domain = replace(recoding.domain, linked=store.domain.linked)

    @property
    def ranges(self) -> tuple[Chunk, ...]:
        """The chunks, in the order of the rows."""
        return self._store.ranges

    def part(self, first: int, end: int) -> Self:
        """Return the store of the chunks from `first` to before `end`, numbered from 0."""
        some = copy.copy(self)
        some._store = self._store.part(first, end)
        return some

    def joined(self) -> Self:
        """Return the store with neighbouring chunks of a file as one, for reading in sequence."""
        some = copy.copy(self)
        some._store = self._store.joined()
        return some

    def read(self, chunk: int) -> tuple[NDArray[Any], ...]:
        """Return the columns of one chunk."""
        columns = zip(self.domain.columns, self.domain.sizes, self._store.read(chunk), strict=True)
        return tuple(
            self._recoding.codes(name, codes).astype(stored_type(size), copy=False)
            for name, size, codes in columns
        )


def _opened(folder: Path, domain: Domain, document: str) -> tuple[str, tuple[StoredFile, ...]]:
    """Return the identity and the files of a complete store of a domain and a document.

    Raises:
        StageFailed: if it is incomplete, truncated, or was made for another schema.
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
        files = tuple(StoredFile(**file) for file in manifest["chunks"])
        made_for = (manifest["format"], manifest["columns"], manifest["sizes"])
        identity = _identity(manifest)
        whole = all((folder / each.file).stat().st_size == each.bytes for each in files)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise unusable("is incomplete", error) from None
    if not whole:
        raise unusable("has a file of the wrong length")
    if made_for != (FORMAT, list(domain.columns), list(domain.sizes)):
        raise unusable("was made for another schema")
    # privacy: units are limited, and cells coded, as the reserved document says.
    if document and manifest.get("document") != document:
        raise unusable("was made under another document than the ledger reserved")
    return identity, files


def _divided(files: Sequence[StoredFile]) -> tuple[Chunk, ...]:
    """Return the chunks of some files: equal parts of each file."""
    rows = sum(each.rows for each in files)
    most = min(CHUNK_ROWS, max(FEWEST_ROWS, math.ceil(rows / CHUNKS)))
    found: list[Chunk] = []
    for each in files:
        parts = max(1, math.ceil(each.rows / most))
        edges = [each.rows * part // parts for part in range(parts + 1)]
        found += [
            Chunk(each.file, first, end - first, each.rows)
            for first, end in itertools.pairwise(edges)
        ]
    return tuple(found)


def _identity(manifest: Mapping[str, object]) -> str:
    # Stores written by earlier versions have none.
    return str(manifest.get("identity", ""))


def _write_all(file: int, content: bytes) -> None:
    with os.fdopen(os.dup(file), "wb") as sink:
        sink.write(content)
