"""Raw values of a column as typed arrays, before binning. Confidential side.

Texts are parsed once for each distinct value: a batch of a text column becomes its distinct texts
and, for each row, the index of its text.

How each type is read:

- Category and ordinal: the exact text. Stored numbers are written out (`1`, also for 1.0, which is
  what a column of whole numbers with gaps becomes in many tools), booleans are `true` and `false`,
  dates are ISO dates.
- Integer: an optional sign and digits; `3.0` is accepted for the same reason, `3.5` and `3e2` are
  not. Stored floats count if they are whole.
- Number: decimal or scientific notation. A value and an edge are compared after both are rounded to
  the nearest number of the file's own precision (binary64, or binary32 in a column stored so): a
  value written like the edge equals it. Infinities are out of range.
- Date: `YYYY-MM-DD`, or a text in the column's own `format`; a time of day after it is cut off; a
  stored time with a zone is the day there.
- Missing: a null, NaN, and every text of `missing_values`; in a column of stored numbers or dates,
  the number or date such a text stands for. Spaces around numbers and dates are ignored.
"""

from __future__ import annotations

import contextlib
import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dp_core.schema.decoding import EPOCH
from dp_core.schema.definition import Column

Array: TypeAlias = NDArray[Any]

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
INTEGER_TEXT = r"^[+-]?[0-9]+(\.0*)?$"
NUMBER_TEXT = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
DATE_TEXT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:.*)?$"


