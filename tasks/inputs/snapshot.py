"""A table of a database as it was at one moment: Parquet parts in the run's confidential folder.

Written under another name and renamed when it is whole and on disk, so that a snapshot is complete
or not there. From then on a release reads nothing else: it can stop and go on for days while the
database changes. It goes away with the run's codes and counts.
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

from dp_core.confidential.row_digest import RowDigest
from dp_core.confidential.source import Source
from dp_core.documents.canonical import canonical_json
from dp_core.spec.data_location import DatabaseTable
from tasks.support.run_folder import sync_folder

FORMAT = 1
NAME = "snapshot"
MANIFEST = "snapshot.json"
GROUP_ROWS = 1 << 17
"""Rows of a row group; held in memory until it is full."""
PART_ROWS = 1 << 21


class SnapshotSource(Source):
    """The rows of a table, as they were when the snapshot was taken.

    Attributes:
        decimals: Columns that hold decimal numbers as text, each as the database wrote it.
    """

    def __init__(
        self, files: Sequence[Path], columns: Sequence[str], decimals: frozenset[str]
    ) -> None:
        """Open the parts; `open_snapshot` finds them.

        Args:
            files: Parts.
            columns: The wanted columns.
            decimals: Those that hold decimal numbers as text.
        """
        super().__init__(files, "parquet", columns)
        self.decimals = decimals

    def digest(self, key: bytes) -> str:
        """Return the keyed hash of the rows, whatever their order and their storage types.

        Privacy:
            So a table that is read again in another order is the input that the ledger knows.
        """
        digest = RowDigest(key, self.columns, self.decimals)
        for batch in self.batches():
            digest.add(batch.records)
        return digest.hexdigest()


def open_snapshot(
    folder: Path, place: DatabaseTable, columns: Sequence[str]
) -> SnapshotSource | None:
    """Return the finished snapshot of a folder, None where there is none of these columns.

    Args:
        folder: Confidential folder of the run.
        place: Which table.
        columns: The wanted columns.
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
        return SnapshotSource(parts, columns, frozenset(told["decimals"]))
    except (OSError, ValueError, LookupError, TypeError):
        return None


class SnapshotWriter:
    """Takes rows in pieces; see `new_snapshot`."""

    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        """Write parts into a folder that exists."""
        self._folder = folder
        self._schema = schema
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._part: tuple[pq.ParquetWriter, Any] | None = None
        self._part_rows = 0
        self.parts: list[Path] = []
        self.rows = 0

    def append(self, records: pa.RecordBatch) -> None:
        """Add rows of the schema."""
        self._waiting.append(records)
        self._waiting_rows += records.num_rows
        if self._waiting_rows >= GROUP_ROWS:
            self._write_group()

    def finish(self) -> None:
        """Write what waits, and bring it to the disk."""
        if self._waiting_rows:
            self._write_group()
        self._end_part()

    def close(self) -> None:
        """Let go of the file that is open, whatever happened."""
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
    decimals: frozenset[str],
) -> Iterator[SnapshotWriter]:
    """Take a snapshot: whole, and on disk, when the block ends well; otherwise nothing of it.

    Args:
        folder: Confidential folder of the run.
        place: Which table.
        schema: Of the batches that are appended.
        decimals: Columns that hold decimal numbers as text.
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
            "decimals": sorted(decimals),
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
    """Delete a snapshot that cannot be used, and what a crash left of one."""
    for path in [folder / NAME, *folder.glob(f"{NAME}-*.tmp")]:
        shutil.rmtree(path, ignore_errors=True)


def _about(place: DatabaseTable, columns: Sequence[str]) -> dict[str, object]:
    return {"table": place.document(), "columns": list(columns)}
