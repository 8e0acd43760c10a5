"""The frames that Great Expectations judges: the profile of a file, and pieces of its rows.

The frame of the profile has distinct values or bounds of each column, and counted problems. An
expectation about every value of a column holds of the rows exactly if it holds of this frame. It
has a few dozen rows however large the file is.

A team's own expectations about rows see one piece of the file after the other, with the columns
that these expectations name. Numbers are numbers, dates are dates, and a category has the file's
texts. A value that is missing or is not of the column's type is null; the schema's own rules decide
whether that is allowed. Values are those of the file, before `out_of_range` is applied.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_core.confidential.column_profiles import Profile, Profiler
from dp_core.confidential.encoding import Encoder
from dp_core.confidential.original_values import decimals
from dp_core.kernel.coding.problems import Problem
from dp_core.kernel.coding.raw_values import State, Values
from dp_core.schema.bin_values import legal_range
from dp_core.schema.column_types.column_type import ValueType
from dp_core.schema.definition import Column, Schema
from dp_core.schema.expectations.suite import Rule, bounds, outside, unlisted_column, unreadable
from dp_core.schema.rules.file_rules import FileRules, file_rules

PIECE_ROWS = 1 << 17
"""Rows of a piece; the last one has up to twice as many, so that no piece is small."""

Frame = dict[str, NDArray[Any]]


class FileProfile:
    """The profile of a whole file, to which the partitions' profiles are added. Confidential.

    Attributes:
        profilers: One for each profiled column of the schema.
        rows: Number of rows so far.

    Args:
        schema: Schema of the file.
        rules: Rules of its suite.
        coded_by: Rules by which its values are coded; None (the default) for those of the schema.
    """

    def __init__(
        self, schema: Schema, rules: Sequence[Rule], coded_by: FileRules | None = None
    ) -> None:
        by = coded_by or file_rules(schema)
        self.profilers = [Profiler(column, by.column(column.name)) for column in schema.profiled]
        self._rules = [rule for rule in rules if rule.seen == "profile"]
        self._names = {*schema.names}
        self.forget()

    def forget(self) -> None:
        """Forget the file, so that another may follow; the profilers stay."""
        self.rows = 0
        self._columns = self.begin()

    def begin(self) -> list[Profile]:
        """Return empty profiles of a partition."""
        return [Profile() for _ in self.profilers]

    def add(self, partition: Sequence[Profile]) -> None:
        """Add the finished profiles of a partition."""
        self.rows += max((profile.rows for profile in partition), default=0)
        for whole, profiler, part in zip(self._columns, self.profilers, partition, strict=True):
            profiler.merge(whole, part)

    def frame(self, broken: Mapping[str, int | None]) -> tuple[dict[str, list[Any]], int]:
        """Return the columns that the rules are about, all of one length, and that length.

        Args:
            broken: Rows that break each rule between columns, by what the rule is about (0 for
                those that are not among them); None for rules that were not checked.
        """
        columns: dict[str, list[Any]] = {}
        for profiler, profile in zip(self.profilers, self._columns, strict=True):
            column = profiler.column
            columns[column.name] = _profile_values(column, profile)
            if column.levels:
                columns[unlisted_column(column, self._names)] = [profile.problems[Problem.LEVEL]]
            else:
                columns[unreadable(column, self._names)] = [profile.problems[Problem.TYPE]]
                columns[outside(column, self._names)] = [profile.problems[Problem.RANGE]]
        for rule in self._rules:
            if rule.kind in ("identifier", "dependency", "impossible", "rule"):
                columns[rule.kwargs["column"]] = [broken.get(rule.about, 0)]
        needed = {rule.kwargs["column"]: columns[rule.kwargs["column"]] for rule in self._rules}
        length = max(map(len, needed.values()), default=0)
        return {name: _repeat_to_length(values, length) for name, values in needed.items()}, length


def _profile_values(column: Column, profile: Profile) -> list[Any]:
    """Return the distinct texts or the bounds of a column, and None if values are missing."""
    values = _values(column, profile)
    if profile.problems[Problem.MISSING]:
        return [*values, None]
    if values:
        return values
    # No row has a readable value; that must not look like a missing one.
    return [legal_value(column) if Problem.MISSING in column.refuses else None]


def _values(column: Column, profile: Profile) -> list[Any]:
    if column.levels:
        return sorted(profile.texts)
    ends = [end for end in (profile.low, profile.high) if end is not None]
    return [column.scale.python(end) for end in ends]


def legal_value(column: Column) -> Any:
    """Return a value that the column may have: its first level, or its least number or date."""
    if column.levels:
        return column.levels[0].text
    low, _ = bounds(column)
    return column.scale.python(int(legal_range(column)[0])) if column.type.own_texts else low


def _repeat_to_length(values: list[Any], length: int) -> list[Any]:
    """Return the values repeated up to a length; the first one is a value, if there is any."""
    return values + values[:1] * (length - len(values))


class RowPieces:
    """Cuts batches of rows into pieces of equal length, as frames. Confidential.

    Args:
        schema: Schema of the file.
        rules: Rules of its suite; those about rows say which columns are needed.
    """

    def __init__(self, schema: Schema, rules: Sequence[Rule]) -> None:
        about = [rule for rule in rules if rule.seen == "rows"]
        named = {name for rule in about for name in _columns(rule)}
        self._readers = [
            (column, Encoder(column).reader) for column in schema.released if column.name in named
        ]
        self._parts: list[Frame] = []
        self._rows = 0

    def add(self, records: pa.RecordBatch) -> Iterator[tuple[Frame, int]]:
        """Add a batch; yield the pieces that are complete, each with its number of rows."""
        if not self._readers:
            return
        self._parts.append(
            {
                column.name: _cells(column, reader.read(records.column(column.name)))
                for column, reader in self._readers
            }
        )
        self._rows += records.num_rows
        while self._rows >= 2 * PIECE_ROWS:
            whole = self._join_parts()
            yield {name: cells[:PIECE_ROWS] for name, cells in whole.items()}, PIECE_ROWS
            self._parts = [{name: cells[PIECE_ROWS:] for name, cells in whole.items()}]
            self._rows -= PIECE_ROWS

    def last(self) -> Iterator[tuple[Frame, int]]:
        """Yield the last piece, if there are rows; the next rows are those of another file."""
        if self._rows:
            yield self._join_parts(), self._rows
        self._parts, self._rows = [], 0

    def _join_parts(self) -> Frame:
        names = [column.name for column, _ in self._readers]
        return {name: np.concatenate([part[name] for part in self._parts]) for name in names}


def _columns(rule: Rule) -> Iterator[str]:
    for key in ("column", "column_A", "column_B"):
        if key in rule.kwargs:
            yield rule.kwargs[key]
    yield from rule.kwargs.get("column_list", ())


def _cells(column: Column, values: Values) -> NDArray[Any]:
    """Return a column of a frame: texts, numbers or dates; null where there is no value."""
    known = None if values.state is None else values.state == State.VALUE
    if column.levels:
        assert values.texts is not None
        cells = _texts(column, values, values.texts)
    elif column.type.own_texts:
        cells = _objects(column.scale, values.data)
        if known is not None:
            cells[~known] = None
    else:
        cells = decimals(values.data) if column.type.continuous else values.data
        if known is not None and not known.all():
            # Whole numbers beyond 2**53 are rounded here, as pandas rounds them beside a null.
            cells = np.where(known, cells.astype(np.float64), np.nan)
    return cells if values.index is None else cells[values.index]


def _texts(column: Column, values: Values, texts: pa.StringArray) -> NDArray[Any]:
    """Return the text of each entry of `values`; the last entry is for null."""
    assert values.state is not None
    levels = [level.text for level in column.levels]
    found = np.empty(values.data.size, dtype=object)
    for at, state in enumerate(values.state[:-1].tolist()):
        if state == State.VALUE:
            found[at] = levels[int(values.data[at])]
        elif state == State.UNKNOWN:
            found[at] = texts[at].as_py()
    return found


def _objects(scale: ValueType, values: NDArray[np.int64]) -> NDArray[Any]:
    """Return values as Python has them, such as dates."""
    distinct, place = np.unique(values, return_inverse=True)
    objects = np.empty(distinct.size, dtype=object)
    objects[:] = [scale.python(value) for value in distinct.tolist()]
    return objects[place]
