"""Synthetic sets as Parquet."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from dp_core.bundle.files.parquet_file import write_parquet


def write_synthetic(path: Path, tables: Iterable[pa.Table]) -> int:
    """Write one synthetic set, piece by piece, and return its number of rows.

    The file's bytes depend on the rows only, not on how they were cut into pieces. Its folder is
    made if need be; the file appears under its name when it is complete.

    Args:
        path: For example `synthetic/set-1.parquet`.
        tables: Pieces in order, of one Arrow schema, decoded to the schema's labels and units; at
            least one (it may be empty), for its column names.

    Raises:
        ValueError: if there is no piece at all.
        StageFailed: if the disk is full or the file cannot be written.
    """
    pieces = iter(tables)
    first = next(pieces, None)
    if first is None:
        raise ValueError("A synthetic set needs at least one piece, to know its columns.")
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_parquet(path, first.schema, itertools.chain([first], pieces))
