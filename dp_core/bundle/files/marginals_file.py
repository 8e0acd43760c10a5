"""`marginals.parquet`: everything that was measured, one row per noisy number.

`COLUMNS` describes the columns. The column `kind` tells what a measurement consists of:

- `table`: every cell, in row-major order.
- `sparse`: only the cells that passed the threshold, in ascending order. If none did, one row
  without a cell represents the measurement.
- `cells`: single cells of tables, each measured separately.
- `parities`: numbers of records with an even number of ones among two-valued columns, without cell.
- `totals`: sums over all records, without cell, in the order and the unit that `of` states. An
  interaction is a total: `Interaction.spread` turns its numbers into a table.

The measurements can be restored from the file exactly.

In a release of linked tables, `count` is a number of households and has the type `float64`: a noisy
whole number of shares divided by the shares S of a household. (If households have one member at
most, S is 1, and counts are whole numbers.) `scale` is that of the noise in
shares divided by S, so that the variance of a count is in households squared. The file's metadata
state S (`SHARES`). The whole number of shares that the ledger committed is the count times S,
rounded (`dp_core.client.household_values`); `verify` compares it with the
receipt.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dp_core.accounts.requested import PAYING_STAGES
from dp_core.bundle.files.parquet_file import write_parquet
from dp_core.client.released import Answers, Measurement, Records, Released, SparseTable, Totals
from dp_core.errors import BadInput
from dp_core.kernel.canonical import canonical_json
from dp_core.kernel.codes import Codes
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.counting.sparse_cells import pack
from dp_core.kernel.questions.counting_queries import Cells, Parities, Queries
from dp_core.kernel.questions.linear_questions import Interaction
from dp_core.kernel.questions.statistic import Sum
from dp_core.kernel.questions.vetted import sum_from_json
from dp_core.schema.definition import Schema
from dp_core.tables.cliques import shares_of

_TEXT = pa.dictionary(pa.int32(), pa.string())
COLUMNS: Mapping[str, tuple[pa.DataType, str]] = {
    "table": (pa.int32(), "Running number of the measurement, from 1."),
    "kind": (
        _TEXT,
        "table: all cells of a table; sparse: only cells above a threshold; cells: single cells;"
        " parities: numbers of records with an even number of ones; totals: sums over the records,"
        " including interactions, and trends of pairs as the score of one column on the other at 0"
        " (named in `of`).",
    ),
    "stage": (_TEXT, "Stage of the release that paid for it: domain, total, one_way or measure."),
    "replicate": (
        pa.int16(),
        "Synthetic set for which it was measured; 0 if all sets share it.",
    ),
    "round": (
        pa.int32(),
        "Round in which it was measured, from 1; 0 if the method has no rounds.",
    ),
    "columns": (pa.list_(_TEXT), "Columns of the table, as a list."),
    "sizes": (pa.list_(pa.int32()), "Number of codes of each of them, as a list."),
    "cell": (
        pa.list_(pa.uint32()),
        "Code of each column, as a list; `bins` and `levels` define the codes.",
    ),
    "labels": (pa.list_(_TEXT), "Labels of the codes, as a list."),
    "count": (
        pa.int64(),
        "Noisy number of records; may be negative, and tables need not agree.",
    ),
    "noise": (_TEXT, "Discrete Laplace or discrete Gaussian noise (laplace, gaussian)."),
    "scale": (
        pa.float64(),
        "Parameter of the noise in records: b of the Laplace, sigma of the Gaussian.",
    ),
    "threshold": (pa.int64(), "Smallest noisy count that was kept; 0 without a threshold."),
    "capacity": (
        pa.int64(),
        "Largest number of cells that could be kept; 0 without a threshold.",
    ),
    "grant": (pa.int64(), "Number of the ledger receipt that paid for the table."),
    "of": (_TEXT, "Query of a total, as JSON: what was summed over the records; otherwise empty."),
}
"""Type and description of each column, in the order of the file."""
SCHEMA = pa.schema([(name, kind) for name, (kind, _) in COLUMNS.items()])
UNIT, SHARES = "dp-release.unit", "dp-release.shares"
"""Metadata of the file of linked tables: the unit of its counts, and the shares of a unit."""
_PIECE = 1 << 17
_STAGES = PAYING_STAGES
_NOISES = ("laplace", "gaussian")
_KINDS = ("table", "sparse", "cells", "parities", "totals")
_MOST_CELLS = 2**31
_IN_HOUSEHOLDS: Mapping[str, tuple[pa.DataType, str]] = {
    "count": (
        pa.float64(),
        "Noisy number of households; may be negative, and tables need not agree. In a table of a"
        " member's columns, each member of a household of s persons counts 1/s; in a table of two"
        " members, each ordered pair counts 1/(s(s - 1)). The count times the shares of a household"
        " (in the metadata) is a whole number, except for rounding in the last digit.",
    ),
    "scale": (
        pa.float64(),
        "Parameter of the noise in households: b of the Laplace, sigma of the Gaussian.",
    ),
}
"""Columns that differ in a release of linked tables."""
_FIXED = ("stage", "replicate", "round", "noise", "scale", "grant")
_KIND = ("kind", "threshold", "capacity", "of")


Measured: TypeAlias = Measurement | Answers | SparseTable | Totals
"""A measurement; records made by a method are not measurements."""


def marginal_columns(schema: Schema) -> Mapping[str, tuple[pa.DataType, str]]:
    """Return type and description of each column of a release's file, in the order of the file."""
    return COLUMNS if shares_of(schema.domain) == 1 else {**COLUMNS, **_IN_HOUSEHOLDS}


