"""Stored values as texts; a value has one text, whatever its stored type. Confidential side.

- Text is itself.
- A number is its digits, without trailing zeros and never in scientific notation: 7, 7.0 and 7.00
  are `7`. A float is the shortest decimal that binary64 reads as this float.
- A boolean is `true` or `false`.
- A day is an ISO date, and so is midnight; another time is `2026-01-31 12:30:00`. A time with a
  zone has its time in UTC with a Z after it, which no column reads as a day.
- Null and NaN have no text.

`value_texts` does the same for the texts of values: a program that stores a text as a number,
boolean or time, and writes it again, may change the text, but not the text that it returns.

Identifiers of persons and keys of tables are compared by these texts, so a person has one
identifier whether the column is stored as text, whole numbers, decimals or floats. So zeros at the
beginning of a whole number do not count: 007 and 7 are one identifier, as are 12E3 and 12000. A
float from 2^53 on (binary32: from 2^24 on) stands for several whole numbers, so it is no
identifier. Nor is a text such as 1.23E+11, which lost digits, a boolean, a date or a time: programs
write them for other texts, if all identifiers of the column are such texts.
"""

from __future__ import annotations

import decimal
from collections.abc import Collection
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dp_core.kernel.coding.parsed_texts import INTEGER_TEXT, NUMBER_TEXT, days_and_rest
from dp_core.kernel.errors import SchemaViolation

_DAY, _HOURS = "[0-9]{4}-[0-9]{2}-[0-9]{2}", r"[0-9]{1,2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?"
_TIME = f"^({_DAY}([T ][0-9]{{2}})?|({_DAY}[T ])?{_HOURS})$"
BOOLEAN = "^(true|false|True|False|TRUE|FALSE)$"
"""Texts that programs write for booleans."""
BOOLEAN_WORD = "(?i)^(t|f|y|n|yes|no|on|off|true|false)$"
"""Texts that programs read as booleans if all texts of a column are such."""
_MONTHS = (
    "jan(uary)?|feb(ruary)?|mar(ch)?|apr(il)?|may|june?|july?|aug(ust)?|sept?(ember)?|oct(ober)?"
    "|nov(ember)?|dec(ember)?"
)
DATE_WORD = (
    r"(?i)^([0-9]{1,4}([./-][0-9]{1,4}){1,2}|[0-9]{4}-?q[1-4]|[0-9]{1,2}:[0-9]{2}(:[0-9.]+)? ?[ap]m"
    rf"|([0-9]{{1,4}}[ ./-])*({_MONTHS})([ ./-][0-9, -]*)?)([T ].*)?$"
)
"""Texts that programs read as days or times, in other forms than they write."""
WRITTEN_TIME = rf"^({_DAY}([T ].*)?|[0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(\.[0-9]+)?)$"
"""Texts that programs write for days, moments and times."""
_HEXADECIMAL = "^0[xX][0-9a-fA-F]{1,16}$"
"""Texts that Arrow reads as whole numbers."""
_WORDS = {"0": ("false", "False", "FALSE"), "1": ("true", "True", "TRUE")}
"""How programs write booleans, and the number that each is."""
_CHANGING = (
    r"(?i)^[+-]?(inf(inity)?|nan)$|^(true|false)$"
    r"|^[+-]?[0-9]([.,][0-9]*)?e[+][0-9]{1,3}$|^[+-]?[0-9]{16,}\.0*$|^#+$"
    r"|^[+-]?[0-9]*\.[0-9]*[1-9][0-9]*$"
    r"|^[0-9]{1,2}:[0-9]{2}(:[0-9.]*)?$"
    r"|^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9:.]+ ?(Z|[+-][0-9:]+)?)?$"
)
"""What programs write for other texts, of which some are equal: lost digits, booleans, times. A
fraction may have lost a zero: 12.10 becomes 12.1."""
INFINITE = "9" * 400
"""A number beyond all floats."""
DOUBLE_LIMIT = 2**53
"""From this number on, one binary64 stands for several whole numbers."""


def canonical_texts(values: pa.Array) -> pa.Array:
    """Return stored values as texts, null where there is no value.

    Args:
        values: Any array type that `dp_core.confidential.source` lets through, in one piece.
    """
    if pa.types.is_dictionary(values.type):
        indices = values.indices.cast(pa.int64())  # a dictionary may be larger than its index type
        return canonical_texts(values.dictionary).take(indices)
    kind = values.type
    if is_text(kind):
        return values.cast(pa.string())
    if pa.types.is_floating(kind):
        return _float_texts(values)
    if pa.types.is_decimal(kind):
        return _decimal_texts(values)
    if is_day(kind):
        return _day_texts(values)
    return values.cast(pa.string())


