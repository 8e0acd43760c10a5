"""A database table as the data of a release. Confidential side.

The table is read once, in pieces, in one read-only transaction in which all reads see the same
moment, and written to a snapshot (`tasks.inputs.snapshot`). Only the needed columns are read, names
are quoted, and no text of the spec is executed as SQL.

Values become Arrow arrays, exactly:

| in the database | in the snapshot |
|---|---|
| whole numbers | int64 |
| floats | float64 (`real`: the number as PostgreSQL writes it) |
| numeric, with up to 38 declared digits | decimal128 |
| other numeric | text with all digits |
| text, char (without its padding), enum, uuid | text |
| bool, date | bool, date32 |
| timestamp without a time zone | microseconds |
| timestamp with a time zone | microseconds in UTC |

A numeric NaN becomes null, because readers treat both as missing. Other types are refused.

SQLite does not enforce types. So in its columns of type numeric, date and timestamp a text stays as
it is, and a number becomes text with all digits: the reader judges them as it judges a CSV file. In
its other columns a value of another type is refused.
"""

from __future__ import annotations

import contextlib
import decimal
import difflib
import warnings
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.sql import quoted_name
from sqlalchemy.types import TypeEngine

from dp_core.confidential.source import RowSource
from dp_core.confidential.source_files import check_columns
from dp_core.errors import BadInput, DataRefused, SchemaViolation, StageFailed
from dp_core.plan.data_location import DatabaseTable
from tasks.inputs.database_connection import reading
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

    def find() -> list[RowSource | None]:
        return [open_snapshot(folder, place, columns) for place, columns, _, folder in asked]

    def take(connection: sa.Connection) -> None:
        for place, columns, ignore, folder in asked:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _take(place, columns, ignore, folder, connection)

    if None in find():
        reading(asked[0][0], take)
    sources = []
    for (place, *_), source in zip(asked, find(), strict=True):
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


