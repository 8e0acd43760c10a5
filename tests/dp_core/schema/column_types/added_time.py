"""A type of column as a newcomer would add it: `time`, the minutes of a day."""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np

from dp_core.schema.bin_pieces import bin_count
from dp_core.schema.column_types.column_type import ValueType

_DAY = 24 * 60


class Time(ValueType):
    """Times of day to the minute; seconds in the file are cut off."""

    word, named = "time", "a time"
    a_value, values = "a time", "times"
    whole = own_texts = True
    example = "{type: time, min: 00:00, max: 23:59, bins: 24}", "hours and minutes"
    drafted_for = read_from = ("is_time",)
    field_type, arrow = "time", "time32[ms]"
    ends = ("first", "last")
    after_max = "the minute after max, {}, because a bin ends before its upper edge"
    sample = "07:30"
    pattern = re.compile(r"[0-9]{2}:[0-9]{2}(?![0-9:])")
    difference, axis_unit = "minutes", ("hour", 60.0)
    form = "HH:MM"
    span = (0, _DAY - 1)

    def parse(self, text):
        found = re.fullmatch("([01][0-9]|2[0-3]):([0-5][0-9])|24:00", text.strip())
        if found is None:
            raise ValueError(f"{text!r} is not a time; write one such as {self.sample}.")
        return Fraction(60 * int(found[1]) + int(found[2]) if found[1] else _DAY)

    def text(self, value):
        return f"{int(value) // 60:02}:{int(value) % 60:02}"

    def edges(self, column, keys, minimum, maximum):
        if "bins" not in keys:
            raise column.error("needs bins (a number) or edges (a list of times).")
        count, values = bin_count(keys["bins"]), int(maximum - minimum) + 1
        return tuple(minimum + k * values // count for k in range(count + 1))

    def usual_bins(self, low, high):
        return "24"

    def array(self, values, missing):
        import pyarrow as pa

        minutes = values if missing is None else np.where(missing, 0, values)
        return pa.array((60_000 * minutes).astype(np.int32), pa.int32(), mask=missing).cast(
            self.stored
        )

    def numbers(self, array):
        import pyarrow as pa
        import pyarrow.compute as pc

        return pc.divide(array.cast(pa.int32()), 60_000)

    def coding(self, form):
        pattern = "^(?P<h>[01][0-9]|2[0-3]):(?P<m>[0-5][0-9])"
        parts = {"pattern": pattern, "weights": {"h": 60, "m": 1}, "seconds": 60, "last": _DAY - 1}
        return {"kind": "parts", "parts": parts}


TYPE = Time()
