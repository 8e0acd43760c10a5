"""Raw values of a column as typed arrays, before binning. Confidential side.

How a value is read depends only on the rule of its column and on the value itself: not on the type
in which the file stores the column, and not on other values. (One missing value makes some programs
store a column of whole numbers as floats, so the type of a column depends on all rows.)

Texts are parsed once for each distinct value: a batch of a text column becomes its distinct texts
and, for each row, the index of its text.

How each type is read:

- Category and ordinal: the exact text of a level or missing code, or else a text or stored value
  that is the same number, boolean or time (`value_texts`): 1, 1.00, 01, 1e+00 and 0x1 are the level
  `1`, true is 1, and 12:30:00 is 12:30. A schema with both `1` and `01` is refused, and so is one
  with levels `1` and `NA`.
- Integer: whole numbers, in decimal, scientific or hexadecimal notation. Stored floats and decimals
  count if they are whole, and booleans as 1 and 0.
- Number: decimal or scientific notation, as the nearest binary32 (of the nearest binary64). Edges,
  bounds and missing codes are rounded in the same way, and so are levels with a fraction: whether a
  program keeps a column in 32 bits depends on all of its values. Infinities are out of range.
- Date: `YYYY-MM-DD`, or a text in the column's `format`; a time of day after it is cut off. A
  stored number counts as its text, for a format such as `%d%m%Y`, with the zeros that it lost. A
  text with a time zone is no date.
- Missing: a null, NaN (of numbers, also as text), and every text of `missing_values`; of a number
  or date that such a text stands for, every other text or stored value as well. Spaces around
  numbers and dates are ignored.

What cannot be told apart is refused, whatever `out_of_range` says:

- A float from 2^53 on (binary32: 2^24) stands for several whole numbers. So a column of floats is
  refused if the schema has such a level, bound or missing code, and so is a text with a point from
  2^53 on, or with an exponent from 10^15 on.
- A moment with a time zone is on different days in different zones, and the zone belongs to the
  column rather than to the value. So a column of such moments is refused.
- A day or month that comes before the year may have been exchanged. So a column with such a
  `format` has texts in this format only.
- A program that reads all texts of a column as booleans, days or times writes them in a form of its
  own. So levels are in one of the two forms, and a file with the other is refused: with true if a
  level is yes, or no level is a boolean, and with yes if levels are booleans.
- A column with no other texts than NA may be stored without a type, or as NaN. So a column that is
  not stored as text is refused if the schema has such a level.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dp_core.kernel.coding.coding_rule import CodingRule
from dp_core.kernel.coding.parsed_texts import INT64_MAX, INT64_MIN, integers_of, numbers_of
from dp_core.kernel.coding.stored_texts import (
    BOOLEAN,
    BOOLEAN_WORD,
    DATE_WORD,
    DOUBLE_LIMIT,
    INFINITE,
    WRITTEN_TIME,
    canonical_texts,
    doubles,
    in_32_bits,
    is_day,
    is_text,
    plain,
    value_texts,
    value_type,
    whole_limit,
)
from dp_core.kernel.errors import BadInput, SchemaViolation

Array: TypeAlias = NDArray[Any]

_LOST_DIGITS = 10**15
"""From this number on, a text in scientific notation may have lost digits: R writes 15."""
_NO_LEVEL, _NO_VALUE = -2, -1
"""In place of a level: none, or a missing code."""
_NULL = r"|#N/A N/A|#?N/?A|n/a|NULL|null|-?(?i:NaN)|-?1\.#(IND|QNAN)"
"""Texts that programs read as null in a column of numbers or times, and as texts in others."""


REWRITTEN = (
    "has booleans, dates or times in another form than its levels, such as true beside yes, or"
    " 31.01.2026 beside 2026-01-31, and programs write one for the other"
)
"""Why a column of levels is refused; follows its name."""


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
        data: Level number (int64), whole number or day ordinal (int64), or number (float32).
            One entry per distinct text, or per row where `index` is None.
        state: `State` of each entry of `data`, uint8; None if all are values.
        index: Index in `data` of each row's value; None if entries are rows.
        texts: Text of each entry but the last, which is for null; None where `index` is None.
        exact: Number: each entry as binary64; None for other types.
    """

    data: Array
    state: NDArray[np.uint8] | None
    index: NDArray[np.int32] | None
    texts: pa.Array | None = None
    exact: NDArray[np.float64] | None = None