def find_table(place: DatabaseTable) -> None:
    """Find a table that may be read; no row of it is.

    Raises:
        BadInput: if the connection or the table is invalid, or there is no right to read it.
        StageFailed: if the connection is lost.
    """

    def find(connection: sa.Connection) -> None:
        _kinds(connection, place)
        connection.execute(sa.select(sa.literal(1)).select_from(_table(place)).where(sa.false()))

    reading(place, find)


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
    # privacy: a snapshot holds each column under the name by which the database returned it.
    header = [each[0] for each in rows.cursor.description]
    places = [header.index(name) for name in columns]
    with contextlib.closing(rows), new_snapshot(folder, place, schema, untyped) as snapshot:
        for chunk in rows.partitions(CHUNK_ROWS):
            values = list(zip(*chunk, strict=True))
            arrays = [
                _array(place, name, kinds[name][1], kind, values[at])
                for name, kind, at in zip(columns, chosen, places, strict=True)
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
            storage_of(column["type"], connection.dialect.name),
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


Kind: TypeAlias = Literal[
    "integer", "float", "decimal", "digits", "text", "padded", "uuid", "boolean", "date", "moment"
]
"""`digits`: decimals as text; `padded`: text with trailing blanks; `moment`: date and time."""
_UNTYPED: tuple[Kind, ...] = ("digits", "date", "moment")
"""Kinds of SQLite's columns whose values stay as they are, as texts."""

_MOST_DIGITS = 38


@dataclass(frozen=True, slots=True)
class Stored:
    """How a column's values are read and stored.

    Attributes:
        kind: Kind of the values.
        declared: Arrow type of the values as declared.
        loose: Whether the database may hold values of other types than declared; False by default.
    """

    kind: Kind
    declared: pa.DataType
    loose: bool = False

    @property
    def untyped(self) -> bool:
        """Whether the snapshot holds numbers and times as texts."""
        return self.kind == "digits" or (self.loose and self.kind in _UNTYPED)

    @property
    def type(self) -> pa.DataType:
        """Arrow type of the snapshot's column."""
        return pa.string() if self.untyped else self.declared

    def array(self, values: Sequence[Any]) -> pa.Array:
        """Return the driver's values as an Arrow array.

        Args:
            values: Values as the driver returned them; None for null.

        Raises:
            ValueError: if a value does not have the declared type. The text may hold the value.
        """
        try:
            read = (_LOOSE if self.loose else _STRICT).get(self.kind)
            if read is not None:
                values = [None if value is None else read(value) for value in values]
            return pa.array(values, self.type, from_pandas=self.kind == "decimal")
        except (pa.ArrowException, TypeError, OverflowError, ArithmeticError) as error:
            raise ValueError(str(error)) from None


def storage_of(column: TypeEngine[Any], dialect: str) -> Stored | None:
    """Return how a column is read; None if its type is not supported.

    Args:
        column: SQLAlchemy type of the column.
        dialect: SQLAlchemy's name of the database, such as `postgresql`.
    """
    inner = getattr(column, "data_type", None)  # the type below a domain of PostgreSQL
    if type(column).__name__ == "DOMAIN" and isinstance(inner, TypeEngine):
        column = inner
    loose = dialect == "sqlite"
    match column:
        case sa.Boolean():
            return Stored("boolean", pa.bool_(), dialect != "postgresql")
        case sa.Integer():
            return Stored("integer", pa.int64(), loose)
        case sa.Float():
            return Stored("float", pa.float64(), loose)
        case sa.Numeric():
            return _numeric(column, loose)
        case sa.DateTime():
            zone = "UTC" if column.timezone else None
            return Stored("moment", pa.timestamp("us", zone), loose)
        case sa.Date():
            return Stored("date", pa.date32(), loose)
        case sa.Uuid():
            return Stored("uuid", pa.string(), loose)
        case sa.CHAR():
            return Stored("padded", pa.string(), loose)
        case sa.String():  # includes enumerations
            return Stored("text", pa.string(), loose)
    return None


def _numeric(column: sa.Numeric[Any], loose: bool) -> Stored:
    digits, places = column.precision, column.scale
    if loose or digits is None or digits > _MOST_DIGITS or not 0 <= (places or 0) <= digits:
        return Stored("digits", pa.float64(), loose)
    return Stored("decimal", pa.decimal128(digits, places or 0))


def _number(value: Any) -> decimal.Decimal:
    if isinstance(value, bytes):
        raise TypeError("bytes are no number")
    return decimal.Decimal(repr(value) if isinstance(value, float) else value)


def _digits(value: Any) -> str | None:
    number = _number(value)
    if number.is_nan():
        return None
    if number.is_infinite():
        return "1e999" if number > 0 else "-1e999"  # readers treat it as infinite: out of range
    return f"{number:f}"


def _decimal(value: Any) -> decimal.Decimal | None:
    number = _number(value)
    return None if number.is_nan() else number


def _whole(value: Any) -> int:
    if isinstance(value, (bytes, str)) or value != int(value):
        raise TypeError("not a whole number")
    return int(value)


def _truth(value: Any) -> bool:
    if value not in (0, 1):
        raise TypeError("not a truth value")
    return bool(value)


def _float(value: Any) -> float:
    if isinstance(value, (bytes, str)):
        raise TypeError("not a number")
    return float(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value


def _without_padding(value: Any) -> str:
    return _text(value).rstrip(" ")


def _as_stored(value: Any) -> str | None:
    return value if isinstance(value, str) else _digits(value)


# Kinds that Arrow converts directly, which is faster, are not listed here.
_STRICT: dict[Kind, Callable[[Any], Any]] = {
    "decimal": _decimal,
    "digits": _digits,
    "padded": _without_padding,
    "uuid": str,
}
_LOOSE: dict[Kind, Callable[[Any], Any]] = _STRICT | {
    "integer": _whole,
    "float": _float,
    "text": _text,
    "boolean": _truth,
    **dict.fromkeys(_UNTYPED, _as_stored),
}
