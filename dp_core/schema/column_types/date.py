"""The type `date`: days of the calendar, counted as Python's proleptic ordinals."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dp_core.schema.bin_pieces import MAX_CODES
from dp_core.schema.column_types.column_type import Array, ValueType
from dp_core.text.documents.node import Node
from dp_core.text.documents.typed_text import parse_date

if TYPE_CHECKING:
    import pyarrow as pa

_LAST = datetime.date.max.toordinal()


class Date(ValueType):
    """Days of the calendar; a time of day in the file is cut off."""

    word, named = "date", "a date"
    a_value, values = "a date", "dates"
    whole = own_texts = True
    keys = (*ValueType.keys, "format")
    example = "{type: date, min: 1900-01-01, max: 2026-12-31, bins: year}", ""
    drafted_for = read_from = ("is_date", "is_timestamp")
    field_type, arrow = "date", "date32"
    ends = ("first", "last")
    after_max = "the day after max, {}, because a bin ends before its upper edge"
    periods = ("year", "quarter", "month", "week", "day")
    sample = "2026-12-31"
    pattern = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?![0-9])")
    difference, axis_unit = "days", ("year", 365.25)
    form = "YYYY-MM-DD"
    zero = datetime.date(1970, 1, 1).toordinal()
    span = (1, _LAST)

    def parse(self, text: str) -> Fraction:
        return Fraction(parse_date(text).toordinal())

    def text(self, value: Fraction) -> str:
        """Return a day as an ISO date; the day after the last one is 10000-01-01."""
        return "10000-01-01" if value > _LAST else self.python(int(value)).isoformat()

    def edges(
        self, column: Node, keys: Mapping[str, Node], minimum: Fraction, maximum: Fraction
    ) -> tuple[Fraction, ...]:
        if "bins" not in keys:
            raise column.error(
                f"needs bins ({', '.join(self.periods)}) or edges (a list of dates)."
            )
        period = keys["bins"].choice(self.periods)
        edges = [int(minimum)]
        while edges[-1] <= maximum:
            if len(edges) > MAX_CODES:
                raise keys["bins"].error(
                    f"{period} makes more than {MAX_CODES:,} bins from min to max; use a longer"
                    " period."
                )
            edges.append(min(_next_boundary(edges[-1], period), int(maximum) + 1))
        return tuple(Fraction(edge) for edge in edges)

    def usual_bins(self, low: Fraction | None, high: Fraction | None) -> str:
        short = low is not None and high is not None and high - low < 3 * 366
        return "month" if short else "year"

    def expected(self, value: Fraction) -> str:
        return self.text(value)

    def python(self, value: float) -> datetime.date:
        return datetime.date.fromordinal(self.inside(value))

    def array(self, values: Array, missing: NDArray[np.bool_] | None) -> pa.Array:
        import pyarrow as pa

        days = values if missing is None else np.where(missing, self.zero, values)
        since = (days - self.zero).astype(np.int32)
        return pa.array(since, pa.int32(), mask=missing).cast(pa.date32())

    def numbers(self, array: pa.Array) -> pa.Array:
        import pyarrow as pa

        return array.cast(pa.int32())

    def coding(self, form: str) -> dict[str, Any]:
        return {"kind": self.word, **({"format": form} if form else {})}


def _next_boundary(day: int, period: str) -> int:
    date = datetime.date.fromordinal(day)
    if period == "day":
        return day + 1
    if period == "week":
        return day + 7 - date.weekday()
    months = {"year": 12, "quarter": 3, "month": 1}[period]
    month = (date.month - 1) // months * months + months
    year = date.year + month // 12
    if year > datetime.MAXYEAR:
        return _LAST + 1
    return datetime.date(year, month % 12 + 1, 1).toordinal()


TYPE = Date()