class Reader:
    """Reads raw arrays of one column, of any stored type.

    Attributes:
        rule: The rule of the column.
        levels: Finds its levels; None if its values are no levels.

    Raises:
        BadInput: if a level and another one, or a missing code, are the same number or time, or a
            level beside numbers or times is a text that means null.
        SchemaViolation: when it reads values that cannot be told apart, or moments with a time
            zone. The message names no value of the file.
    """

    def __init__(self, rule: CodingRule) -> None:
        self.rule = rule
        missing = pa.array(list(rule.missing_values), pa.string())
        self._missing = pa.concat_arrays([missing, pc.utf8_trim_whitespace(missing)])
        self._known = pa.array([*rule.texts, *rule.missing_values], pa.string())
        self.levels = Levels(rule) if rule.is_levels else None
        self._largest = _largest_whole(rule)
        words = () if rule.is_levels or rule.own_texts else rule.missing_values
        self._words = [
            text
            for text, form in zip(words, value_texts(pa.array(words, pa.string())), strict=True)
            if not form.is_valid and re.search(BOOLEAN_WORD, text)
        ]
        self._null_levels = [text for text in rule.texts if re.fullmatch(_NULL, text)]
        self._codes, self._missing_forms = self._missing_codes()
        # In a whole column these are the fractions.
        self._broken_codes = in_32_bits(numbers_of(self._missing_forms)[0])

    def read(self, values: pa.Array) -> Values:
        """Return the typed values of a batch of the column.

        Args:
            values: Any array type that `dp_core.confidential.source` lets through, in one piece or
                in chunks.
        """
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        kind = value_type(values)
        self._check_type(kind)
        if self.rule.is_stored(kind):
            return self._read_stored(plain(values))
        return self._read_distinct(values)

    def texts(self, values: pa.Array) -> pa.Array:
        """Return values as texts that are read as the values themselves are.

        Args:
            values: Any array type that `read` takes, in one piece.
        """
        self._check_type(value_type(values))
        return canonical_texts(values)

    def _check_type(self, kind: pa.DataType) -> None:
        """Raise if values of a type cannot tell values of the schema apart, or have no day."""
        name = self.rule.name
        if pa.types.is_timestamp(kind) and kind.tz is not None:
            raise SchemaViolation(
                f"Column {name!r} is stored as {kind}: a moment with a time zone is on"
                " different days in different zones; store dates, or times without a zone."
            )
        # privacy: a program exchanges day and month only if no row forbids it.
        if is_day(kind) and self.rule.format and not self.rule.format.startswith("%Y"):
            raise SchemaViolation(
                f"Column {name!r} has a `format` in the schema and is stored as {kind}, in which a"
                " program may have exchanged day and month; store the file's own texts, or remove"
                " `format` if all days are right."
            )
        # privacy: a program stores a column so only if no row has another level.
        if self._null_levels and not is_text(kind):
            raise SchemaViolation(
                f"Column {name!r} has the level {self._null_levels[0]!r} and is stored as {kind},"
                " in which it is a missing value; store it as text."
            )
        if pa.types.is_boolean(kind) and self._words:
            raise self._as_booleans()
        limit = whole_limit(kind)
        # privacy: the type alone decides, so the column is refused whatever its values are.
        if limit is not None and self._largest >= limit:
            raise self._merged(limit, f"is stored as {kind}")

    def _as_booleans(self) -> SchemaViolation:
        return SchemaViolation(
            f"Column {self.rule.name!r} has booleans and the missing code {self._words[0]!r}, for"
            " which programs write them; store the file's own texts."
        )

    def _check_texts(self, texts: pa.Array) -> None:
        """Raise if texts have lost digits that tell whole numbers apart, or were booleans."""
        if self._words and pc.any(pc.match_substring_regex(texts, BOOLEAN)).as_py():
            raise self._as_booleans()
        signs = {"[eE]": _LOST_DIGITS, "[.]": DOUBLE_LIMIT}
        known = pc.is_in(texts, value_set=self._known)
        for sign, limit in signs.items() if self._largest >= _LOST_DIGITS else ():
            inexact = pc.and_not(pc.match_substring_regex(texts, sign), known)
            some = texts.filter(inexact)
            numbers, valid = numbers_of(pc.utf8_trim_whitespace(some))
            if self._largest >= limit and (valid & (np.abs(numbers) >= limit)).any():
                raise self._merged(limit, "has texts with a point or an exponent")

    def _merged(self, limit: int, how: str) -> SchemaViolation:
        return SchemaViolation(
            f"Column {self.rule.name!r} has whole numbers of {limit:,} or more in the schema"
            f" and {how}, which cannot tell such numbers apart; store it as whole"
            " numbers, or as text with all digits."
        )

    def _read_distinct(self, values: pa.Array) -> Values:
        if pa.types.is_null(values.type):
            values = values.cast(pa.string())
        encoded = values if pa.types.is_dictionary(values.type) else pc.dictionary_encode(values)
        distinct = encoded.dictionary
        index = encoded.indices.cast(pa.int32())
        if index.null_count:
            index = index.fill_null(len(distinct))
        texts = self.texts(distinct)
        self._check_texts(texts)
        if self.levels is not None and pc.any(self.levels.rewritten(texts)).as_py():
            raise SchemaViolation(
                f"Column {self.rule.name!r} {REWRITTEN}; store the file's own texts, with levels"
                " of the same form."
            )
        exact = None
        if self.levels is not None:
            data, state = self.levels.read(texts)
        else:
            data, state = self._parse(texts if self.rule.own_texts else _without_nan(texts))
            if self.rule.continuous:
                exact = np.append(data, 0.0)
                data = in_32_bits(data)
        # One more entry, for rows without a value.
        return Values(
            np.append(data, data.dtype.type(0)),
            np.append(state, np.uint8(State.MISSING)),
            index.to_numpy(zero_copy_only=False),
            texts,
            exact,
        )

    def _parse(self, texts: pa.Array) -> tuple[Array, NDArray[np.uint8]]:
        """Return the values of the texts of an integer, number or date column."""
        missing = self._missing_texts(texts)
        texts = pc.utf8_trim_whitespace(texts)
        missing |= self._missing_texts(texts)
        if len(self._missing_forms):
            missing |= _places(_short_forms(texts), self._missing_forms) >= 0
        texts = self._padded(texts)
        data, valid = self.rule.parsed(texts)
        if not (self.rule.own_texts or valid.all()):
            data, valid = self.rule.parsed(value_texts(texts).fill_null(""))
        state = np.where(valid, State.VALUE, State.UNKNOWN).astype(np.uint8)
        self._mark_missing(in_32_bits(data) if self.rule.continuous else data, state)
        state[missing] = State.MISSING
        return data, state

    def _padded(self, texts: pa.Array) -> pa.Array:
        """Return texts of a format of digits only with the zero that a number loses."""
        form = self.rule.format
        if len(form) != len("%Y%m%d"):
            return texts
        texts = pc.coalesce(value_texts(texts), texts)
        if form.startswith("%Y"):  # no year begins with a zero
            return texts
        short = pc.match_substring_regex(texts, "^[0-9]{7}$")
        return pc.if_else(short, pc.utf8_lpad(texts, len("20260131"), "0"), texts)

    def _missing_texts(self, texts: pa.Array) -> NDArray[np.bool_]:
        mask = pc.or_(pc.is_in(texts, value_set=self._missing), texts.is_null())
        return np.array(mask.to_numpy(zero_copy_only=False), dtype=bool)

    def _read_stored(self, values: pa.Array) -> Values:
        """Return stored numbers, dates or times of day, which are read without their texts."""
        state, exact = _null_state(values), None
        data: Array
        if self.rule.own_texts:
            assert self.rule.span is not None
            (first, last), data = self.rule.span, self.rule.stored_values(values)
            beyond = (data < first) | (data > last)
            if beyond.any():  # no text is read as a value beyond
                data[beyond] = first
                state[beyond & (state == State.VALUE)] = State.UNKNOWN
        else:
            data = self._stored_numbers(values, state)
            if self.rule.continuous:
                exact = data.astype(np.float64, copy=False)
                data = in_32_bits(exact)
            else:
                data = _to_int64(data)
        self._mark_missing(data, state)
        return Values(data, state if np.count_nonzero(state) else None, None, exact=exact)

    def _stored_numbers(self, values: pa.Array, state: NDArray[np.uint8]) -> Array:
        """Return stored numbers, 0 where there is none, or no whole number in a column of such."""
        if not pa.types.is_floating(values.type):
            return _zeroed(values)
        data = doubles(values)
        without = np.isnan(data)
        state[without] = State.MISSING
        if not self.rule.continuous:
            fraction = np.isfinite(data) & (data != np.floor(data))
            state[fraction] = State.UNKNOWN
            state[fraction & np.isin(in_32_bits(data), self._broken_codes)] = State.MISSING
            without |= fraction
        return np.where(without, 0.0, data) if without.any() else data

    def _missing_codes(self) -> tuple[Array, pa.Array]:
        """Return the values that mean missing, and the numbers that do and are no such value.

        The numbers are in the form of `_short_forms`.
        """
        texts = pc.utf8_trim_whitespace(self._missing)
        if self.rule.is_levels:
            return np.empty(0), texts.slice(0, 0)
        forms = _short_forms(texts)
        if self.rule.own_texts:
            data, valid = self.rule.parsed(self._padded(texts))
            return np.unique(data[valid]), forms.drop_null()
        exact = value_texts(texts).fill_null("")
        numbers, valid = numbers_of(exact)
        if self.rule.continuous:
            return np.unique(in_32_bits(numbers[valid])), forms.slice(0, 0)
        whole, is_whole = integers_of(exact)
        return np.unique(whole[is_whole]), forms.filter(pa.array(valid & ~is_whole))

    def _mark_missing(self, data: Array, state: NDArray[np.uint8]) -> None:
        for code in self._codes:
            found = data == code
            if found.any():
                # An entry without a value has an arbitrary one.
                state[found & (state == State.VALUE)] = State.MISSING


