"""Raw values of a column as typed arrays, before binning. Confidential side.

How a value is read depends only on the schema's column and on the value itself: not on the type in
which the file stores the column, and not on other values. (One missing value makes some programs
store a column of whole numbers as floats, so the type of a column depends on all rows.)

Texts are parsed once for each distinct value: a batch of a text column becomes its distinct texts
and, for each row, the index of its text.

How each type is read:

- Category and ordinal: the exact text. A stored number, boolean, date or time has the text that
  `stored_texts` gives it: 1, 1.0 and 1.00 are `1`. If all levels that are numbers are written in
  this form (unlike 007 and 7.0), a text such as `1.0` or `0.50` is the level `1` or `0.5` too. A
  text of a day at midnight is the day. `true`, `True` and `TRUE` are the same unless two of them
  are levels; the same holds for `false`. If the levels have none of these words but 0 and 1, true
  is `1` and false is `0`.
- Integer: an optional sign and digits; `3.0` is accepted for the reason above, `3.5` and `3e2` are
  not. Stored floats and decimals count if they are whole, and booleans as 1 and 0.
- Number: decimal or scientific notation. A value and an edge are compared as binary64. A value that
  is the binary32 of an edge equals it (`short_decimals`). Infinities are out of range.
- Date: `YYYY-MM-DD`, or a text in the column's own `format`; a time of day after it is cut off; a
  stored time with a zone is the day there. A stored number counts as its text, for a format such as
  `%Y%m%d`.
- Missing: a null, NaN, and every text of `missing_values`; of a number or date that such a text
  stands for, every other text or stored value as well. Spaces around numbers and dates are ignored.

A float from 2^53 on (binary32: 2^24) stands for several whole numbers. So a column of floats is
refused if the schema has such a level, bound or missing code.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dp_core.confidential.values.parsed_texts import (
    INT64_MAX,
    INT64_MIN,
    NUMBER_TEXT,
    days_in_format,
    days_of,
    integers_of,
    numbers_of,
    texts_in_format,
)
from dp_core.confidential.values.short_decimals import ShortDecimals
from dp_core.confidential.values.stored_texts import (
    DOUBLE_LIMIT,
    WHOLE_WITH_ZEROS,
    canonical_texts,
    doubles,
    is_day,
    is_text,
    local_times,
    plain,
    value_type,
    whole_limit,
)
from dp_core.errors import SchemaViolation
from dp_core.schema.decoding import EPOCH, legal_range
from dp_core.schema.definition import Column

Array: TypeAlias = NDArray[Any]

_CANONICAL = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]*[1-9])?", re.ASCII)
"""A number as `canonical_texts` writes it."""
_DECIMALS = r"^-?(0|[1-9][0-9]*)\.[0-9]+$"
_MIDNIGHT = r"^([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]00:00(:00(\.0+)?)?$"
_WORDS = {"0": ("false", "False", "FALSE"), "1": ("true", "True", "TRUE")}
"""How programs write booleans, and the number that each is."""
_ALL_WORDS = pa.array([word for words in _WORDS.values() for word in words])


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
        texts: Text of each entry but the last, which is for null; None where `index` is None.
    """

    data: Array
    state: NDArray[np.uint8] | None
    index: NDArray[np.int32] | None
    texts: pa.Array | None = None