def write_marginals(path: Path, released: Sequence[Released], schema: Schema) -> int:
    """Write all measurements and return the number of rows (noisy numbers).

    Args:
        path: File to write.
        released: Releases in the order in which measurements are numbered; records are left out.
        schema: Schema with the label of every code.

    Raises:
        StageFailed: if the disk is full or the file cannot be written.
    """
    measured = [item for item in released if not isinstance(item, Records)]
    labels = _Labels(schema)
    pieces = _pieces(measured, labels)
    return write_parquet(path, labels.arrow, pieces, metadata=_unit_metadata(schema))


class _Labels:
    """Labels of all columns in one dictionary: code `c` of column `x` is entry `first[x] + c`."""

    def __init__(self, schema: Schema) -> None:
        texts: list[str] = []
        self.domain = schema.domain
        self.first: dict[str, int] = {}
        for column in schema.columns:
            self.first[column.name] = len(texts)
            texts.extend(column.code_labels())
        self.columns = {column.name: index for index, column in enumerate(schema.columns)}
        # Parquet keeps each text once, so repeated labels share one entry.
        encoded = pa.array(texts, pa.string()).dictionary_encode()
        self.entry = encoded.indices.to_numpy().astype(np.int32)
        self.labels = encoded.dictionary
        self.names = pa.array(list(self.columns), pa.string())
        columns = marginal_columns(schema)
        self.arrow = pa.schema([(name, kind) for name, (kind, _) in columns.items()])


def _pieces(measured: Sequence[Measured], labels: _Labels) -> Iterator[pa.Table]:
    none = np.empty((1, 0), dtype=np.uint32)
    for number, item in enumerate(measured, start=1):
        values = item.values.ravel()
        if isinstance(item, Answers):
            kind, asked = _query_cells(item.queries)
            for position, (clique, codes) in enumerate(asked):
                row = values[position : position + 1]
                domain = labels.domain.project(clique)
                yield _piece(number, item, labels, kind, domain, codes, row)
        elif isinstance(item, Totals):
            domain = labels.domain.project(item.of.clique)
            yield _piece(number, item, labels, "totals", domain, none, values)
        elif isinstance(item, SparseTable) and not values.size:
            # A row without a cell represents a table of which no cell was kept.
            yield _piece(number, item, labels, "sparse", item.domain, none, np.zeros(1, np.int64))
        else:
            for start in range(0, values.size, _PIECE):
                stop = min(start + _PIECE, values.size)
                kind, cells = (
                    ("sparse", item.cells[start:stop])
                    if isinstance(item, SparseTable)
                    else ("table", _cells_of(item.domain, start, stop))
                )
                yield _piece(number, item, labels, kind, item.domain, cells, values[start:stop])


def _query_cells(queries: Queries) -> tuple[str, list[tuple[tuple[str, ...], Codes]]]:
    """Return the kind of queries, and the columns and the cell of each."""
    if isinstance(queries, Parities):
        none = np.empty((1, 0), dtype=np.uint32)
        return "parities", [(clique, none) for clique in queries.cliques]
    assert isinstance(queries, Cells)
    asked = zip(queries.of, queries.codes, strict=True)
    return "cells", [(clique, np.array([codes], dtype=np.uint32)) for clique, codes in asked]


