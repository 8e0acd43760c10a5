"""The types of a database's columns, and its values as Arrow arrays, exactly. Confidential side.

| in the database | in the snapshot |
|---|---|
| whole numbers | int64 |
| floats | binary64 (of `real`, the number that is written) |
| numeric, with up to 38 digits declared | decimal128 |
| numeric otherwise, and of SQLite, which holds to no declaration | text, every digit |
| text, char (without its padding), enum, uuid | text |
| bool, date | bool, date32 |
| timestamp, without or with a zone | microseconds, without or in UTC |

A numeric NaN is null: to every reader both are missing. Anything else is refused.
"""

from __future__ import annotations

import datetime
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
"""`digits` are decimals as text; `padded`: text with blanks at its end; `moment`: day and time."""

_MOST_DIGITS = 38


@dataclass(frozen=True, slots=True)
class Stored:
    """How a column's values arrive, and how they are kept.

    Attributes:
        kind: What they are.
        type: Of the snapshot's column.
        loose: Whether the database lets in values of other types than declared.
    """

    kind: Kind
    type: pa.DataType
    loose: bool = False

    def array(self, values: Sequence[Any]) -> pa.Array:
        """Return values as the driver gave them, as an array.

        Raises:
            ValueError: if one is not of the declared type. Its text may hold the value.
        """
        try:
            read = (_LOOSE if self.loose else _STRICT).get(self.kind)
            if read is not None:
                values = [None if value is None else read(value) for value in values]
            return pa.array(values, self.type, from_pandas=self.kind == "decimal")
        except (pa.ArrowException, TypeError, OverflowError, ArithmeticError) as error:
            raise ValueError(str(error)) from None


def stored(column: TypeEngine[Any], dialect: str) -> Stored | None:
    """Return how a column of this type is read, None if it is not."""
    inner = getattr(column, "data_type", None)  # of a domain
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
        case sa.String():  # enumerations too
            return Stored("text", pa.string(), loose)
    return None


def _numeric(column: sa.Numeric[Any], loose: bool) -> Stored:
    digits, places = column.precision, column.scale
    if loose or digits is None or digits > _MOST_DIGITS or not 0 <= (places or 0) <= digits:
        return Stored("digits", pa.string(), loose)
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
        return "1e999" if number > 0 else "-1e999"  # which readers take for infinite, out of range
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


def _padded(value: Any) -> str:
    return _text(value).rstrip(" ")


def _day(value: Any) -> datetime.date:
    return value if isinstance(value, datetime.date) else datetime.date.fromisoformat(value)


def _moment(value: Any) -> datetime.datetime:
    if isinstance(value, datetime.datetime):
        return value
    moment = datetime.datetime.fromisoformat(value)
    # Where the column has no zone, one that a value brings along is brought to UTC.
    return moment if moment.tzinfo is None else moment.astimezone(datetime.UTC)


# What Arrow takes as the driver gives it is not here; that is quickest.
_STRICT: dict[Kind, Callable[[Any], Any]] = {
    "decimal": _decimal,
    "digits": _digits,
    "padded": _padded,
    "uuid": str,
}
_LOOSE: dict[Kind, Callable[[Any], Any]] = _STRICT | {
    "integer": _whole,
    "float": _float,
    "text": _text,
    "boolean": _truth,
    "date": _day,
    "moment": _moment,
}
