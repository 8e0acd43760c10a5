"""The data that a person gives: files, or frames in memory, judged and read in the same way."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from dp_core.confidential.data_files import Kind, kind_of, matching_files
from dp_core.confidential.source import MemorySource, Source
from dp_core.errors import BadInput
from dp_core.inspection.file_content import encoding_finding, wrong_encoding
from dp_core.inspection.findings import Finding
from dp_core.inspection.header_check import (
    Header,
    check_header,
    ragged_finding,
    readable_or_refused,
    typed_header,
)
from dp_core.kernel.coding.raw_rows import BATCH_ROWS
from dp_core.schema.definition import Schema


@dataclass(frozen=True, slots=True)
class FileData:
    """CSV or Parquet files that together are the file of a release.

    Attributes:
        files: Their paths, at least one.
        kind: Their kind by name.
    """

    files: tuple[Path, ...]
    kind: Kind

    @property
    def name(self) -> str:
        """Name of the first file, for messages."""
        return self.files[0].name

    def each(self) -> Sequence[FileData]:
        """Return the parts that have a header of their own."""
        return [FileData((path,), self.kind) for path in self.files]

    def header(self, schema: Schema) -> Header:
        """Return what the header of a single part has, compared with the schema."""
        return check_header(self.files[0], self.kind, schema)

    def source(self, columns: Sequence[str]) -> Source:
        """Return the rows; the columns are named as in the data, whose header was checked."""
        return Source(self.files, self.kind, columns)

    def unread(self, error: BadInput) -> Finding:
        """Return the finding about rows that cannot be read; it names the rows if it can."""
        for path in self.files if self.kind == "csv" else ():
            if "UTF-8" in error.message:
                opener: Callable[..., Any] = gzip.open if path.suffix.lower() == ".gz" else open
                with opener(path, "rb") as lines:
                    for number, line in enumerate(lines, start=1):
                        if (encoding := wrong_encoding(line)) is not None:
                            text = line.decode("cp1252", errors="replace").strip()
                            return encoding_finding(encoding, line=number, text=text[:80])
            ragged = ragged_finding(path) if "more or fewer fields" in error.message else None
            if ragged is not None:
                return ragged.about(path.name if len(self.files) > 1 else "")
        return readable_or_refused(error)


@dataclass(frozen=True, slots=True, eq=False)
class FrameData:
    """Rows in memory.

    Attributes:
        types: Columns and types of the rows.
        batches: Returns all rows, each time it is called.
        name: Name for messages, such as that of its wave; empty (the default) if it has none.
    """

    types: pa.Schema
    batches: Callable[[], Iterable[pa.RecordBatch]]
    name: str = ""

    @classmethod
    def of(cls, table: pa.Table, name: str = "") -> FrameData:
        """Return a frame, as `frame_table` returns it."""
        return cls(table.schema, partial(table.to_batches, max_chunksize=BATCH_ROWS), name)

    def each(self) -> Sequence[FrameData]:
        return [self]

    def header(self, schema: Schema) -> Header:
        return typed_header(self.types, schema)

    def source(self, columns: Sequence[str]) -> MemorySource:
        return MemorySource(self.types, self.batches, columns)

    def unread(self, error: BadInput) -> Finding:
        return readable_or_refused(error)


Data: TypeAlias = FileData | FrameData
"""The rows of one table, or of one wave of a panel. Confidential."""


def file_data(patterns: Sequence[str]) -> FileData:
    """Return the files of several paths or globs.

    Args:
        patterns: Paths or globs of CSV or Parquet files, all of one kind.

    Raises:
        BadInput: if a pattern matches no file, or files are of unknown or of different kinds.
    """
    found = (matching_files(one, Path(), "this folder") for one in patterns)
    files = tuple(dict.fromkeys(path for each in found for path in each))
    kinds = {kind_of(path) for path in files}
    if len(kinds) > 1:
        raise BadInput("The files are of different kinds; name CSV files or Parquet files only.")
    return FileData(files, kinds.pop())
