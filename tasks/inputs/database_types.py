"""Converts the values of a database's columns to Arrow arrays, exactly. Confidential side.

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

import decimal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.types import TypeEngine

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


def stored(column: TypeEngine[Any], dialect: str) -> Stored | None:
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
