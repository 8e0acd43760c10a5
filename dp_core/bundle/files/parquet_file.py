"""Parquet files whose bytes depend on their content only; a file is complete or absent."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dp_core.errors import StageFailed

ROW_GROUP = 1 << 17
"""Rows of every row group but the last."""


def write_parquet(
    path: Path,
    schema: pa.Schema,
    tables: Iterable[pa.Table],
    *,
    metadata: Mapping[str, str] | None = None,
) -> int:
    """Write tables of one schema as one file and return its number of rows.

    The bytes depend on the rows only, not on how they were cut into tables: metadata of tools is
    dropped, and rows are regrouped to `ROW_GROUP`. The file gets its name only when it is complete
    and on disk.

    Args:
        path: File to write; an older one is replaced.
        schema: Columns; its metadata is not written.
        tables: Pieces in order; one piece and one row group are in memory at a time.
        metadata: Texts that the file's schema states; none by default.

    Raises:
        StageFailed: if the disk is full or the file cannot be written.
    """
    schema = schema.remove_metadata()
    partial = path.with_name(f".{path.name}.partial")
    rows = 0
    with writing(path, partial):
        with pq.ParquetWriter(
            partial,
            schema.with_metadata(metadata) if metadata else schema,
            compression="zstd",
            version="2.6",
            write_statistics=False,
            store_schema=True,
        ) as writer:
            for group in _row_groups(schema, tables):
                writer.write_table(group, row_group_size=ROW_GROUP)
                rows += group.num_rows
        settle(partial)
        os.replace(partial, path)
    return rows


def write_synthetic(
    path: Path, tables: Iterable[pa.Table], metadata: Mapping[str, str] | None = None
) -> int:
    """Write one synthetic set, making its folder if necessary, and return its number of rows.

    Args:
        path: For example `synthetic/set-1.parquet`.
        tables: Pieces in order, of one Arrow schema, decoded to the schema's labels and units; at
            least one, which may be empty.
        metadata: What the file says of itself (`set_metadata`); by default nothing.

    Raises:
        ValueError: if there is no piece.
        StageFailed: if the disk is full or the file cannot be written.
    """
    pieces = iter(tables)
    first = next(pieces, None)
    if first is None:
        raise ValueError(
            "A synthetic set needs at least one piece, from which it takes its columns."
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_parquet(path, first.schema, itertools.chain([first], pieces), metadata=metadata)


def read_parquet(path: Path, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield some columns of a file, at most `ROW_GROUP` rows at a time.

    It reads group by group, because a reader of all groups keeps the whole file in memory.

    Raises:
        OSError: if there is no such file.
        pa.ArrowException: if it is not Parquet, or damaged.
    """
    with pq.ParquetFile(path) as file:
        for group in range(file.num_row_groups):
            yield from file.iter_batches(ROW_GROUP, row_groups=[group], columns=list(columns))


def _row_groups(schema: pa.Schema, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    waiting: list[pa.Table] = []
    rows = 0
    for table in tables:
        piece = table.replace_schema_metadata(None).cast(schema)
        while rows + piece.num_rows >= ROW_GROUP:
            head = piece.slice(0, ROW_GROUP - rows)
            yield _concatenate([*waiting, head])
            piece = piece.slice(head.num_rows)
            waiting, rows = [], 0
        if piece.num_rows:
            waiting.append(piece)
            rows += piece.num_rows
    if waiting:
        yield _concatenate(waiting)


def _concatenate(pieces: list[pa.Table]) -> pa.Table:
    # One chunk per column and unified dictionaries, so that bytes do not depend on the pieces.
    return pa.concat_tables(pieces).unify_dictionaries().combine_chunks()


@contextlib.contextmanager
def writing(path: Path, partial: Path) -> Iterator[None]:
    """Raise `StageFailed` for a failed write, and remove the partial file after any exception."""
    try:
        yield
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise write_failure(path, error) from None
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def write_failure(path: Path, error: OSError) -> StageFailed:
    """Return the error for a file that could not be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StageFailed(
            f"The disk is full: {path} could not be written. Free some space and resume.",
            row="disk-full",
        )
    reason = error.strerror or "the system refused"
    return StageFailed(
        f"{path} could not be written ({reason}). Fix the cause and resume.", row="not-written"
    )


def settle(path: Path) -> None:
    """Sync a file or a folder to disk, and make a file readable by all."""
    if not path.is_dir():
        path.chmod(0o644)
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
