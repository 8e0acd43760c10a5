"""Texts of a file as whole numbers, numbers and days. Confidential side.

Each function returns the values and which texts have one; the others have an arbitrary value.
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]

UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
INTEGER_TEXT = r"^[+-]?[0-9]+(\.0*)?$"
NUMBER_TEXT = (
    r"^[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[iI][nN][fF]([iI][nN][iI][tT][yY])?)$"
)
_TIME = "(?:[T ][0-9]{2}:[0-9:.]*(?: ?[AaPp][Mm])?)?"
"""A time of day, without a zone: a moment has no day of its own."""
EPOCH = datetime.date(1970, 1, 1).toordinal()
"""Day ordinal of the first day of Arrow's dates."""
DATE_TEXT = f"^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}{_TIME}$"


def _matching(texts: pa.Array, pattern: str) -> tuple[NDArray[np.bool_], pa.Array]:
    """Return which texts match, and the texts with the others replaced by `0`."""
    valid = pc.match_substring_regex(texts, pattern).fill_null(False)
    return (
        np.array(valid.to_numpy(zero_copy_only=False), dtype=bool),
        pc.if_else(valid, texts, pa.scalar("0", texts.type)),
    )


def integers_of(texts: pa.Array) -> tuple[Array, NDArray[np.bool_]]:
    """Return texts of whole numbers as int64; one out of its range becomes the nearest limit."""
    valid, texts = _matching(texts, INTEGER_TEXT)
    texts = pc.replace_substring_regex(texts, r"^\+|\.0*$", "")
    try:
        data: Array = texts.cast(pa.int64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:  # one of them does not fit; this way is slower, and exact
        least, most = decimal.Decimal(INT64_MIN), decimal.Decimal(INT64_MAX)
        exact = [min(max(decimal.Decimal(text), least), most) for text in texts.to_pylist()]
        whole = [int(number) for number in exact]
        data = np.array(whole, dtype=np.int64)
    return data, valid


def numbers_of(texts: pa.Array) -> tuple[Array, NDArray[np.bool_]]:
    """Return texts in decimal or scientific notation, or `inf`, as the nearest binary64."""
    valid, texts = _matching(texts, NUMBER_TEXT)
    return texts.cast(pa.float64()).to_numpy(zero_copy_only=False), valid


def days_of(texts: pa.Array) -> tuple[Array, NDArray[np.bool_]]:
    """Return ISO dates as day ordinals; a time of day is cut off."""
    valid, texts = _matching(texts, DATE_TEXT)
    days = pc.if_else(pa.array(valid), pc.utf8_slice_codeunits(texts, 0, 10), "1970-01-01")
    # The fast parser accepts the year 0, which no calendar has, and fails for the whole array.
    if not pc.any(pc.starts_with(days, "0000")).as_py():
        with contextlib.suppress(pa.ArrowInvalid):
            since = days.cast(pa.date32()).cast(pa.int32()).to_numpy(zero_copy_only=False)
            return since.astype(np.int64) + EPOCH, valid
    return _dates_one_by_one(days.to_pylist(), valid)


def days_and_rest(values: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return stored days or times as days since 1970, and the units after midnight; null is 0.

    Args:
        values: Days, or times without a zone, of any unit. The days of all of them fit; those of a
            cast wrap around.
    """
    kind = values.type
    if pa.types.is_date32(kind):
        units, values = 1, values.view(pa.int32())
    else:
        unit = "ms" if pa.types.is_date64(kind) else kind.unit
        units, values = 86_400 * UNITS[unit], values.view(pa.int64())
    stored = values.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    days = stored // units
    return days, stored - days * units


def days_in_format(form: str, texts: pa.Array) -> tuple[Array, NDArray[np.bool_]]:
    """Return texts in a format of `%d`, `%m` and `%Y` as day ordinals.

    ISO dates are read as well if the format begins with the year, because programs write such dates
    so. Of others they exchange day and month, unless one of the dates forbids it.
    """
    # Without separators, parts can be distinguished only if each has its full width.
    digits = "{2}" if re.search("%.%", form) else "{1,2}"
    pattern = re.escape(form).replace("%Y", "(?P<Y>[0-9]{4})")
    for part in ("d", "m"):
        pattern = pattern.replace(f"%{part}", f"(?P<{part}>[0-9]{digits})")
    found = pc.extract_regex(texts, rf"^{pattern}{_TIME}$")
    year, month, day = (pc.struct_field(found, [part]) for part in ("Y", "m", "d"))
    month, day = (pc.utf8_lpad(part, width=2, padding="0") for part in (month, day))
    written = pc.binary_join_element_wise(year, month, day, "-")
    return days_of(
        pc.coalesce(written, texts) if form.startswith("%Y") else pc.fill_null(written, "")
    )


def sums_of_parts(
    texts: pa.Array, pattern: str, weights: Mapping[str, int]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return for each text the sum of its parts, each times its weight; and which texts match.

    Args:
        texts: The texts.
        pattern: Regular expression with a named group of digits for each part.
        weights: Weight of each part, by its name.
    """
    found = pc.extract_regex(texts, pattern)
    total = np.zeros(len(texts), np.int64)
    for name, weight in weights.items():
        part = pc.struct_field(found, [name]).cast(pa.int64()).fill_null(0)
        total += weight * part.to_numpy(zero_copy_only=False)
    return total, np.array(found.is_valid().to_numpy(zero_copy_only=False), dtype=bool)


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