class Reader:
    """Reads raw arrays of one column, of any stored type.

    Raises:
        SchemaViolation: when it reads an array of floats that cannot tell whole numbers of the
            schema apart.
    """

    def __init__(self, column: Column) -> None:
        self.column = column
        self._missing = pa.array(list(column.missing_values), pa.string())
        self._dates = partial(days_in_format, column.format) if column.format else days_of
        self._levels = _Levels(column) if column.levels else None
        self._largest = _largest_whole(column)
        self._codes, self._broken_codes = self._missing_codes()
        self._short = ShortDecimals(
            [*map(float, _limits(column)), *self._codes.tolist()] if column.kind == "number" else ()
        )

    def read(self, values: pa.Array) -> Values:
        """Return the typed values of a batch of the column.

        Args:
            values: Any array type that `dp_core.confidential.source` lets through, in one piece or
                in chunks.
        """
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        kind = value_type(values)
        self._check_floats(kind)
        if self.column.levels or not self._is_typed(kind):
            return self._read_distinct(values)
        values = plain(values)
        if self.column.kind == "date":
            data, state = self._stored_dates(values)
        elif self.column.kind == "integer":
            data, state = self._stored_integers(values)
        else:
            data, state = self._stored_numbers(values)
        return Values(data, state if np.count_nonzero(state) else None, None)

    def texts(self, values: pa.Array) -> pa.Array:
        """Return values as texts that are read as the values themselves are.

        Args:
            values: Any array type that `read` takes, in one piece.
        """
        if pa.types.is_dictionary(values.type):
            return self.texts(values.dictionary).take(values.indices.cast(pa.int64()))
        self._check_floats(values.type)
        texts = canonical_texts(values)
        if self.column.kind == "date" and self.column.format and is_day(values.type):
            return texts_in_format(self.column.format, texts)
        if pa.types.is_floating(values.type) and not self.column.levels:
            infinite = "9" * 20 if self.column.kind == "integer" else "1e999"
            texts = pc.replace_substring(texts, "inf", infinite)
        return texts

    def _check_floats(self, kind: pa.DataType) -> None:
        """Raise if values of a type cannot tell whole numbers of the schema apart."""
        limit = whole_limit(kind)
        if limit is not None and not self.column.levels:
            limit = DOUBLE_LIMIT
        # privacy: the type alone decides. If such values counted as unreadable, they might become
        # missing, and one row that makes a column one of floats would change other rows' codes.
        if limit is not None and self._largest >= limit:
            raise SchemaViolation(
                f"Column {self.column.name!r} has whole numbers of {limit:,} or more in the schema"
                f" and is stored as {kind}, which cannot tell such numbers apart; store it as whole"
                " numbers or text."
            )

    def _is_typed(self, kind: pa.DataType) -> bool:
        """Return whether values of a type are read without their texts; never for levels."""
        if self.column.kind == "date":
            return is_day(kind)
        numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind)
        return bool(numeric or pa.types.is_boolean(kind))

    def _read_distinct(self, values: pa.Array) -> Values:
        if pa.types.is_null(values.type):
            values = values.cast(pa.string())
        if pa.types.is_float16(value_type(values)):  # few of Arrow's functions accept it
            values = pc.cast(plain(values), pa.float32())
        encoded = values if pa.types.is_dictionary(values.type) else pc.dictionary_encode(values)
        distinct = encoded.dictionary
        index = encoded.indices.cast(pa.int32())
        if index.null_count:
            index = index.fill_null(len(distinct))
        texts = self.texts(distinct)
        if self._levels is not None:
            data, state = self._levels.read(texts, is_text(distinct.type))
        else:
            data, state = self._parse(texts)
        # One more entry, for rows without a value.
        return Values(
            np.append(data, data.dtype.type(0)),
            np.append(state, np.uint8(State.MISSING)),
            index.to_numpy(zero_copy_only=False),
            texts,
        )

    def _parse(self, texts: pa.Array) -> tuple[Array, NDArray[np.uint8]]:
        """Return the values of the texts of an integer, number or date column."""
        missing = self._missing_texts(texts)
        texts = pc.utf8_trim_whitespace(texts)
        missing |= self._missing_texts(texts)
        if self.column.kind == "date":
            data, valid = self._dates(pc.replace_substring_regex(texts, WHOLE_WITH_ZEROS, r"\1"))
        else:
            parse = integers_of if self.column.kind == "integer" else numbers_of
            data, valid = parse(texts)
            if not valid.all() and pc.any(pc.is_in(texts, value_set=_ALL_WORDS)).as_py():
                data, valid = parse(_numbered(texts))
        if self.column.kind == "number":
            data = self._short.restored(data)
        state = np.where(valid, State.VALUE, State.UNKNOWN).astype(np.uint8)
        self._mark_missing(data, state)
        if self._broken_codes.size:
            numbers, valid = numbers_of(texts)
            missing |= valid & np.isin(numbers, self._broken_codes)
        state[missing] = State.MISSING
        return data, state

    def _missing_texts(self, texts: pa.Array) -> NDArray[np.bool_]:
        mask = pc.or_(pc.is_in(texts, value_set=self._missing), texts.is_null())
        return np.array(mask.to_numpy(zero_copy_only=False), dtype=bool)

    def _stored_integers(self, values: pa.Array) -> tuple[Array, NDArray[np.uint8]]:
        state = _null_state(values)
        if pa.types.is_floating(values.type):
            floats = doubles(values)
            state[np.isnan(floats)] = State.MISSING
            fraction = np.isfinite(floats) & (floats != np.floor(floats))
            state[fraction] = State.UNKNOWN
            for code in self._broken_codes:
                state[floats == code] = State.MISSING
            data = _to_int64(np.where(np.isnan(floats) | fraction, 0.0, floats))
        else:
            data = _to_int64(_zeroed(values))
        self._mark_missing(data, state)
        return data, state

    def _stored_numbers(self, values: pa.Array) -> tuple[Array, NDArray[np.uint8]]:
        state = _null_state(values)
        if pa.types.is_floating(values.type):
            data = doubles(values)
            nan = np.isnan(data)
            if nan.any():
                state[nan] = State.MISSING
                data = np.where(nan, 0.0, data)
            data = self._short.restored(data)
        else:
            data = _zeroed(values).astype(np.float64)
        self._mark_missing(data, state)
        return data, state

    def _stored_dates(self, values: pa.Array) -> tuple[Array, NDArray[np.uint8]]:
        state = _null_state(values)
        values = local_times(values)
        if pa.types.is_timestamp(values.type):
            values = pc.floor_temporal(values, unit="day")
        data = (
            _zeroed(values.cast(pa.date32(), safe=False).cast(pa.int32())).astype(np.int64) + EPOCH
        )
        self._mark_missing(data, state)
        return data, state

    def _missing_codes(self) -> tuple[Array, NDArray[np.float64]]:
        """Return the values that mean missing, and those of an integer column that are not whole.

        A day may be written in the column's format or as an ISO date.
        """
        texts = pc.utf8_trim_whitespace(self._missing)
        none = np.empty(0)
        if self.column.levels:
            return none, none
        if self.column.kind == "date":
            read = [self._dates(texts), days_of(texts)]
            return np.unique(np.concatenate([data[valid] for data, valid in read])), none
        numbers, valid = numbers_of(texts)
        if self.column.kind == "number":
            return np.unique(numbers[valid]), none
        whole, is_whole = integers_of(texts)
        return np.unique(whole[is_whole]), np.unique(numbers[valid & ~is_whole])

    def _mark_missing(self, data: Array, state: NDArray[np.uint8]) -> None:
        for code in self._codes:
            found = data == code
            if found.any():
                # An entry without a value has an arbitrary one.
                state[found & (state == State.VALUE)] = State.MISSING


