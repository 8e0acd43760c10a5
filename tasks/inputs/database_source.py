"""A table of a database as the data of a release. Confidential side.

Read once, in pieces, in one read-only transaction that sees one moment, into a snapshot
(`tasks.inputs.snapshot`). Only the wanted columns are asked for, the names are quoted, and nothing
of the spec is ever SQL.
"""

from __future__ import annotations

import contextlib
import difflib
import warnings
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.sql import quoted_name

from dp_core.confidential.source_files import check_columns
from dp_core.errors import BadInput, StageFailed
from dp_core.spec.data_location import DatabaseTable
from tasks.inputs.database_connection import reading
from tasks.inputs.database_types import Stored, stored
from tasks.inputs.snapshot import SnapshotSource, new_snapshot, open_snapshot

CHUNK_ROWS = 1 << 14
"""Rows that are fetched at a time; of 20 columns they are some 20 MB of Python's objects."""


def table_source(
    place: DatabaseTable, columns: Sequence[str], ignore: Collection[str], folder: Path
) -> SnapshotSource:
    """Return the finished snapshot of a table, taking it where there is none yet.

    Args:
        place: Which table.
        columns: Columns to read, each of which the table must have.
        ignore: Columns that it may have besides; they are not read.
        folder: Confidential folder of the run.

    Raises:
        BadInput: if the table, its columns or the way there will not do, or it has no row. No
            message shows a value, or anything of the URL.
        StageFailed: if the database stopped answering.
    """
    found = open_snapshot(folder, place, columns)
    if found is None:
        reading(place, partial(_take, place, columns, ignore, folder))
        found = open_snapshot(folder, place, columns)
    if found is None:
        raise StageFailed(
            f"The snapshot of table {place.written!r} is gone as soon as it was taken; look who"
            " deletes files in the home, then resume."
        )
    return found


def table_types(place: DatabaseTable) -> list[tuple[str, pa.DataType | None]]:
    """Return the names of a table's columns and their types, None for one that is not read.

    Looks at the database's catalogue only, at no row.

    Raises:
        BadInput: if the table or the way there will not do.
        StageFailed: if the database stopped answering.
    """
    kinds = reading(place, lambda connection: _kinds(connection, place))
    return [
        (name, None if kind is None else pa.float64() if kind.kind == "digits" else kind.type)
        for name, (kind, _) in kinds.items()
    ]


def _take(
    place: DatabaseTable,
    columns: Sequence[str],
    ignore: Collection[str],
    folder: Path,
    connection: sa.Connection,
) -> None:
    kinds = _kinds(connection, place)
    check_columns(f"Table {place.written!r}", list(kinds), columns, ignore)
    chosen: list[Stored] = []
    for name in columns:
        kind, declared = kinds[name]
        if kind is None:
            raise BadInput(
                f"Column {name!r} of table {place.written!r} is of type {declared}, which is"
                " not read; let a view cast it to text, number, boolean, date or timestamp,"
                " or name it under `ignore`."
            )
        chosen.append(kind)
    schema = pa.schema(
        [pa.field(name, kind.type) for name, kind in zip(columns, chosen, strict=True)]
    )
    decimals = frozenset(
        name for name, kind in zip(columns, chosen, strict=True) if kind.kind == "digits"
    )
    # Untyped, so that every value comes as the driver has it.
    query: sa.Select[Any] = sa.select(
        *(sa.column(quoted_name(name, quote=True)) for name in columns)
    )
    query = query.select_from(_table(place))
    rows = connection.execution_options(stream_results=True, max_row_buffer=CHUNK_ROWS).execute(
        query
    )
    with contextlib.closing(rows), new_snapshot(folder, place, schema, decimals) as snapshot:
        for chunk in rows.partitions(CHUNK_ROWS):
            arrays = [
                _array(place, name, kinds[name][1], kind, values)
                for name, kind, values in zip(
                    columns, chosen, zip(*chunk, strict=True), strict=True
                )
            ]
            snapshot.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
        snapshot.finish()
        if not snapshot.rows:
            raise BadInput(
                f"Table {place.written!r} has columns but not one row.", row="data-empty"
            )


def _array(
    place: DatabaseTable, name: str, declared: str, kind: Stored, values: Sequence[Any]
) -> pa.Array:
    try:
        return kind.array(values)
    except ValueError as error:
        detail = str(error)
    raise BadInput(
        f"Column {name!r} of table {place.written!r} holds a value that is not of its declared"
        f" type, {declared}; correct it, or let a view cast it.",
        internal=detail,
        row="database-values",
    )


def _table(place: DatabaseTable) -> sa.TableClause:
    schema = None if place.schema is None else quoted_name(place.schema, quote=True)
    return sa.table(quoted_name(place.name, quote=True), schema=schema)


def _kinds(connection: sa.Connection, place: DatabaseTable) -> dict[str, tuple[Stored | None, str]]:
    """Return for each column how it is read, and its declared type in words."""
    inspector = sa.inspect(connection)
    columns: Sequence[Any] = ()
    # Of SQLite an unknown schema is an error of another kind.
    schemas = None if place.schema is None else inspector.get_schema_names()
    with contextlib.suppress(sa.exc.NoSuchTableError), warnings.catch_warnings():
        warnings.simplefilter("ignore", sa.exc.SAWarning)  # of a type that nobody knows
        if schemas is None or place.schema in schemas:
            columns = inspector.get_columns(place.name, schema=place.schema)
    if not columns:
        known = _names(inspector, place)
        close = difflib.get_close_matches(place.written.casefold(), known, n=1)
        hint = f" Did you mean {known[close[0]]!r}?" if close else ""
        raise BadInput(
            f"The database that {place.variable} names has no table or view {place.written!r};"
            f" write it as it is there, capital letters too, with its schema.{hint}",
            row="table-not-found",
        )
    return {
        str(column["name"]): (
            stored(column["type"], connection.dialect.name),
            _declared(column["type"]),
        )
        for column in columns
    }


def _declared(kind: object) -> str:
    # Some types have no words for themselves, such as one that the driver does not know.
    with contextlib.suppress(Exception):
        return str(kind)
    return type(kind).__name__


def _names(inspector: sa.Inspector, place: DatabaseTable) -> dict[str, str]:
    """Return tables and views by their names in small letters, as a spec writes them."""
    found = {}
    schemas: list[str | None] = [None]
    if inspector.dialect.name != "sqlite":
        schemas += [
            name
            for name in inspector.get_schema_names()
            if name != "information_schema" and not name.startswith("pg_")
        ]
    for schema in schemas:
        names = [*inspector.get_table_names(schema), *inspector.get_view_names(schema)]
        for name in names:
            written = DatabaseTable(place.variable, schema, name).written
            found[written.casefold()] = written
    return found