class State(IntEnum):
    """Whether a raw value is a value of the column's type."""

    VALUE = 0
    MISSING = 1
    UNKNOWN = 2
    """Not a level, number, whole number or date, as the type requires."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Values:
    """Typed values of one column of one batch. Confidential.

    Attributes:
        data: Level number (int64), whole number or day ordinal (int64), or number (float).
            One entry per distinct text, or per row where `index` is None.
        state: `State` of each entry of `data`, uint8; None if all are values.
        index: Index in `data` of each row's value; None if entries are rows.
        texts: Distinct texts of a category or ordinal; None for other types. The last entry of
            `data` is for null and has no text.
    """

    data: Array
    state: NDArray[np.uint8] | None
    index: NDArray[np.int32] | None
    texts: pa.Array | None = None


class Reader:
    """Reads raw arrays of one column, of any stored type."""

    def __init__(self, column: Column) -> None:
        self.column = column
        self._missing = pa.array(list(column.missing_values), pa.string())
        accepted = column.texts() if column.levels else {}
        self._texts = pa.array(list(accepted), pa.string())
        self._dates = partial(_dates_written, column.format) if column.format else _dates
        self._level_of = np.array([*accepted.values(), 0], dtype=np.int64)

    def read(self, values: pa.Array) -> Values:
        """Return the typed values of a batch of the column.

        Args:
            values: Any array type that `dp_core.confidential.source` lets through, in one piece or
                in chunks.
        """
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
        if pa.types.is_null(kind):
            values = values.cast(pa.string())
            kind = values.type
        if pa.types.is_float16(kind):  # few of Arrow's functions accept it
            values = pc.cast(_plain(values), pa.float32())
            kind = values.type
        if pa.types.is_decimal(kind):
            # Arrow's cast of a decimal need not give the nearest double; a cast through text does.
            values = pc.cast(_plain(values), pa.string())
            kind = values.type
        if self.column.levels or is_text(kind):
            return self._read_distinct(values)
        values = _plain(values)
        if self.column.kind == "date":
            data, state = self._stored_dates(values)
        elif self.column.kind == "integer":
            data, state = self._stored_integers(values)
        else:
            data, state = self._stored_numbers(values)
        return Values(data, state if np.count_nonzero(state) else None, None)

    def _read_distinct(self, values: pa.Array) -> Values:
        encoded = values if _encoded(values) else pc.dictionary_encode(values)
        distinct = encoded.dictionary
        index = encoded.indices.cast(pa.int32())
        if index.null_count:
            index = index.fill_null(len(distinct))
        texts = _texts(distinct)
        if self.column.levels:
            data, state = self._levels_of(texts)
        else:
            data, state = self._parse(texts)
        # One more entry, for rows without a value.
        return Values(
            np.append(data, data.dtype.type(0)),
            np.append(state, np.uint8(State.MISSING)),
            index.to_numpy(zero_copy_only=False),
            texts if self.column.levels else None,
        )

    def _levels_of(self, texts: pa.Array) -> tuple[Array, NDArray[np.uint8]]:
        found = pc.index_in(texts, value_set=self._texts)
        state = np.where(found.is_valid(), State.VALUE, State.UNKNOWN).astype(np.uint8)
        state[self._missing_texts(texts)] = State.MISSING
        places = found.fill_null(0).to_numpy(zero_copy_only=False)
        return self._level_of[places], state

    def _parse(self, texts: pa.Array) -> tuple[Array, NDArray[np.uint8]]:
        """Return the values of the texts of an integer, number or date column."""
        missing = self._missing_texts(texts)
        texts = pc.utf8_trim_whitespace(texts)
        missing |= self._missing_texts(texts)
        parse = {"integer": _integers, "number": _numbers, "date": self._dates}[self.column.kind]
        data, valid = parse(texts)
        state = np.where(valid, State.VALUE, State.UNKNOWN).astype(np.uint8)
        state[missing] = State.MISSING
        return data, state

    def _missing_texts(self, texts: pa.Array) -> NDArray[np.bool_]:
        mask = pc.or_(pc.is_in(texts, value_set=self._missing), texts.is_null())
        return np.array(mask.to_numpy(zero_copy_only=False), dtype=bool)

    def _stored_integers(self, values: pa.Array) -> tuple[Array, NDArray[np.uint8]]:
        state = _null_state(values)
        if pa.types.is_floating(values.type):
            floats = _zeroed(values).astype(np.float64)
            state[np.isnan(floats)] = State.MISSING
            fraction = np.isfinite(floats) & (floats != np.floor(floats))
            state[fraction] = State.UNKNOWN
            data = _to_int64(np.where(np.isnan(floats) | fraction, 0.0, floats))
        elif _is_day(values.type):
            return np.zeros(len(values), np.int64), _all_unknown(state)
        else:
            data = _to_int64(_zeroed(values))
        self._mark_missing(data, state, _integers)
        return data, state

    def _stored_numbers(self, values: pa.Array) -> tuple[Array, NDArray[np.uint8]]:
        state = _null_state(values)
        if _is_day(values.type):
            return np.zeros(len(values), np.float64), _all_unknown(state)
        data = _zeroed(values)
        data = data.astype(
            np.float32 if data.dtype.itemsize < 8 and data.dtype.kind == "f" else float
        )
        nan = np.isnan(data)
        if nan.any():
            state[nan] = State.MISSING
            data = np.where(nan, data.dtype.type(0), data)
        self._mark_missing(data, state, _numbers)
        return data, state

    def _stored_dates(self, values: pa.Array) -> tuple[Array, NDArray[np.uint8]]:
        state = _null_state(values)
        if not _is_day(values.type):
            return np.zeros(len(values), np.int64), _all_unknown(state)
        if pa.types.is_timestamp(values.type):
            if values.type.tz is not None:
                values = pc.local_timestamp(values)
            values = pc.floor_temporal(values, unit="day")
        data = (
            _zeroed(values.cast(pa.date32(), safe=False).cast(pa.int32())).astype(np.int64) + EPOCH
        )
        self._mark_missing(data, state, self._dates)
        return data, state

    def _mark_missing(self, data: Array, state: NDArray[np.uint8], parse: Any) -> None:
        codes, valid = parse(self._missing)
        for code in codes[valid]:
            state[data == data.dtype.type(code)] = State.MISSING


def _encoded(values: pa.Array) -> bool:
    return bool(pa.types.is_dictionary(values.type))


def _plain(values: pa.Array) -> pa.Array:
    return pc.dictionary_decode(values) if _encoded(values) else values


def is_text(kind: pa.DataType) -> bool:
    """Return whether an Arrow type holds text."""
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def _is_day(kind: pa.DataType) -> bool:
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def as_texts(values: pa.Array) -> pa.Array:
    """Return stored values as texts, as a category is read; null where there is no value.

    Args:
        values: Any array type that `dp_core.confidential.source` lets through, in one piece.
    """
    if is_text(values.type):
        return values.cast(pa.string())
    encoded = values if _encoded(values) else pc.dictionary_encode(values)
    return _texts(encoded.dictionary).cast(pa.string()).take(encoded.indices)


def _texts(distinct: pa.Array) -> pa.Array:
    """Return distinct stored values as texts, to be matched with levels."""
    if pa.types.is_timestamp(distinct.type) or pa.types.is_date64(distinct.type):
        days = distinct.cast(pa.date32(), safe=False)
        whole = pc.equal(days.cast(distinct.type), distinct)
        return pc.if_else(whole, days.cast(pa.string()), distinct.cast(pa.string()))
    if pa.types.is_floating(distinct.type):
        texts = distinct.cast(pa.float64()).cast(pa.string())
        return pc.if_else(pc.is_nan(distinct), pa.scalar(None, pa.string()), texts)
    return distinct.cast(pa.string())


def _null_state(values: pa.Array) -> NDArray[np.uint8]:
    if not values.null_count:
        return np.zeros(len(values), np.uint8)
    # One bit for each row from the array's offset on: 1 for a value, while MISSING is 1.
    validity, first = np.frombuffer(values.buffers()[0], np.uint8), values.offset
    bits = np.unpackbits(validity[first // 8 :], count=first % 8 + len(values), bitorder="little")
    state = bits[first % 8 :]
    state ^= np.uint8(State.MISSING)
    return state


def _all_unknown(state: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return np.where(state == State.MISSING, state, np.uint8(State.UNKNOWN))


def _zeroed(values: pa.Array) -> Array:
    """Return the values as numpy, zero where null."""
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    if values.null_count:
        values = values.fill_null(0)
    array: Array = values.to_numpy(zero_copy_only=False)
    return array


def _to_int64(data: Array) -> NDArray[np.int64]:
    """Return whole numbers as int64; a number that does not fit becomes the nearest end."""
    if data.dtype.kind == "f":
        big = data >= 2.0**63
        small = data < -(2.0**63)
        whole = np.where(big | small, 0.0, data).astype(np.int64)
        whole[big], whole[small] = INT64_MAX, INT64_MIN
        return whole
    if data.dtype == np.uint64:
        data = np.minimum(data, np.uint64(INT64_MAX))
    return data.astype(np.int64)


def _matching(texts: pa.Array, pattern: str) -> tuple[NDArray[np.bool_], pa.Array]:
    """Return which texts match, and the texts with the others replaced by `0`."""
    valid = pc.match_substring_regex(texts, pattern).fill_null(False)
    return (
        np.array(valid.to_numpy(zero_copy_only=False), dtype=bool),
        pc.if_else(valid, texts, pa.scalar("0", texts.type)),
    )


def _integers(texts: pa.Array) -> tuple[Array, NDArray[np.bool_]]:
    valid, texts = _matching(texts, INTEGER_TEXT)
    texts = pc.replace_substring_regex(texts, r"^\+|\.0*$", "")
    try:
        data: Array = texts.cast(pa.int64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:  # one of them does not fit; this way is slower, and exact
        whole = [min(max(int(text), INT64_MIN), INT64_MAX) for text in texts.to_pylist()]
        data = np.array(whole, dtype=np.int64)
    return data, valid


def _numbers(texts: pa.Array) -> tuple[Array, NDArray[np.bool_]]:
    valid, texts = _matching(texts, NUMBER_TEXT)
    return texts.cast(pa.float64()).to_numpy(zero_copy_only=False), valid


def _dates(texts: pa.Array) -> tuple[Array, NDArray[np.bool_]]:
    valid, texts = _matching(texts, DATE_TEXT)
    days = pc.if_else(pa.array(valid), pc.utf8_slice_codeunits(texts, 0, 10), "1970-01-01")
    # The fast parser accepts the year 0, which no calendar has, and fails for the whole array.
    if not pc.any(pc.starts_with(days, "0000")).as_py():
        with contextlib.suppress(pa.ArrowInvalid):
            since = days.cast(pa.date32()).cast(pa.int32()).to_numpy(zero_copy_only=False)
            return since.astype(np.int64) + EPOCH, valid
    return _dates_one_by_one(days.to_pylist(), valid)


def _dates_written(form: str, texts: pa.Array) -> tuple[Array, NDArray[np.bool_]]:
    """Return the day ordinals of texts in a format of `%d`, `%m` and `%Y`, and which are valid."""
    # Parts without a separator are told apart by their full width only.
    digits = "{2}" if re.search("%.%", form) else "{1,2}"
    pattern = re.escape(form).replace("%Y", "(?P<Y>[0-9]{4})")
    for part in ("d", "m"):
        pattern = pattern.replace(f"%{part}", f"(?P<{part}>[0-9]{digits})")
    found = pc.extract_regex(texts, rf"^{pattern}(?:[T ][0-9]{{2}}:.*)?$")
    year, month, day = (pc.struct_field(found, [part]) for part in ("Y", "m", "d"))
    month, day = (pc.utf8_lpad(part, width=2, padding="0") for part in (month, day))
    written = pc.binary_join_element_wise(year, month, day, "-")
    return _dates(written.fill_null(""))


def _dates_one_by_one(
    days: Sequence[str], valid: NDArray[np.bool_]
) -> tuple[Array, NDArray[np.bool_]]:
    data = np.full(len(days), EPOCH, np.int64)
    for place, day in enumerate(days):
        try:
            data[place] = datetime.date.fromisoformat(day).toordinal()
        except ValueError:
            valid[place] = False
    return data, valid
