"""`marginals.parquet`: every noisy table, one row per cell.

| column    | type             | meaning                                                          |
|-----------|------------------|------------------------------------------------------------------|
| table     | int32            | running number of the table in this file, from 1                 |
| stage     | string           | stage that paid: total, one_way, measure                         |
| replicate | int16            | set the table was measured for; 0: shared by all sets            |
| columns   | list of string   | the table's columns                                              |
| cell      | list of uint16   | code of each column                                              |
| labels    | list of string   | what the codes stand for                                         |
| count     | int64            | noisy number of records; may be negative                         |
| noise     | string           | laplace or gaussian (both discrete)                              |
| scale     | double           | its parameter in records: b of the Laplace, sigma of the Gaussian |
| grant     | int64            | number of the ledger receipt that paid for the table             |

Every cell of a table is there, in row-major order, so the file restores the tables exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dp_core.bundle.parquet_file import write_parquet
from dp_core.domain import Domain
from dp_core.errors import BadInput
from dp_core.marginals import Measurement
from dp_core.schema import Schema

_TEXT = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema(
    [
        ("table", pa.int32()),
        ("stage", _TEXT),
        ("replicate", pa.int16()),
        ("columns", pa.list_(_TEXT)),
        ("cell", pa.list_(pa.uint16())),
        ("labels", pa.list_(_TEXT)),
        ("count", pa.int64()),
        ("noise", _TEXT),
        ("scale", pa.float64()),
        ("grant", pa.int64()),
    ]
)
_PIECE = 1 << 17
_STAGES = ("total", "one_way", "select", "measure", "checks")
_NOISES = ("laplace", "gaussian")
_MOST_CELLS = 2**31


def write_marginals(path: Path, measurements: Sequence[Measurement], schema: Schema) -> int:
    """Write all noisy tables and return the number of rows (cells).

    Args:
        path: File to write.
        measurements: Noisy tables, in the order they are to be numbered.
        schema: Gives every code its label.

    Raises:
        StageFailed: if the disk is full or the file cannot be written.
    """
    labels = _Labels(schema)
    # Small tables share a piece, large ones are cut: neither 200 tiny groups nor one huge one.
    return write_parquet(path, SCHEMA, _gathered(_pieces(measurements, labels)))


class _Labels:
    """One dictionary of all columns' labels: code `c` of column `x` is entry `first[x] + c`."""

    def __init__(self, schema: Schema) -> None:
        texts: list[str] = []
        self.first: dict[str, int] = {}
        for column in schema.columns:
            self.first[column.name] = len(texts)
            texts.extend(column.code_labels())
        self.columns = {column.name: index for index, column in enumerate(schema.columns)}
        # Parquet keeps a dictionary's first spelling only, so repeated labels share one entry.
        known = list(dict.fromkeys(texts))
        position = {text: index for index, text in enumerate(known)}
        self.entry = np.array([position[text] for text in texts], dtype=np.int32)
        self.labels = pa.array(known, pa.string())
        self.names = pa.array(list(self.columns), pa.string())


def _pieces(measurements: Sequence[Measurement], labels: _Labels) -> Iterator[pa.Table]:
    for number, table in enumerate(measurements, start=1):
        cells = table.values.size
        for start in range(0, cells, _PIECE):
            yield _piece(number, table, labels, start, min(start + _PIECE, cells))


def _gathered(pieces: Iterator[pa.Table]) -> Iterator[pa.Table]:
    waiting: list[pa.Table] = []
    rows = 0
    for piece in pieces:
        waiting.append(piece)
        rows += piece.num_rows
        if rows >= _PIECE:
            yield pa.concat_tables(waiting)
            waiting, rows = [], 0
    if waiting:
        yield pa.concat_tables(waiting)


def _piece(number: int, table: Measurement, labels: _Labels, start: int, stop: int) -> pa.Table:
    rows, width = stop - start, len(table.domain)
    flat = np.arange(start, stop, dtype=np.int64)
    codes = np.empty((rows, width), dtype=np.uint16)
    for axis in range(width - 1, -1, -1):
        flat, codes[:, axis] = np.divmod(flat, table.domain.sizes[axis])
    first = np.array([labels.first[column] for column in table.clique], dtype=np.int64)
    names = np.array([labels.columns[column] for column in table.clique], dtype=np.int32)
    entries = labels.entry[codes.astype(np.int64) + first] if width else codes
    offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * width)

    def lists(values: pa.Array) -> pa.Array:
        return pa.ListArray.from_arrays(offsets, values)

    def texts(index: NDArray[Any], words: pa.Array) -> pa.Array:
        return pa.DictionaryArray.from_arrays(pa.array(index.astype(np.int32)), words)

    def constant(word: str, words: tuple[str, ...]) -> pa.Array:
        return texts(np.full(rows, words.index(word)), pa.array(words, pa.string()))

    return pa.Table.from_arrays(
        [
            pa.array(np.full(rows, number, dtype=np.int32)),
            constant(table.stage, _STAGES),
            pa.array(np.full(rows, table.replicate, dtype=np.int16)),
            lists(texts(np.tile(names, rows), labels.names)),
            lists(pa.array(codes.ravel())),
            lists(texts(entries.ravel(), labels.labels)),
            pa.array(table.values.ravel()[start:stop].astype(np.int64, copy=False)),
            constant(table.noise, _NOISES),
            pa.array(np.full(rows, table.scale, dtype=np.float64)),
            pa.array(np.full(rows, table.grant, dtype=np.int64)),
        ],
        schema=SCHEMA,
    )