def _cells_of(domain: Domain, start: int, stop: int) -> Codes:
    """Return the codes of some cells of a complete table, shape (cells, columns)."""
    flat = np.arange(start, stop, dtype=np.int64)
    codes = np.empty((stop - start, len(domain)), dtype=np.uint32)
    for axis in range(len(domain) - 1, -1, -1):
        flat, codes[:, axis] = np.divmod(flat, domain.sizes[axis])
    return codes


def _piece(
    number: int,
    item: Measured,
    labels: _Labels,
    kind: str,
    domain: Domain,
    codes: Codes,
    values: NDArray[Any],
) -> pa.Table:
    """Return some rows of one measurement.

    Args:
        number: Number of the measurement in the file.
        item: The measurement.
        labels: Labels of all codes.
        kind: Value of the column `kind`.
        domain: Columns of the rows, and their sizes.
        codes: Shape (rows, columns), or (rows, 0) if a row belongs to no single cell.
        values: Noisy numbers, shape (rows,).
    """
    rows, width = values.size, len(domain)
    first = np.array([labels.first[column] for column in domain.columns], dtype=np.int64)
    names = np.array([labels.columns[column] for column in domain.columns], dtype=np.int32)
    entries = labels.entry[codes.astype(np.int64) + first] if codes.shape[1] else codes
    threshold, capacity = (
        (item.threshold, item.capacity) if isinstance(item, SparseTable) else (0, 0)
    )

    def lists(flat: pa.Array, each: int) -> pa.Array:
        return pa.ListArray.from_arrays(pa.array(np.arange(rows + 1, dtype=np.int32) * each), flat)

    def texts(index: NDArray[Any], words: pa.Array) -> pa.Array:
        return pa.DictionaryArray.from_arrays(pa.array(index.astype(np.int32)), words)

    def word(text: str, words: tuple[str, ...]) -> pa.Array:
        return texts(np.full(rows, words.index(text)), pa.array(words, pa.string()))

    about = canonical_json(item.of.to_json()).decode() if isinstance(item, Totals) else ""

    def whole(value: int, dtype: type) -> pa.Array:
        return pa.array(np.full(rows, value, dtype=dtype))

    return pa.Table.from_arrays(
        [
            whole(number, np.int32),
            word(kind, _KINDS),
            word(item.stage, _STAGES),
            whole(item.replicate, np.int16),
            whole(item.round, np.int32),
            lists(texts(np.tile(names, rows), labels.names), width),
            lists(pa.array(np.tile(np.array(domain.sizes, dtype=np.int32), rows)), width),
            lists(pa.array(codes.ravel(), pa.uint32()), codes.shape[1]),
            lists(texts(entries.ravel(), labels.labels), codes.shape[1]),
            pa.array(values).cast(labels.arrow.field("count").type),
            word(item.noise, _NOISES),
            pa.array(np.full(rows, item.scale, dtype=np.float64)),
            whole(threshold, np.int64),
            whole(capacity, np.int64),
            whole(item.grant, np.int64),
            texts(np.zeros(rows), pa.array([about], pa.string())),
        ],
        schema=labels.arrow,
    )


def read_marginals(path: Path, schema: Schema | None = None) -> tuple[Measured, ...]:
    """Return the measurements of a file that `write_marginals` wrote, in its order.

    Args:
        path: The file.
        schema: Schema with which every column, size and label must agree; None if the file is
            trusted.

    Raises:
        BadInput: if the file is missing, is not a file of noisy tables, contains an incomplete
            table, or does not agree with the schema.
    """
    try:
        with pq.ParquetFile(path) as file:
            wanted = [field.name for field in SCHEMA if schema or field.name != "labels"]
            if not set(wanted) <= set(file.schema_arrow.names):
                raise BadInput(f"{path} is not a file of noisy tables: it lacks columns.")
            labels = _Labels(schema) if schema else None
            _check_unit(path, file.schema_arrow, schema)
            groups = _groups(file, wanted)
            return tuple(_tables(path, (_agreeing(path, group, labels) for group in groups)))
    except (
        OSError,
        pa.ArrowException,
        ValueError,
        IndexError,
        OverflowError,
        MemoryError,
    ) as error:
        raise BadInput(
            f"{path} cannot be read as a file of noisy tables; download the release again."
        ) from error


