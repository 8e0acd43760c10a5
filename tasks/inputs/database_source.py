"""A database table as the data of a release. Confidential side.

The table is read once, in pieces, in one read-only transaction in which all reads see the same
moment, and written to a snapshot (`tasks.inputs.snapshot`). Only the needed columns are read, names
are quoted, and no text of the spec is executed as SQL.
"""

from __future__ import annotations

import contextlib
import difflib
import warnings
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.sql import quoted_name

from dp_core.confidential.source import RowSource
from dp_core.confidential.source_files import check_columns
from dp_core.errors import BadInput, DataRefused, SchemaViolation, StageFailed
from dp_core.plan.data_location import DatabaseTable
from tasks.inputs.database_connection import reading
from tasks.inputs.database_types import Stored, stored
from tasks.inputs.snapshot import new_snapshot, open_snapshot

CHUNK_ROWS = 1 << 14
"""Rows that are fetched at a time; with 20 columns these are about 20 MB of Python objects."""


def table_sources(
    asked: Sequence[tuple[DatabaseTable, Sequence[str], Collection[str], Path]],
) -> list[RowSource]:
    """Return the snapshots of tables of one database, all taken at one moment.

    If one of them is missing, all are taken again, in one transaction.

    Args:
        asked: For each the table, the columns to read, all of which it must have, the other columns
            that it may have, and a confidential folder of its own.

    Raises:
        BadInput: if the connection, a table or its columns are invalid. No message shows a value or
            any part of the URL.
        DataRefused: if a table is empty, or holds a value that is not of its declared type.
        StageFailed: if the connection is lost.
    """

    def found() -> list[RowSource | None]:
        return [open_snapshot(folder, place, columns) for place, columns, _, folder in asked]

    def take(connection: sa.Connection) -> None:
        for place, columns, ignore, folder in asked:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _take(place, columns, ignore, folder, connection)

    if None in found():
        reading(asked[0][0], take)
    sources = []
    for (place, *_), source in zip(asked, found(), strict=True):
        if source is None:
            raise StageFailed(
                f"The snapshot of table {place.written!r} disappeared right after it was taken."
                " Find out what deletes files in the home, then resume."
            )
        sources.append(source)
    return sources


def table_types(place: DatabaseTable) -> list[tuple[str, pa.DataType | None]]:
    """Return the names and types of a table's columns; None for a type that cannot be read.

    Only the database's catalogue is read, no row.

    Args:
        place: The table.

    Raises:
        BadInput: if the connection or the table is invalid.
        StageFailed: if the connection is lost.
    """
    kinds = reading(place, lambda connection: _kinds(connection, place))
    return [(name, None if kind is None else kind.declared) for name, (kind, _) in kinds.items()]


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
                f"Column {name!r} of table {place.written!r} has the type {declared}, which cannot"
                " be read; use a view that casts it to text, number, boolean, date or timestamp,"
                " or name it under `ignore`."
            )
        chosen.append(kind)
    schema = pa.schema(
        [pa.field(name, kind.type) for name, kind in zip(columns, chosen, strict=True)]
    )
    untyped = frozenset(name for name, kind in zip(columns, chosen, strict=True) if kind.untyped)
    # The columns have no SQLAlchemy type, so that values arrive as the driver returns them.
    query: sa.Select[Any] = sa.select(
        *(sa.column(quoted_name(name, quote=True)) for name in columns)
    )
    query = query.select_from(_table(place))
    rows = connection.execution_options(stream_results=True, max_row_buffer=CHUNK_ROWS).execute(
        query
    )
    with contextlib.closing(rows), new_snapshot(folder, place, schema, untyped) as snapshot:
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
            raise DataRefused(f"Table {place.written!r} has columns but no rows.", row="data-empty")


def _array(
    place: DatabaseTable, name: str, declared: str, kind: Stored, values: Sequence[Any]
) -> pa.Array:
    try:
        return kind.array(values)
    except ValueError as error:
        detail = str(error)
    raise SchemaViolation(
        f"Column {name!r} of table {place.written!r} holds a value that is not of its declared"
        f" type, {declared}; correct it, or use a view that casts it.",
        internal=detail,
        row="database-values",
    )


def _table(place: DatabaseTable) -> sa.TableClause:
    schema = None if place.schema is None else quoted_name(place.schema, quote=True)
    return sa.table(quoted_name(place.name, quote=True), schema=schema)


def _kinds(connection: sa.Connection, place: DatabaseTable) -> dict[str, tuple[Stored | None, str]]:
    """Return how each column is read (None if it cannot be), and its declared type as text."""
    inspector = sa.inspect(connection)
    columns: Sequence[Any] = ()
    # SQLite raises another kind of error for an unknown schema, so look the schema up first.
    schemas = None if place.schema is None else inspector.get_schema_names()
    with contextlib.suppress(sa.exc.NoSuchTableError), warnings.catch_warnings():
        warnings.simplefilter("ignore", sa.exc.SAWarning)  # about unknown column types
        if schemas is None or place.schema in schemas:
            columns = inspector.get_columns(place.name, schema=place.schema)
    if not columns:
        known = _names(inspector, place)
        close = difflib.get_close_matches(place.written.casefold(), known, n=1)
        hint = f" Did you mean {known[close[0]]!r}?" if close else ""
        raise BadInput(
            f"The database that {place.variable} names has no table or view {place.written!r};"
            f" write its name exactly, with capital letters and its schema.{hint}",
            row="table-not-found",
        )
    return {
        str(column["name"]): (
            stored(column["type"], connection.dialect.name),
            _type_name(column["type"]),
        )
        for column in columns
    }


def _type_name(kind: object) -> str:
    # Some types cannot be written as text, such as one that the driver does not know.
    with contextlib.suppress(Exception):
        return str(kind)
    return type(kind).__name__


def _names(inspector: sa.Inspector, place: DatabaseTable) -> dict[str, str]:
    """Return the names of all tables and views as a spec writes them, by their lower-case form."""
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