def read_marginals(path: Path) -> tuple[Measurement, ...]:
    """Return the noisy tables of a file that `write_marginals` wrote, in its order.

    Raises:
        BadInput: if the file is missing, is not such a file, or a table of it is not complete.
    """
    try:
        with pq.ParquetFile(path) as file:
            wanted = [field.name for field in SCHEMA if field.name != "labels"]
            if not set(wanted) <= set(file.schema_arrow.names):
                raise BadInput(f"{path} is not a file of noisy tables: it lacks columns.")
            return tuple(_tables(path, _groups(file, wanted)))
    except (OSError, pa.ArrowException, ValueError, OverflowError, MemoryError) as error:
        raise BadInput(
            f"{path} cannot be read as a file of noisy tables; fetch the release again."
        ) from error


def _groups(file: pq.ParquetFile, wanted: list[str]) -> Iterator[pa.Table]:
    for index in range(file.num_row_groups):
        group = file.read_row_group(index, columns=wanted)
        yield (
            group.select(wanted)
            .cast(pa.schema([SCHEMA.field(name) for name in wanted]))
            .combine_chunks()
        )


def _tables(path: Path, groups: Iterator[pa.Table]) -> Iterator[Measurement]:
    """Cut row groups at changes of the table number; a table may span several groups."""
    open_: list[pa.Table] = []
    current: int | None = None
    seen: set[int] = set()
    for group in groups:
        if not group.num_rows:
            continue
        if any(group.column(name).null_count for name in group.column_names):
            raise BadInput(f"{path} has empty entries, which no noisy table has.")
        numbers = group.column("table").to_numpy()
        cuts = np.flatnonzero(np.diff(numbers)) + 1
        for start, stop in pairwise((0, *cuts.tolist(), group.num_rows)):
            number = int(numbers[start])
            if number != current:
                if open_:
                    yield _restored(path, open_)
                if number in seen:
                    raise BadInput(f"{path} holds table {number} in two places.")
                seen.add(number)
                open_, current = [], number
            open_.append(group.slice(start, stop - start))
    if open_:
        yield _restored(path, open_)


def _restored(path: Path, pieces: list[pa.Table]) -> Measurement:
    table = pa.concat_tables(pieces).unify_dictionaries().combine_chunks()
    number = table.column("table")[0].as_py()
    wrong = BadInput(
        f"{path}: table {number} is not a complete noisy table; fetch the release again."
    )
    fixed = {}
    for name in ("stage", "replicate", "noise", "scale", "grant"):
        values = table.column(name).unique()
        if len(values) != 1:
            raise wrong
        fixed[name] = values[0].as_py()
    lists, cells = table.column("columns"), table.column("cell")
    columns = tuple(lists[0].as_py())
    width, rows = len(columns), table.num_rows
    # Indices, not texts: a dictionary holds each name once.
    names = _flat(lists).indices.to_numpy(zero_copy_only=False)
    codes = _flat(cells).to_numpy(zero_copy_only=False)
    if names.size != width * rows or codes.size != width * rows:
        raise wrong
    if width and not (names.reshape(rows, width) == names[:width]).all():
        raise wrong
    grid = codes.reshape(rows, width).astype(np.int64)
    sizes = tuple(int(code) + 1 for code in grid.max(axis=0)) if width else ()
    flat = np.zeros(rows, dtype=np.int64)
    total = 1
    for axis, size in enumerate(sizes):
        flat = flat * size + grid[:, axis]
        total *= size
        if total > _MOST_CELLS:
            raise wrong
    if total != rows or not np.array_equal(flat, np.arange(rows)):
        raise wrong
    if fixed["noise"] not in _NOISES or not fixed["scale"] > 0:
        raise wrong
    return Measurement(
        domain=Domain(columns, sizes),
        values=table.column("count").to_numpy().astype(np.int64).reshape(sizes),
        noise=fixed["noise"],
        scale=fixed["scale"],
        stage=fixed["stage"],
        replicate=fixed["replicate"],
        grant=fixed["grant"],
    )


def _flat(lists: pa.ChunkedArray) -> Any:
    array = lists.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0)
    return array.flatten()