def value_texts(texts: pa.Array) -> pa.Array:
    """Return the text of the number or time that each text stands for, null if it is none.

    >>> texts = ["007", " 7.0", "1e+05", ".50", "0x1F", "TRUE", "2026-01-31T00:00", "12:30", "a"]
    >>> value_texts(pa.array(texts)).to_pylist()
    ['7', '7', '100000', '0.5', '31', '1', '2026-01-31', '12:30:00', None]

    A text with a point or an exponent is the number that binary64 has for it; whole numbers
    without an exponent are exact. A boolean is 1 or 0. A time may have a day or none.

    Args:
        texts: Texts; blanks around them do not count.
    """
    texts = pc.utf8_trim_whitespace(texts)
    for number, words in _WORDS.items():
        texts = pc.if_else(pc.is_in(texts, value_set=pa.array(words)), number, texts)
    hexadecimal = pc.match_substring_regex(texts, _HEXADECIMAL).fill_null(False)
    if pc.any(hexadecimal).as_py():
        numbers = texts.filter(hexadecimal).cast(pa.int64()).cast(pa.string())
        texts = pc.replace_with_mask(texts, hexadecimal, numbers)
    found = pc.if_else(pc.match_substring_regex(texts, INTEGER_TEXT), whole_texts(texts), None)
    inexact = pc.and_(pc.match_substring_regex(texts, NUMBER_TEXT), found.is_null())
    inexact = inexact.fill_null(False)
    if pc.any(inexact).as_py():
        numbers = texts.filter(inexact).cast(pa.float64()).to_numpy()
        written = pc.replace_substring(_float_texts(pa.array(numbers)), "inf", INFINITE)
        found = pc.replace_with_mask(found, inexact, written)
    times = pc.match_substring_regex(texts, _TIME).fill_null(False)
    if pc.any(times).as_py():
        written = pc.replace_substring(texts.filter(times), "T", " ")
        written = pc.replace_substring_regex(written, "(^| )([0-9]:)", r"\10\2")
        written = pc.replace_substring_regex(written, "( [0-9]{2})$", r"\1:00")
        written = pc.replace_substring_regex(written, "((^| )[0-9]{2}:[0-9]{2})$", r"\1:00")
        written = pc.replace_substring_regex(_without_zeros(written), r" 00:00:00$", "")
        found = pc.replace_with_mask(found, times, written)
    return found


def whole_texts(texts: pa.Array) -> pa.Array:
    """Return texts, whole numbers among them without superfluous zeros: 7 for 007 and 7.0."""
    digits = pc.replace_substring_regex(texts, r"^\+|\.0*$", "")
    digits = pc.replace_substring_regex(digits, r"^(-?)0+([0-9])", r"\1\2")
    digits = pc.if_else(pc.equal(digits, "-0"), "0", digits)
    return pc.if_else(pc.match_substring_regex(texts, INTEGER_TEXT), digits, texts)


def identifier_texts(values: pa.Array, what: str) -> pa.Array:
    """Return identifiers or keys as texts without surrounding blanks, null where there is none.

    A text such as `7.0`, `007` or `7e0` is the number `7`, as programs write it in other columns.

    Args:
        values: Texts, or whole numbers of any stored type.
        what: Beginning of a message: which column it is.

    Raises:
        SchemaViolation: if values have another type, stored numbers are not whole or too large for
            their type, or texts are numbers that lost digits, booleans or times. The message names
            no value.
    """
    kind = value_type(values)
    numeric = pa.types.is_integer(kind) or pa.types.is_null(kind)
    inexact = pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if not (is_text(kind) or numeric or inexact):
        raise SchemaViolation(no_identifier(what, str(kind)))
    texts = canonical_texts(values)
    if inexact:
        limit = whole_limit(kind)
        whole = pc.match_substring_regex(texts, r"^-?[0-9]+$")
        if not pc.all(whole, min_count=0).as_py() or (
            limit is not None and (np.abs(doubles(plain(values))) >= limit).any()
        ):
            raise SchemaViolation(
                f"{what} is stored as {kind}, with numbers that are not whole or that this type"
                " cannot tell apart; store it as text or whole numbers."
            )
        return texts
    if not is_text(kind):
        return texts
    texts = pc.utf8_trim_whitespace(texts)
    if pc.any(pc.match_substring_regex(texts, _CHANGING)).as_py():
        raise SchemaViolation(
            f"{what} has texts that programs write for numbers that lost digits, booleans or times,"
            " such as 8E+11, True or 1:30; write whole numbers with all digits, or put a letter"
            " in front of every identifier."
        )
    return _plain_identifiers(texts)