def _unit_metadata(schema: Schema) -> dict[str, str]:
    """Return what the file of linked tables states about its unit; empty for a single table."""
    if schema.linked is None:
        return {}
    return {UNIT: schema.unit.word, SHARES: str(schema.linked.shares)}


def _check_unit(path: Path, found: pa.Schema, schema: Schema | None) -> None:
    """Check that counts have the type of the schema's unit, and that the file states this unit."""
    if schema is None:
        return
    stated = {key.decode(): value.decode() for key, value in (found.metadata or {}).items()}
    in_shares = pa.types.is_floating(found.field("count").type)
    unit = {key: value for key, value in stated.items() if key in (UNIT, SHARES)}
    if in_shares != (shares_of(schema.domain) > 1) or unit != _unit_metadata(schema):
        raise BadInput(f"{path} does not count in the unit of the schema.")


def _groups(file: pq.ParquetFile, wanted: list[str]) -> Iterator[pa.Table]:
    kinds = {name: SCHEMA.field(name).type for name in wanted}
    if pa.types.is_floating(file.schema_arrow.field("count").type):
        kinds["count"] = pa.float64()
    schema = pa.schema(list(kinds.items()))
    for index in range(file.num_row_groups):
        group = file.read_row_group(index, columns=wanted)
        yield group.select(wanted).cast(schema).combine_chunks()


def _agreeing(path: Path, group: pa.Table, labels: _Labels | None) -> pa.Table:
    """Return the rows of a group, whose columns, sizes and labels must be those of the schema."""
    if labels is None or not group.num_rows:
        return group
    names = _flat(group.column("columns"))
    place = np.array(
        [labels.columns.get(name.as_py(), -1) for name in names.dictionary], dtype=np.int64
    )[names.indices.to_numpy(zero_copy_only=False)]
    sizes = _flat(group.column("sizes")).to_numpy(zero_copy_only=False)
    schema_sizes = np.array(labels.domain.sizes, dtype=np.int64)
    right = place.size == sizes.size and (place >= 0).all() and (schema_sizes[place] == sizes).all()
    if right:
        # Rows that belong to no single cell have columns, but neither codes nor labels.
        widths = pc.list_value_length(group.column("columns")).to_numpy()
        cells = pc.list_value_length(group.column("cell")).to_numpy()
        with_cell = np.repeat(cells > 0, widths)
        codes = _flat(group.column("cell")).to_numpy(zero_copy_only=False).astype(np.int64)
        of = place[with_cell]
        right = bool((cells[cells > 0] == widths[cells > 0]).all()) and codes.size == of.size
        right = right and bool((codes < schema_sizes[of]).all())
    if right:
        words = _flat(group.column("labels"))
        place_of = pc.index_in(words.dictionary, value_set=labels.labels).fill_null(-1)
        found = place_of.to_numpy(zero_copy_only=False).astype(np.int64)
        first = np.array([labels.first[name] for name in labels.columns], dtype=np.int64)
        stated = found[words.indices.to_numpy(zero_copy_only=False)] if len(words) else found[:0]
        right = np.array_equal(stated, labels.entry[first[of] + codes])
    if not right:
        raise BadInput(
            f"{path} contains columns, sizes or labels that are not those of the schema."
        )
    return group


def _tables(path: Path, groups: Iterator[pa.Table]) -> Iterator[Measured]:
    """Cut row groups at changes of the table number; a table may span several groups."""
    open_: list[pa.Table] = []
    current: int | None = None
    seen: set[int] = set()
    for group in groups:
        if not group.num_rows:
            continue
        if any(group.column(name).null_count for name in group.column_names):
            raise BadInput(f"{path} has empty entries, which are not allowed in noisy tables.")
        numbers = group.column("table").to_numpy()
        cuts = np.flatnonzero(np.diff(numbers)) + 1
        for start, stop in pairwise((0, *cuts.tolist(), group.num_rows)):
            number = int(numbers[start])
            if number != current:
                if open_:
                    yield _read_measurement(path, open_)
                if number in seen:
                    raise BadInput(f"{path} contains table {number} in two places.")
                seen.add(number)
                open_, current = [], number
            open_.append(group.slice(start, stop - start))
    if open_:
        yield _read_measurement(path, open_)