class Levels:
    """Finds the levels, and the missing codes, that texts of a column stand for.

    Raises:
        BadInput: as `Reader` does.
    """

    def __init__(self, rule: CodingRule) -> None:
        found = {**rule.texts, **dict.fromkeys(rule.missing_values, _NO_VALUE)}
        self._texts = pa.array(list(found), pa.string())
        self._codes = np.array([*found.values(), _NO_LEVEL], dtype=np.int64)
        forms = dict(zip(found, _short_forms(self._texts).to_pylist(), strict=True))
        of: dict[str, str] = {}
        for text, form in forms.items():
            first = text if form is None else of.setdefault(form, text)
            # privacy: a program that reads 01 as a number writes 1, unless one row is no number.
            if found[first] != found[text]:
                raise BadInput(
                    f"Column {rule.name!r} of the schema has {first!r} and {text!r}, which are"
                    " one number or time to programs that write files; change one of them in the"
                    " schema and in the file, for example by a letter."
                )
        # privacy: such a level becomes null in a file, unless one row is no number.
        nulls = [text for text in rule.texts if re.fullmatch(_NULL, text)]
        if nulls and any(forms[text] is not None for text in rule.texts):
            raise BadInput(
                f"Column {rule.name!r} of the schema has the level {nulls[0]!r}, which programs"
                " read as a missing value in a column of numbers, booleans or times; name it under"
                " `missing_values`, or change it in the schema and in the file."
            )
        codes = {form: found[text] for form, text in of.items()}
        self._forms = pa.array(list(codes), pa.string())
        self._form_codes = np.array([*codes.values(), _NO_LEVEL], dtype=np.int64)

        # privacy: what a program writes for all texts of a column, and the texts that it reads so.
        # The schema has one of the two, and a file with the other is refused.
        self._foreign: list[tuple[str, bool]] = []
        for written, form, read in (
            (BOOLEAN, "^[01]$", BOOLEAN_WORD),
            (WRITTEN_TIME, WRITTEN_TIME, DATE_WORD),
        ):
            stated = any(re.search(form, each) for each in codes)
            others = [text for text in found if re.search(read, text) and forms[text] is None]
            is_read = stated and not others
            self._foreign.append((read if is_read else written, is_read))

    def rewritten(self, texts: pa.Array) -> pa.Array:
        """Return which texts may have been written for others, or others for them.

        Privacy:
            A program writes yes, 31.01.2026 or 01.1.1 as a boolean or date if all texts of the
            column are such.
        """
        other = pc.invert(pc.is_in(texts, value_set=self._texts))
        without = pc.and_(other, value_texts(texts).is_null())
        found = pa.scalar(False)
        for pattern, is_read in self._foreign:
            matches = pc.match_substring_regex(texts, pattern).fill_null(False)
            found = pc.or_(found, pc.and_(matches, without if is_read else other))
        return found

    def read(self, texts: pa.Array) -> tuple[Array, NDArray[np.uint8]]:
        """Return the level and the state of each text.

        Args:
            texts: Texts, null for missing.
        """
        data = self._codes[_places(texts, self._texts)]
        rest = (data == _NO_LEVEL) & texts.is_valid().to_numpy(zero_copy_only=False)
        if rest.any():
            forms = _short_forms(texts.filter(pa.array(rest)))
            data[rest] = self._form_codes[_places(forms, self._forms)]
        state = np.where(data == _NO_LEVEL, State.UNKNOWN, State.VALUE).astype(np.uint8)
        state[(data == _NO_VALUE) | texts.is_null().to_numpy(zero_copy_only=False)] = State.MISSING
        return np.maximum(data, 0), state


