"""Frames of rows for a team's own expectations: one piece of the file after the other.

A frame has the columns that these expectations name. Numbers are numbers, dates are dates, and a
category has the file's texts. A value that is missing or is not of the column's type is null;
the schema's own rules decide whether that is allowed. Values are those of the file, before
`out_of_range` is applied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_core.confidential.values.raw_values import Reader, State, Values
from dp_core.confidential.values.stored_texts import decimals
from dp_core.schema.column_types.column_type import ValueType
from dp_core.schema.definition import Column, Schema
from dp_core.schema.expectations.suite import Rule

PIECE_ROWS = 1 << 17
"""Rows of a piece; the last one has up to twice as many, so that no piece is small."""


Frame = dict[str, NDArray[Any]]


class RowPieces:
    """Cuts batches of rows into pieces of equal length, as frames. Confidential.

    Args:
        schema: Schema of the file.
        rules: Rules of its suite; those about rows say which columns are needed.
    """

    def __init__(self, schema: Schema, rules: Sequence[Rule]) -> None:
        about = [rule for rule in rules if rule.seen == "rows"]
        named = {name for rule in about for name in _columns(rule)}
        self._readers = [Reader(column) for column in schema.released if column.name in named]
        self._parts: list[Frame] = []
        self._rows = 0

    def add(self, records: pa.RecordBatch) -> Iterator[tuple[Frame, int]]:
        """Add a batch; yield the pieces that are complete, each with its number of rows."""
        if not self._readers:
            return
        self._parts.append(
            {
                reader.column.name: _cells(reader.column, reader.read(found))
                for reader in self._readers
                for found in [records.column(reader.column.name)]
            }
        )
        self._rows += records.num_rows
        while self._rows >= 2 * PIECE_ROWS:
            whole = self._join_parts()
            yield {name: cells[:PIECE_ROWS] for name, cells in whole.items()}, PIECE_ROWS
            self._parts = [{name: cells[PIECE_ROWS:] for name, cells in whole.items()}]
            self._rows -= PIECE_ROWS

    def last(self) -> Iterator[tuple[Frame, int]]:
        """Yield the last piece, if there are rows."""
        if self._rows:
            yield self._join_parts(), self._rows

    def _join_parts(self) -> Frame:
        names = [reader.column.name for reader in self._readers]
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