class _Levels:
    """Finds the levels, and the missing codes, that texts of a column stand for."""

    def __init__(self, column: Column) -> None:
        found: dict[str, int] = {**column.texts(), **dict.fromkeys(column.missing_values, -1)}
        stated = {number: [word for word in _WORDS[number] if word in found] for number in _WORDS}
        for number, words in _WORDS.items():
            # A column of 0 and 1 may be one of booleans, unless its levels have such words.
            alone = [number] if not any(stated.values()) and {*_WORDS} <= {*found} else []
            for level in (stated[number] or alone)[:1]:
                found = dict.fromkeys(words, found[level]) | found
        self._texts = pa.array(list(found), pa.string())
        self._codes = np.array([*found.values(), 0], dtype=np.int64)
        place = {text: number for number, text in enumerate(found)}
        numbers = [text for text in found if re.match(NUMBER_TEXT, text)]
        canonical = [text for text in numbers if _CANONICAL.fullmatch(text)]
        # Levels such as 007 or 7.0 show that the column's texts are not numbers.
        self._as_written = len(canonical) < len(numbers)
        of: dict[float, int] = {}
        for kind in (np.float32, np.float64):  # the nearest binary64 takes precedence
            with np.errstate(over="ignore"):
                of |= {float(kind(text)): place[text] for text in canonical}
        of = {number: at for number, at in of.items() if abs(number) < DOUBLE_LIMIT}
        self._numbers = np.array(sorted(of), dtype=np.float64)
        self._places = np.array([of[number] for number in sorted(of)], dtype=np.int64)

    def read(self, texts: pa.Array, written: bool) -> tuple[Array, NDArray[np.uint8]]:
        """Return the level and the state of each text.

        Args:
            texts: Texts, null for missing.
            written: Whether the file has these texts; otherwise they are those of stored values.
        """
        places = self._found(texts)
        if (places < 0).any() and self._numbers.size and not (written and self._as_written):
            mask = self._matching(texts, _DECIMALS, places)
            if mask.any():
                numbers = texts.filter(pa.array(mask)).cast(pa.float64()).to_numpy()
                at = np.minimum(np.searchsorted(self._numbers, numbers), self._numbers.size - 1)
                places[mask] = np.where(self._numbers[at] == numbers, self._places[at], -1)
        if written and (places < 0).any():
            mask = self._matching(texts, _MIDNIGHT, places)
            if mask.any():
                days = pc.utf8_slice_codeunits(texts.filter(pa.array(mask)), 0, 10)
                places[mask] = self._found(days)
        data = self._codes[places]
        state = np.where(places < 0, State.UNKNOWN, State.VALUE).astype(np.uint8)
        state[(data < 0) | texts.is_null().to_numpy(zero_copy_only=False)] = State.MISSING
        return np.maximum(data, 0), state

    def _found(self, texts: pa.Array) -> NDArray[np.int64]:
        found = pc.index_in(texts, value_set=self._texts).fill_null(-1)
        return np.array(found.to_numpy(zero_copy_only=False), dtype=np.int64)

    def _matching(
        self, texts: pa.Array, pattern: str, places: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Return which texts were not found and match a pattern."""
        matches = pc.match_substring_regex(texts, pattern).fill_null(False)
        mask: NDArray[np.bool_] = matches.to_numpy(zero_copy_only=False) & (places < 0)
        return mask


def _numbered(texts: pa.Array) -> pa.Array:
    """Return texts with the number of each boolean word in its place."""
    for number, words in _WORDS.items():
        found = pc.is_in(texts, value_set=pa.array(words))
        texts = pc.if_else(found, pa.scalar(number, texts.type), texts)
    return texts


def _limits(column: Column) -> list[Any]:
    """Return the bin edges and the bounds of an integer, number or date column."""
    bounds = (column.minimum, column.maximum)
    return [*column.edges, *(bound for bound in bounds if bound is not None)]


def _largest_whole(column: Column) -> int:
    """Return the largest whole number of the schema whose exact value matters, 0 without one."""
    if column.kind in ("number", "date"):
        return 0
    texts = [*column.texts(), *column.missing_values] if column.levels else column.missing_values
    whole = [abs(int(text)) for text in texts if re.fullmatch(r"-?(0|[1-9][0-9]*)", text, re.A)]
    # The upper end of the last bin is not legal itself.
    limits = [] if column.levels else [abs(int(limit)) for limit in legal_range(column)]
    return max([*whole, *limits], default=0)


def _null_state(values: pa.Array) -> NDArray[np.uint8]:
    if not values.null_count:
        return np.zeros(len(values), np.uint8)
    # One bit for each row from the array's offset on: 1 for a value, while MISSING is 1.
    validity, first = np.frombuffer(values.buffers()[0], np.uint8), values.offset
    bits = np.unpackbits(validity[first // 8 :], count=first % 8 + len(values), bitorder="little")
    state = bits[first % 8 :]
    state ^= np.uint8(State.MISSING)
    return state


def _zeroed(values: pa.Array) -> Array:
    """Return the values as numpy, zero where null."""
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    if values.null_count:
        values = values.fill_null(0)
    array: Array = values.to_numpy(zero_copy_only=False)
    return array


def _to_int64(data: Array) -> NDArray[np.int64]:
    """Return whole numbers as int64; a number out of its range becomes the nearest limit."""
    if data.dtype.kind == "f":
        big = data >= 2.0**63
        small = data < -(2.0**63)
        whole = np.where(big | small, 0.0, data).astype(np.int64)
        whole[big], whole[small] = INT64_MAX, INT64_MIN
        return whole
    if data.dtype == np.uint64:
        data = np.minimum(data, np.uint64(INT64_MAX))
    return data.astype(np.int64)