def _plain_identifiers(texts: pa.Array) -> pa.Array:
    """Return texts, numbers among them as programs write them that read all texts as numbers."""
    texts = whole_texts(texts)
    number = pc.match_substring_regex(texts, f"{NUMBER_TEXT}|{_HEXADECIMAL}")
    number = pc.and_not(number, pc.match_substring_regex(texts, INTEGER_TEXT)).fill_null(False)
    if not pc.any(number).as_py():
        return texts
    found = texts.filter(number)
    forms = value_texts(found)
    # privacy: a larger number is refused where it is stored as a float, so it stays as it is.
    exact = pa.array(np.abs(forms.cast(pa.float64()).to_numpy()) < DOUBLE_LIMIT)
    exact = pc.or_(exact, pc.match_substring_regex(found, _HEXADECIMAL))  # never a float
    return pc.replace_with_mask(texts, number, pc.if_else(exact, forms, found))


def missing_identifiers(missing: Collection[str]) -> pa.Array:
    """Return the texts, as `identifier_texts` gives them, that are no identifier."""
    return _plain_identifiers(pc.utf8_trim_whitespace(pa.array(["", *missing], pa.string())))


def no_identifier(what: str, kind: str) -> str:
    """Return the message about identifiers or keys of an unsuitable type."""
    return f"{what} is stored as {kind}; store it as text or whole numbers."


def whole_limit(kind: pa.DataType) -> int | None:
    """Return the smallest number from which a float type merges whole numbers; None for others."""
    if pa.types.is_float32(kind):
        return 2**24
    return DOUBLE_LIMIT if pa.types.is_float64(kind) else None


def value_type(values: pa.Array) -> pa.DataType:
    """Return the type of an array's values: of a dictionary, that of its entries."""
    kind = values.type
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def is_text(kind: pa.DataType) -> bool:
    """Return whether an Arrow type holds text."""
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def is_day(kind: pa.DataType) -> bool:
    """Return whether an Arrow type holds days, or times of a day."""
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def plain(values: pa.Array) -> pa.Array:
    """Return an array that is not dictionary-encoded."""
    if pa.types.is_string_view(value_type(values)):  # Arrow cannot decode such a dictionary
        return canonical_texts(values)
    return pc.dictionary_decode(values) if pa.types.is_dictionary(values.type) else values


def doubles(values: pa.Array) -> NDArray[np.float64]:
    """Return stored floats as binary64, NaN where null."""
    array: NDArray[Any] = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return array


def in_32_bits(numbers: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return the nearest binary32 of each number; beyond its range, infinity."""
    with np.errstate(over="ignore", under="ignore"):
        return numbers.astype(np.float32)


def _float_texts(values: pa.Array) -> pa.Array:
    numbers = doubles(values)
    whole = (np.floor(numbers) == numbers) & (np.abs(numbers) < 2.0**63)
    digits = pa.array(np.where(whole, numbers, 0).astype(np.int64)).cast(pa.string())
    texts = pc.if_else(pa.array(whole), digits, pa.array(numbers).cast(pa.string()))
    scientific = pc.match_substring(texts, "e")
    if pc.any(scientific).as_py():
        found = numbers[scientific.to_numpy(zero_copy_only=False)]
        written = [np.format_float_positional(number, trim="-") for number in found]
        texts = pc.replace_with_mask(texts, scientific, pa.array(written, pa.string()))
    return pc.if_else(pa.array(np.isnan(numbers)), pa.scalar(None, pa.string()), texts)


def _decimal_texts(values: pa.Array) -> pa.Array:
    texts = values.cast(pa.string())
    scientific = pc.match_substring(texts, "E").fill_null(False)
    if pc.any(scientific).as_py():
        found = texts.filter(scientific).to_pylist()
        written = [format(decimal.Decimal(text), "f") for text in found]
        texts = pc.replace_with_mask(texts, scientific, pa.array(written, pa.string()))
    return _without_zeros(texts)


def _day_texts(values: pa.Array) -> pa.Array:
    if pa.types.is_timestamp(values.type) and values.type.tz is not None:
        return values.cast(pa.timestamp(values.type.unit, "UTC")).cast(pa.string())
    since, rest = days_and_rest(values)
    kept = np.clip(since, -(2**31), 2**31 - 1).astype(np.int32)
    missing = values.is_null().to_numpy(zero_copy_only=False)
    days = pa.array(kept, pa.int32(), mask=missing).cast(pa.date32()).cast(pa.string())
    if pa.types.is_date(values.type):
        return days
    return pc.if_else(pa.array(rest == 0), days, _without_zeros(values.cast(pa.string())))


def _without_zeros(texts: pa.Array) -> pa.Array:
    """Return texts without zeros at the end of their decimals."""
    texts = pc.replace_substring_regex(texts, r"\.0+$", "")
    return pc.replace_substring_regex(texts, r"(\.[0-9]*[1-9])0+$", r"\1")