def _short_forms(texts: pa.Array) -> pa.Array:
    """Return the numbers and times of texts as `value_texts` does; fractions in 32 bits."""
    forms = value_texts(texts)
    fraction = pc.match_substring_regex(forms, r"^-?[0-9]*\.[0-9]+$").fill_null(False)
    numbers = forms.filter(fraction).cast(pa.float64()).to_numpy()
    short = in_32_bits(numbers).astype(np.float64)
    return pc.replace_with_mask(forms, fraction, canonical_texts(pa.array(short)))


def _without_nan(texts: pa.Array) -> pa.Array:
    """Return texts, null for NaN: a program stores it so if all others are numbers."""
    nan = pc.match_substring_regex(texts, r"(?i)^\s*[+-]?nan\s*$").fill_null(False)
    return pc.if_else(nan, pa.scalar(None, texts.type), texts)


def _places(texts: pa.Array, among: pa.Array) -> NDArray[np.int64]:
    """Return the place of each text, -1 if there is none."""
    found = pc.index_in(texts, value_set=among).fill_null(-1)
    return np.array(found.to_numpy(zero_copy_only=False), dtype=np.int64)


def _largest_whole(rule: CodingRule) -> float:
    """Return the largest whole number of the schema whose exact value matters, 0 without one."""
    if rule.continuous or rule.own_texts:
        return 0
    texts = [*rule.texts, *rule.missing_values] if rule.is_levels else rule.missing_values
    forms = value_texts(pa.array(texts, pa.string())).to_pylist()
    infinite = (INFINITE, f"-{INFINITE}")
    whole = [
        abs(float(form))
        for form in forms
        if re.fullmatch("-?[0-9]+", form or "") and form not in infinite
    ]
    # The upper end of the last bin is not legal itself.
    limits = [] if rule.is_levels else [abs(int(limit)) for limit in (rule.low, rule.high)]
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
