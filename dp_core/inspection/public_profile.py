"""What public data show about its columns, with round numbers, for the draft of a schema.

Only for data that somebody declared to be public: levels and bounds taken from a confidential
file would disclose it.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dp_core.confidential.source import Source
from dp_core.confidential.sources.common_types import is_readable, type_words
from dp_core.inspection.value_findings import fitting_formats, looks_missing
from dp_core.kernel.coding.parsed_texts import EPOCH, INTEGER_TEXT, NUMBER_TEXT, days_and_rest
from dp_core.kernel.coding.stored_texts import is_text, plain, value_type
from dp_core.schema.bin_pieces import MAX_INTEGER, exact_text
from dp_core.schema.codebooks.codebook import MANY_LEVELS, Codebook, Variable, levels_of
from dp_core.schema.column_types.registry import Kind
from dp_core.text.documents.typed_text import is_number, parse_fraction

MOST_LEVELS = 300
"""Most distinct texts of a category; a column with more is taken for text."""
MOST_DECIMALS = 6


def public_codebook(source: Source, name: str) -> Codebook:
    """Return what public data show, as a codebook for `draft_from_codebook`.

    Args:
        source: Public rows.
        name: Name of the data, for the draft's first comment.

    Raises:
        BadInput: if a file cannot be read.
    """
    columns = {name: _Seen() for name in source.columns}
    for batch in source.batches():
        _add(columns, batch.records)
    drafted = tuple(_variable(column, seen) for column, seen in columns.items())
    return Codebook(name=name, form="", variables=drafted)


@dataclass(slots=True)
class _Seen:
    """Distinct values of one column, and its stored type."""

    texts: dict[str, int] = field(default_factory=dict)
    rows: int = 0
    nulls: int = 0
    kind: Kind | None = None
    low: Any = None
    high: Any = None
    decimals: int = 0
    whole: bool = True
    unique: bool = True
    unreadable: str = ""
    """Stored type, if it cannot be read."""


def _add(columns: dict[str, _Seen], records: pa.RecordBatch) -> None:
    for name, seen in columns.items():
        values = records.column(name)
        seen.rows += len(values)
        seen.nulls += values.null_count
        kind = value_type(values)
        zone = pa.types.is_timestamp(kind) and kind.tz is not None
        if zone or not is_readable(values.type):
            seen.unreadable = type_words(kind)
            continue
        values = plain(values)
        kind = values.type
        if is_text(kind) or kind in (pa.bool_(), pa.null()) or pa.types.is_decimal(kind):
            counted = pc.value_counts(values.cast(pa.string()))
            for text, rows in zip(
                counted.field("values").to_pylist(),
                counted.field("counts").to_pylist(),
                strict=True,
            ):
                if text is not None:
                    seen.texts[text] = seen.texts.get(text, 0) + rows
        elif pa.types.is_date(kind) or pa.types.is_timestamp(kind):
            seen.kind = "date"
            days = np.clip(days_and_rest(values)[0] + EPOCH, 1, datetime.date.max.toordinal())
            _ends(seen, pa.array(days, mask=values.is_null().to_numpy(zero_copy_only=False)))
        elif pa.types.is_integer(kind):
            seen.kind = "integer"
            _ends(seen, values)
            seen.unique &= len(pc.unique(values)) == len(values) > 1
        else:
            seen.kind = "number"
            numbers = values.cast(pa.float64())
            _ends(seen, pc.if_else(pc.is_finite(numbers), numbers, None))
            seen.nulls += pc.sum(pc.is_nan(numbers)).as_py() or 0
            data = numbers.drop_null().to_numpy(zero_copy_only=False)
            seen.whole &= bool((data == np.floor(data)).all())
            seen.decimals = max(seen.decimals, _decimals(data))


def _ends(seen: _Seen, values: pa.Array) -> None:
    ends = pc.min_max(values)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    if low is not None:
        seen.low = low if seen.low is None else min(seen.low, low)
        seen.high = high if seen.high is None else max(seen.high, high)


def _decimals(data: np.ndarray[Any, Any]) -> int:
    """Return the fewest decimals that write all numbers."""
    for places in range(MOST_DECIMALS):
        if np.allclose(data, np.round(data, places), rtol=1e-12, atol=0):
            return places
    return MOST_DECIMALS


def _variable(name: str, seen: _Seen) -> Variable:
    base = Variable(name=name, missing=seen.nulls > 0)
    if seen.unreadable:
        remark = f"stored as {seen.unreadable}, which cannot be read"
        return replace(base, text=True, remarks=(remark,))
    if seen.kind is None:
        return _of_texts(base, seen)
    if seen.kind == "date":
        days = (seen.low, seen.high)
        return _dates(base, [datetime.date.fromordinal(day) for day in days if day is not None])
    if seen.kind == "integer" and seen.unique and seen.rows > 100:
        return _identifier(base)
    kind: Kind = "integer" if seen.kind == "integer" or (seen.whole and seen.nulls) else "number"
    ends = [Fraction(str(end)) for end in (seen.low, seen.high) if end is not None]
    return _number(base, kind, ends, seen.decimals)


def _identifier(base: Variable, remark: str = "no value occurs twice: an identifier?") -> Variable:
    return replace(base, role="id", remarks=(remark,))


def _of_texts(base: Variable, seen: _Seen) -> Variable:
    """Return a column of texts, as the type that all its texts have but those for missing."""
    absent = {text for text in seen.texts if not text.strip()}
    values = [text for text in seen.texts if text not in absent]
    codes = {text for text in values if looks_missing(text) and not is_number(text)}
    values = [text for text in values if text not in codes]
    texts = pa.array(values, pa.string())
    listed = ("", *sorted(absent - {""}), *sorted(codes))
    own = listed if listed != ("",) else None
    base = replace(base, missing=bool(absent or codes or seen.nulls), missing_values=own)
    padded = any(
        text.startswith("0") and text.strip("0").isdigit() and len(text) > 1 for text in values
    )
    unique = len(values) == seen.rows > 100
    if values and not padded and pc.all(pc.match_substring_regex(texts, INTEGER_TEXT)).as_py():
        if unique:
            return _identifier(base)
        return _number(base, "integer", [Fraction(text) for text in values], 0)
    if values and not padded and (numbers := _numbers(texts)):
        decimals = max(len(text.partition(".")[2]) for text in values)
        return _number(base, "number", numbers, min(decimals, MOST_DECIMALS))
    formats = fitting_formats(values)
    if formats and not padded:
        read = datetime.datetime.strptime
        days = [read(text.strip()[:10], formats[0]).date() for text in values]
        return _dates(base, days, formats)
    if not values or len(values) > MOST_LEVELS or len(values) > max(seen.rows / 2, 20):
        return replace(base, text=True)
    assert len(values) <= MANY_LEVELS
    # Numbers in their own order, before words.
    sized = sorted((parse_fraction(text), text) for text in values if is_number(text))
    words = sorted(text for text in values if not is_number(text))
    levels = levels_of(((text, "") for text in (*(text for _, text in sized), *words)), listed)
    return replace(base, kind="category", levels=levels)


def _numbers(texts: pa.Array) -> list[Fraction]:
    """Return the exact numbers of texts; none if one of them is no number."""
    if not pc.all(pc.match_substring_regex(texts, NUMBER_TEXT)).as_py():
        return []
    try:
        return [parse_fraction(text) for text in texts.to_pylist()]
    except ValueError:  # an exponent or a length beyond all limits
        return []


def _dates(
    base: Variable, days: Sequence[datetime.date], formats: Sequence[str] = ("%Y-%m-%d",)
) -> Variable:
    """Return a column of dates, from the first day of a year to the last one of another."""
    if days:
        first, last = f"{min(days).year:04d}-01-01", f"{max(days).year:04d}-12-31"
        base = replace(base, minimum=first, maximum=last)
    others = tuple(f"or format {one}, which fits every text as well" for one in formats[1:2])
    form = "" if formats[0] == "%Y-%m-%d" else formats[0]
    return replace(base, kind="date", format=form, remarks=others)


def _number(base: Variable, kind: Kind, values: Sequence[Fraction], decimals: int) -> Variable:
    """Return a column of numbers, with round bounds; an identifier if they do not seem to count."""
    if values:
        least, most = round_bounds(min(values), max(values))
        base = replace(base, minimum=least, maximum=most)
        largest, apart = (
            max(abs(Fraction(least)), abs(Fraction(most))),
            Fraction(most) - Fraction(least),
        )
        if kind == "integer" and largest > MAX_INTEGER:
            return _identifier(base, f"whole numbers beyond {MAX_INTEGER}: an identifier?")
        if kind == "number" and largest > 2**18 * apart:
            return _identifier(base, "numbers that differ only from their sixth digit on")
    known = kind == "number" and decimals < MOST_DECIMALS
    return replace(base, kind=kind, decimals=decimals if known else None)


def round_bounds(low: Fraction, high: Fraction) -> tuple[str, str]:
    """Return round bounds around two numbers, as exact texts.

    The step is the largest power of 10 up to half of the range; ends at 0 or 1 stay.

    >>> ends = ((17, 90), (0, 99999), (1, 16), (10**15 + 1, 10**16))
    >>> [round_bounds(Fraction(low), Fraction(high)) for low, high in ends]
    [('10', '90'), ('0', '100000'), ('1', '16'), ('1000000000000000', '10000000000000000')]
    >>> round_bounds(Fraction("1.27"), Fraction("2.11"))
    ('1.2', '2.2')
    """
    if high == low:
        high = low + 1
    half = (high - low) / 2
    step = Fraction(10) ** (len(str(math.floor(half))) - 1)
    while step > half:
        step /= 10
    least = math.floor(low / step) * step if low not in (0, 1) else low
    most = math.ceil(high / step) * step if high not in (0, 1) else high
    return exact_text(least), exact_text(most)
