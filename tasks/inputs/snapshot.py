"""Snapshots of database tables: Parquet files in the run's confidential folder.

A snapshot is written to a temporary folder, which is renamed when all is on disk, so a snapshot is
complete or does not exist. From then on the release reads only the snapshot and can be resumed days
later, although the database changes. It is deleted together with the run's codes.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dp_core.confidential.source import RowSource
from dp_core.kernel.canonical import canonical_json
from dp_core.plan.data_location import DatabaseTable
from tasks.support.run_folder import sync_folder

FORMAT = 1
NAME = "snapshot"
MANIFEST = "snapshot.json"
GROUP_ROWS = 1 << 17
"""Rows of a Parquet row group, which is held in memory until it is full."""
PART_ROWS = 1 << 21
"""Rows of a file of the snapshot."""


def has_snapshot(folder: Path) -> bool:
    """Return whether a snapshot was written to a folder; nothing of it is read."""
    return (folder / NAME / MANIFEST).exists()


def open_snapshot(folder: Path, place: DatabaseTable, columns: Sequence[str]) -> RowSource | None:
    """Return the complete snapshot in a folder; None if there is none of this table and columns.

    Args:
        folder: Confidential folder of the run.
        place: The table.
        columns: Columns to read.
    """
    home = folder / NAME
    try:
        told = json.loads((home / MANIFEST).read_bytes())
        if told["format"] != FORMAT or told["of"] != _about(place, columns):
            return None
        parts = [home / part["name"] for part in told["parts"]]
        sizes = [part["size"] for part in told["parts"]]
        if not parts or [path.stat().st_size for path in parts] != sizes:
            return None
        for path in parts:
            pq.read_metadata(path)
        return RowSource(parts, columns, frozenset(told["untyped"]))
    except (OSError, ValueError, LookupError, TypeError):
        return None


class SnapshotWriter:
    """Writes the rows of a snapshot in pieces; made by `new_snapshot`.

    Attributes:
        parts: Paths of the files written so far.
        rows: Number of rows written so far.
    """

    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        """Create a writer.

        Args:
            folder: Existing folder of the files.
            schema: Arrow schema of the rows.
        """
        self._folder = folder
        self._schema = schema
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._part: tuple[pq.ParquetWriter, Any] | None = None
        self._part_rows = 0
        self.parts: list[Path] = []
        self.rows = 0

    def append(self, records: pa.RecordBatch) -> None:
        """Add a batch of rows."""
        self._waiting.append(records)
        self._waiting_rows += records.num_rows
        if self._waiting_rows >= GROUP_ROWS:
            self._write_group()

    def finish(self) -> None:
        """Write the rows that are still in memory, and sync the file to disk."""
        if self._waiting_rows:
            self._write_group()
        self._end_part()

    def close(self) -> None:
        """Close the open file; errors are ignored."""
        with contextlib.suppress(Exception):
            self._end_part()

    def _write_group(self) -> None:
        if self._part is None:
            path = self._folder / f"part-{len(self.parts) + 1:05d}.parquet"
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            file = os.fdopen(handle, "wb")
            self._part = (pq.ParquetWriter(file, self._schema), file)
            self.parts.append(path)
        writer, _ = self._part
        writer.write_table(pa.Table.from_batches(self._waiting, self._schema))
        self.rows += self._waiting_rows
        self._part_rows += self._waiting_rows
        self._waiting, self._waiting_rows = [], 0
        if self._part_rows >= PART_ROWS:
            self._end_part()

    def _end_part(self) -> None:
        if self._part is None:
            return
        (writer, file), self._part, self._part_rows = self._part, None, 0
        try:
            writer.close()
            file.flush()
            os.fsync(file.fileno())
        finally:
            file.close()


@contextmanager
def new_snapshot(
    folder: Path,
    place: DatabaseTable,
    schema: pa.Schema,
    untyped: frozenset[str],
) -> Iterator[SnapshotWriter]:
    """Take a snapshot, which is complete and on disk if the block succeeds, else deleted.

    Args:
        folder: Confidential folder of the run; an earlier snapshot in it is deleted.
        place: The table.
        schema: Arrow schema of the batches that are appended.
        untyped: Columns that hold numbers, dates or times as text.

    Yields:
        The writer of the rows.
    """
    forget_snapshots(folder)
    temporary = Path(tempfile.mkdtemp(prefix=f"{NAME}-", suffix=".tmp", dir=folder))
    writer = SnapshotWriter(temporary, schema)
    try:
        yield writer
        writer.finish()
        told = {
            "format": FORMAT,
            "of": _about(place, schema.names),
            "untyped": sorted(untyped),
            "rows": writer.rows,
            "parts": [{"name": path.name, "size": path.stat().st_size} for path in writer.parts],
        }
        handle = os.open(temporary / MANIFEST, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(canonical_json(told))
            file.flush()
            os.fsync(file.fileno())
        sync_folder(temporary)
        temporary.rename(folder / NAME)
        sync_folder(folder)
    except BaseException:
        writer.close()
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def forget_snapshots(folder: Path) -> None:
    """Delete the snapshot in a folder, and temporary folders that a crash left."""
    for path in [folder / NAME, *folder.glob(f"{NAME}-*.tmp")]:
        shutil.rmtree(path, ignore_errors=True)


def _about(place: DatabaseTable, columns: Sequence[str]) -> dict[str, object]:
    return {"table": place.document(), "columns": list(columns)}