def _read_measurement(path: Path, pieces: list[pa.Table]) -> Measured:
    table = pieces[0]
    if len(pieces) > 1:
        table = pa.concat_tables(pieces).unify_dictionaries().combine_chunks()
    number = table.column("table")[0].as_py()
    wrong = BadInput(
        f"{path}: table {number} is not a complete noisy table; download the release again."
    )
    fixed = {}
    for name in (*_FIXED, *_KIND):
        # A dictionary may contain a value twice.
        found = {*pc.unique(table.column(name)).to_pylist()}
        if len(found) != 1:
            raise wrong
        fixed[name] = found.pop()
    if fixed["noise"] not in _NOISES or not fixed["scale"] > 0:
        raise wrong
    about = {name: fixed[name] for name in _FIXED}
    counts = table.column("count").to_numpy()
    if counts.dtype.kind == "f" and not np.isfinite(counts).all():
        raise wrong
    if fixed["kind"] in ("cells", "parities"):
        return Answers(queries=_queries(table, fixed["kind"], wrong), values=counts, **about)
    domain = _domain(table, wrong)
    if fixed["kind"] == "totals":
        of = _sum(fixed["of"], wrong)
        # privacy: with fewer codes the sensitivity would be smaller.
        other = isinstance(of, Interaction) and of.sizes != domain.sizes
        if of.length != counts.size or of.clique != domain.columns or other:
            raise wrong
        return Totals(of=of, values=counts, **about)
    width, rows = len(domain), table.num_rows
    codes = _flat(table.column("cell")).to_numpy(zero_copy_only=False)
    if fixed["kind"] == "sparse":
        if rows == 1 and width and not codes.size:
            codes, counts = codes[:0], counts[:0]
        if codes.size != width * counts.size or counts.size > fixed["capacity"]:
            raise wrong
        cells = codes.reshape(counts.size, width)
        # Before the type becomes narrower, in which a larger code would be another one.
        if ((cells < 0) | (cells >= np.array(domain.sizes))).any():
            raise wrong
        keys = pack(cells.T, domain.sizes)
        if (np.lexsort(keys.T[::-1]) != np.arange(counts.size)).any():
            raise wrong
        return SparseTable(
            domain=domain,
            cells=cells.astype(domain.code_type),
            values=counts,
            threshold=fixed["threshold"],
            capacity=fixed["capacity"],
            **about,
        )
    if fixed["kind"] != "table" or codes.size != width * rows:
        raise wrong
    if domain.size() != rows or domain.size() > _MOST_CELLS:
        raise wrong
    if not np.array_equal(codes.reshape(rows, width), _cells_of(domain, 0, rows)):
        raise wrong
    return Measurement(domain=domain, values=counts.reshape(domain.sizes), **about)


def _domain(table: pa.Table, wrong: BadInput) -> Domain:
    """Return the columns of a measurement, which all its rows must share."""
    columns = tuple(table.column("columns")[0].as_py())
    sizes = tuple(table.column("sizes")[0].as_py())
    # Indices can be compared instead of texts: the dictionary contains each name once.
    names = _flat(table.column("columns")).indices.to_numpy(zero_copy_only=False)
    counts = _flat(table.column("sizes")).to_numpy(zero_copy_only=False)
    width, rows = len(columns), table.num_rows
    for found in (names, counts):
        if found.size != width * rows:
            raise wrong
        if width and not (found.reshape(rows, width) == found[:width]).all():
            raise wrong
    return Domain(columns, sizes)


def _queries(table: pa.Table, kind: str, wrong: BadInput) -> Queries:
    cliques = tuple(tuple(columns) for columns in table.column("columns").to_pylist())
    if kind == "parities":
        return Parities(cliques)
    codes = tuple(tuple(cell) for cell in table.column("cell").to_pylist())
    if [len(clique) for clique in cliques] != [len(cell) for cell in codes]:
        raise wrong
    return Cells(cliques, codes)


def _sum(text: str, wrong: BadInput) -> Sum:
    try:
        return sum_from_json(json.loads(text))
    except (KeyError, TypeError, ValueError, RecursionError):
        raise wrong from None


def _flat(lists: pa.ChunkedArray) -> Any:
    array = lists.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0)
    return array.flatten()
