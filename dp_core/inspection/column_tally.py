"""Counts of one column over all batches: problems, texts, values and codes. Confidential.

Values are read and placed by the encoder of a release, so a tally finds the problems that
validation finds.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_core.confidential.encoding import Encoded, Encoder, count_problems
from dp_core.confidential.values.raw_values import State, Values
from dp_core.confidential.values.stored_texts import canonical_texts
from dp_core.schema.definition import Column
from dp_core.schema.problems import Problem

MOST_TEXTS = 20_000
"""Most distinct texts or values that a tally keeps; it counts the rows of all."""
MOST_DISTINCT = 50
"""Most distinct legal values of a number that a tally counts one by one."""
NULL = "(null)"
CODES_FOR_MISSING = (-1, -9, -99, -999, -9999, 88, 98, 99, 888, 998, 999, 9999, 99999, 999999)
"""Numbers that questionnaires often use for a missing answer."""


class Tally:
    """What one column of the file has. Confidential.

    Attributes:
        column: Column of the schema.
        rows: Number of rows.
        problems: Number of rows with each problem.
        strangers: Rows by text, of texts that are not levels or cannot be read.
        missing: Rows by text, of texts that mean missing.
        outside: Rows by value, of values out of range.
        low, high: Smallest and largest readable value (date: day ordinal); None without one.
        codes: Number of rows with each code, shape (size,); rows with a refused value left out.
        lowest, highest: Smallest and largest legal value in each bin, shape (bins,); infinite in an
            empty bin. Of columns without bins the shape is (0,).
        distinct: Distinct legal values, at most `MOST_DISTINCT` + 1 of them.
        suspects: Rows by value, of legal values that often mean missing.
        usual_low, usual_high: Smallest and largest readable value that is not such a value.
        unique: Whether no value of the first batch occurs twice.
    """

    def __init__(self, column: Column) -> None:
        self.column = column
        self.encoder = Encoder(column)
        self.rows = 0
        self.problems: Counter[Problem] = Counter()
        self.strangers: Counter[str] = Counter()
        self.missing: Counter[str] = Counter()
        self.outside: Counter[str] = Counter()
        self.low: float | None = None
        self.high: float | None = None
        self.codes: NDArray[np.int64] = np.zeros(column.size, np.int64)
        self.edges = np.array(column.edges, dtype=np.float64)
        self.lowest = np.full(max(self.edges.size - 1, 0), np.inf)
        self.highest = -self.lowest
        self.distinct: set[float] = set()
        self.suspects: Counter[str] = Counter()
        self.usual_low: float | None = None
        self.usual_high: float | None = None
        self.unique: bool | None = None

    def add(self, values: pa.Array) -> Encoded:
        """Count a batch of raw values; return their codes."""
        typed = self.encoder.reader.read(values)
        problem = self.encoder.problem(typed)
        if problem is not None:
            self.problems.update(count_problems(problem, typed))
        counts = _counts(typed)
        if self.unique is None and len(values):
            self.unique = len(values) > 1 and _all_differ(values, typed, counts)
        self.rows += len(values)
        if typed.state is not None:
            for state, texts in ((State.UNKNOWN, self.strangers), (State.MISSING, self.missing)):
                places = np.flatnonzero((typed.state == state) & (counts > 0))
                _count(texts, _texts(values, typed, places), counts[places])
        if not self.column.levels:
            self._count_numbers(typed, counts)
        encoded = self.encoder.place(typed)
        codes = encoded.codes if encoded.bad is None else encoded.codes[~encoded.bad]
        self.codes += np.bincount(codes, minlength=self.column.size)
        return encoded

    def is_far(self, text: str) -> bool:
        """Return whether a number is far from the usual values, as a code for missing often is."""
        low, high = self.usual_low, self.usual_high
        if low is None or high is None or self.column.kind == "date":
            return False
        value = float(text)
        return value > max(1.5 * high, high + 5) or value < 0 <= low

    def text(self, value: float) -> str:
        """Return a value of the column as a person writes it."""
        return value_text(self.column, value)

    def _count_numbers(self, typed: Values, counts: NDArray[np.int64]) -> None:
        known = counts > 0
        if typed.state is not None:
            known &= typed.state == State.VALUE
        data, rows = typed.data[known], counts[known]
        if not data.size:
            return
        self.low, self.high = _ends(self.low, self.high, data)
        outside = self.encoder.outside(typed)[known]
        if outside.any():
            found, place = np.unique(data[outside], return_inverse=True)
            sums = np.bincount(place, weights=rows[outside]).astype(np.int64)
            _count(self.outside, (self.text(value) for value in found.tolist()), sums)
        legal = data[~outside]
        if self.lowest.size:
            numbers = legal.astype(np.float64)  # exact up to 2^53; enough for a hint
            bins = np.searchsorted(self.edges[1:-1], numbers, side="right")
            np.minimum.at(self.lowest, bins, numbers)
            np.maximum.at(self.highest, bins, numbers)
        if legal.size and len(self.distinct) <= MOST_DISTINCT:
            for part in (legal[:1000], legal):
                self.distinct.update(np.unique(part)[: 2 * MOST_DISTINCT].tolist())
                if len(self.distinct) > MOST_DISTINCT:
                    break
        suspect = np.isin(data, CODES_FOR_MISSING)
        if suspect.any():
            for value in np.unique(data[suspect & ~outside]).tolist():
                self.suspects[self.text(value)] += int(rows[data == value].sum())
            data = data[~suspect]
        if data.size:
            self.usual_low, self.usual_high = _ends(self.usual_low, self.usual_high, data)


def value_text(column: Column, value: float) -> str:
    """Return a value of a column as a person writes it; a date from its day ordinal."""
    if column.kind == "date":
        last = datetime.date.max.toordinal()
        return datetime.date.fromordinal(min(max(int(value), 1), last)).isoformat()
    return str(int(value)) if column.kind == "integer" else f"{value:.10g}"


def _ends(low: float | None, high: float | None, data: NDArray[Any]) -> tuple[float, float]:
    least, most = data.min().item(), data.max().item()
    return (
        least if low is None else min(low, least),
        most if high is None else max(high, most),
    )


def _counts(typed: Values) -> NDArray[np.int64]:
    """Return the number of rows of each entry."""
    if typed.index is None:
        return np.ones(typed.data.size, np.int64)
    return np.bincount(typed.index, minlength=typed.data.size)


def _all_differ(values: pa.Array, typed: Values, counts: NDArray[np.int64]) -> bool:
    if typed.index is not None:
        return bool(counts.max() == 1)
    return bool(np.unique(typed.data).size == len(values))


def _texts(values: pa.Array, typed: Values, places: NDArray[np.intp]) -> list[str]:
    """Return entries as texts; an entry of null is `NULL`."""
    if typed.texts is None:
        found = canonical_texts(values.take(pa.array(places)))
    else:
        null = places >= len(typed.texts)  # the last entry of the values is for null
        found = typed.texts.take(pa.array(np.where(null, 0, places), mask=null))
    return [NULL if text is None else text for text in found.to_pylist()]


def _count(into: Counter[str], texts: Iterable[str], rows: NDArray[np.int64]) -> None:
    for text, number in zip(texts, rows.tolist(), strict=True):
        if text in into or len(into) < MOST_TEXTS:
            into[text] += number
