"""Counts of one column over all batches: problems, texts, values and codes. Confidential.

Values are read and placed by the encoder of a release, so a tally finds the problems that
validation finds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dp_core.confidential.encoding import Encoder
from dp_core.confidential.original_values import decimals
from dp_core.kernel.codes import code_type
from dp_core.kernel.coding.encoder import Encoded, count_problems
from dp_core.kernel.coding.problems import Problem
from dp_core.kernel.coding.raw_values import State, Values
from dp_core.kernel.coding.stored_texts import canonical_texts, value_type
from dp_core.schema.definition import Column

MOST_TEXTS = 20_000
"""Most distinct texts or values that a tally keeps; it counts the rows of all."""
MOST_DISTINCT = 50
"""Most distinct legal values of a number that a tally counts one by one."""
MOST_HEAPS = 32
"""Largest number of frequent values whose rows a tally counts."""
HEAP = 0.1
"""Smallest share of a sample of a batch at which a value counts as frequent."""
SAMPLE = 1000
NULL = "(null)"
CODES_FOR_MISSING = (-1, -9, -99, -999, -9999, 88, 98, 99, 888, 998, 999, 9999, 99999, 999999)
"""Numbers that questionnaires often use for a missing answer."""

End: TypeAlias = tuple[float, Decimal, str]
"""A value as the encoder compares it, its exact size if that has more digits, and its text."""


class Tally:
    """What one column of the file has. Confidential.

    Attributes:
        column: Column of the schema.
        definition: The column as the schema's document has it; empty if unknown, the default.
        rows: Number of rows.
        stored: Arrow type in which the file stores the values; null before the first batch.
        problems: Number of rows with each problem.
        strangers: Rows by text, of texts that are not levels or cannot be read.
        rewritten: Rows by text, of texts for which the whole column is refused: they may have been
            written for others. They are in no other count but `rows`.
        missing: Rows by text, of texts that mean missing.
        days: Rows by text, of texts that are dates in the column's format.
        outside: Rows by text, of values out of range, as the file has them.
        ends: Smallest and largest readable value (date: day ordinal); None without one.
        codes: Number of rows with each code, shape (size,); rows with a refused value left out.
        lowest, highest: Smallest and largest legal value in each bin, shape (bins,); infinite in an
            empty bin. Of columns without bins the shape is (0,).
        distinct: Distinct legal values, at most `MOST_DISTINCT` + 1 of them.
        heaps: Rows by legal value, of values that are frequent in some batch, from that batch on.
        suspects: Rows by value, of legal values that often mean missing.
        usual: Smallest and largest readable value that is not such a value; None without one.
        unique: Whether no number or date was found twice: of all values those of a batch are
            compared with one another, and with the first `MOST_TEXTS`.
    """

    def __init__(self, column: Column, definition: Mapping[str, Any] | None = None) -> None:
        self.column = column
        self.definition = definition or {}
        self.encoder = Encoder(column)
        self.rows = 0
        self.stored: pa.DataType = pa.null()
        self.problems: Counter[Problem] = Counter()
        self.strangers: Counter[str] = Counter()
        self.rewritten: Counter[str] = Counter()
        self.missing: Counter[str] = Counter()
        self.days: Counter[str] = Counter()
        self.outside: Counter[str] = Counter()
        self.ends: tuple[End, End] | None = None
        self.codes: NDArray[np.int64] = np.zeros(column.size, np.int64)
        self.edges = np.array(column.edges, dtype=np.float64)
        self.lowest = np.full(max(self.edges.size - 1, 0), np.inf)
        self.highest = -self.lowest
        self.distinct: set[float] = set()
        self.heaps: Counter[float] = Counter()
        self.suspects: Counter[str] = Counter()
        self.usual: tuple[float, float] | None = None
        self.unique = True
        self._first: NDArray[Any] = np.empty(0)

    def add(self, values: pa.Array) -> Encoded:
        """Count a batch of raw values; return their codes."""
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        texts = self._rewritten(values)
        if not texts.is_valid().true_count:
            return self._add(values)
        if pa.types.is_dictionary(values.type):  # which would keep these texts
            values = values.cast(values.type.value_type)
        self.rewritten.update(texts.drop_null().to_pylist())
        self.rows += len(texts) - texts.null_count
        bad = np.array(texts.is_valid())
        codes = np.zeros(len(bad), code_type(self.column.size))
        rest = self._add(values.filter(texts.is_null()))
        codes[~bad] = rest.codes
        if rest.bad is not None:
            bad[~bad] = rest.bad
        return Encoded(codes, bad, rest.problems)

    def _add(self, values: pa.Array) -> Encoded:
        self.stored = value_type(values)
        typed = self.encoder.reader.read(values)
        problem = self.encoder.problem(typed)
        if problem is not None:
            self.problems.update(count_problems(problem, typed))
        size, index = typed.data.size, typed.index
        counts = np.ones(size, np.int64) if index is None else np.bincount(index, minlength=size)
        self.rows += len(values)
        if typed.state is not None:
            for state, texts in ((State.UNKNOWN, self.strangers), (State.MISSING, self.missing)):
                places = np.flatnonzero((typed.state == state) & (counts > 0))
                _count(texts, _texts(values, typed, places), counts[places])
        if not self.column.levels:
            self._count_numbers(values, typed, counts)
        if self.column.type.own_texts and typed.index is not None:
            known = (
                counts > 0 if typed.state is None else (typed.state == State.VALUE) & (counts > 0)
            )
            places = np.flatnonzero(known)
            _count(self.days, _texts(values, typed, places), counts[places])
        encoded = self.encoder.place(typed)
        codes = encoded.codes if encoded.bad is None else encoded.codes[~encoded.bad]
        self.codes += np.bincount(codes, minlength=self.column.size)
        return encoded

    def _rewritten(self, values: pa.Array) -> pa.Array:
        """Return the texts, else null, of values for which a column of levels is refused."""
        reader = self.encoder.reader
        if reader.levels is None:
            return pa.nulls(len(values), pa.string())
        texts = reader.texts(values)
        return pc.if_else(reader.levels.rewritten(texts), texts, None)

    def has_refused_values(self) -> bool:
        """Return whether a release refuses a value of the column; a missing one does not count."""
        refused = self.column.refuses - {Problem.MISSING}
        return bool(self.rewritten) or any(self.problems[problem] for problem in refused)

    def is_far(self, text: str) -> bool:
        """Return whether a number is far from the usual values, as a code for missing often is."""
        if self.usual is None or self.column.type.own_texts:
            return False
        value, (low, high) = float(text), self.usual
        return value > max(1.5 * high, high + 5) or value < 0 <= low

    def text(self, value: float | Fraction) -> str:
        """Return a value of the column as a schema writes it; whole numbers have all digits."""
        if isinstance(value, float) and not (value.is_integer() and abs(value) < 1e22):
            return str(value)
        return self.column.scale.text(Fraction(value))

    def _count_numbers(self, values: pa.Array, typed: Values, counts: NDArray[np.int64]) -> None:
        known = counts > 0
        if typed.state is not None:
            known &= typed.state == State.VALUE
        data, rows = typed.data[known], counts[known]
        if self.column.type.continuous:
            data = decimals(data)
        if not data.size:
            return
        outside = self.encoder.outside(typed)[known]
        if outside.any():
            self._count_outside(values, typed, np.flatnonzero(known)[outside], counts)
        legal = data[~outside]
        self._count_heaps(legal, rows[~outside], distinct=typed.index is not None)
        if self.unique:
            again = rows.max() > 1 or np.unique(data).size < data.size
            self.unique = not (again or np.isin(data, self._first).any())
            if self._first.size < MOST_TEXTS:
                self._first = np.concatenate((self._first, data[:MOST_TEXTS]))
        if legal.size:
            for value in (legal.min().item(), legal.max().item()):
                self._widen((value, Decimal(0), self.text(value)))
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
            found = (*(self.usual or ()), data.min().item(), data.max().item())
            self.usual = min(found), max(found)

    def _count_outside(
        self,
        values: pa.Array,
        typed: Values,
        places: NDArray[np.intp],
        counts: NDArray[np.int64],
    ) -> None:
        """Count values out of range by their texts, so that numbers keep all their digits."""
        data, rows = typed.data[places], counts[places]
        if typed.index is None and len(places) > SAMPLE:
            data, first, place = np.unique(data, return_index=True, return_inverse=True)
            rows, places = np.bincount(place), places[first]
        texts = _texts(values, typed, places)
        _count(self.outside, texts, rows)
        least, most = data == data.min(), data == data.max()
        for value, text, ends in zip(data.tolist(), texts, (least | most).tolist(), strict=True):
            if ends:
                self._widen((value, _size(text), text))

    def _widen(self, end: End) -> None:
        found = (*(self.ends or ()), end)
        self.ends = min(found), max(found)

    def _count_heaps(self, legal: NDArray[Any], rows: NDArray[np.int64], *, distinct: bool) -> None:
        """Count the rows of frequent values."""
        if not legal.size:
            return
        if distinct:
            found, number = legal, rows
        else:
            found, number = np.unique(legal[:: -(-legal.size // SAMPLE)], return_counts=True)
        for value in found[number >= HEAP * number.sum()].tolist():
            if len(self.heaps) < MOST_HEAPS:
                self.heaps.setdefault(value, 0)
        for value in self.heaps:
            self.heaps[value] += int(rows[legal == value].sum())


def _size(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        return Decimal(0)


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
