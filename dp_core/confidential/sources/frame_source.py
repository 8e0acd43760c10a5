"""A frame in memory as a source, opened as files are. Confidential side.

Numbers, booleans, texts, dates, times and categories of these keep their type: 1.0 is the level
`1`, and NaN, None and NaT are missing. In a column of Python objects of several types each value
becomes its text, as `stored_texts` writes it. A column of other values has a type that cannot be
read, which names them.
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import math
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dp_core.confidential.source import MemorySource
from dp_core.confidential.source_files import check_types
from dp_core.confidential.sources.common_types import (
    common_type,
    in_common_type,
    is_readable,
    unreadable_type,
)
from dp_core.errors import BadInput, DataRefused
from dp_core.kernel.coding.raw_rows import BATCH_ROWS
from dp_core.kernel.coding.stored_texts import DOUBLE_LIMIT, canonical_texts, is_day, value_type

if TYPE_CHECKING:
    import pandas as pd


def frame_source(table: pa.Table, columns: Sequence[str] | None = None) -> MemorySource:
    """Return the rows of a table in memory as a source.

    Args:
        table: The rows, as `frame_table` returns them.
        columns: The wanted columns, each of which the table has once; by default all.
    """
    batches = partial(table.to_batches, max_chunksize=BATCH_ROWS)
    return MemorySource(table.schema, batches, table.column_names if columns is None else columns)


def open_frame(table: pa.Table, columns: Sequence[str], ignore: Collection[str]) -> MemorySource:
    """Open a frame as `open_source` opens files, with the same refusals.

    Args:
        table: The rows, as `frame_table` returns them.
        columns: Columns to read; the frame must have all of them.
        ignore: Further columns that it may have.

    Raises:
        BadInput: if it lacks or repeats a column or has one that is in neither list, if a column
            cannot be read, or if there is no row (then a `DataRefused`).
    """
    check_types("The frame", table.schema, columns, ignore)
    if not table.num_rows:
        raise DataRefused("The frame has no row; give one with rows.", row="data-empty")
    return frame_source(table, columns)


def frame_table(frame: Any) -> pa.Table:
    """Return a frame as a table in common types.

    Args:
        frame: A pandas frame, an Arrow table, any other frame that offers `__arrow_c_stream__`, or
            a dictionary of columns.

    Raises:
        BadInput: if the name of a column is not a text.
        TypeError: if it is none of these, such as a dictionary of frames, or of a set of values.
        ValueError: if the columns of a dictionary are not lists of one length.
    """
    import pandas as pd

    if isinstance(frame, Mapping) and not any(hasattr(one, "columns") for one in frame.values()):
        try:
            frame = pd.DataFrame(frame)
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(
                "A dictionary of columns needs lists of one length; give each column as many values"
                " as there are rows."
            ) from None
    if isinstance(frame, pd.DataFrame):
        names = list(frame.columns)
        for name in names:
            if not isinstance(name, str):
                raise BadInput(
                    f"The frame has a column named {name!r}, which is not a text; rename it:"
                    " frame.columns = [...]."
                )
        cells = (frame.iloc[:, place] for place in range(len(names)))
        return pa.table([_array(each) for each in cells], names=names)
    try:
        reader = pa.RecordBatchReader.from_stream(frame)
    except (TypeError, pa.ArrowException):  # no stream, or a stream of one column
        several = isinstance(frame, Mapping)
        raise TypeError(
            f"A frame was expected, not {'several frames' if several else type(frame).__name__};"
            " give one pandas frame, Arrow table or dictionary of columns. pandas.read_csv(FILE,"
            " dtype=str, keep_default_na=False) reads a file with its texts unchanged."
        ) from None
    table = reader.read_all()
    columns = [
        pa.chunked_array(map(in_common_type, column.chunks), common_type(column.type))
        for column in table.columns
    ]
    return pa.table(columns, names=table.column_names)


def _array(cells: pd.Series[Any]) -> pa.Array:
    """Return a column of a pandas frame."""
    kind = str(cells.dtype)
    try:
        array = pa.array(cells, from_pandas=True)
        if is_readable(array.type) and not (is_day(value_type(array)) and _has_several(cells)):
            whole = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
            return in_common_type(whole)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        pass
    if kind in ("object", "category"):
        try:
            return pa.array([_cell_text(cell) for cell in cells], pa.string())
        except _UnreadableCell as error:
            kind = error.kind
        except UnicodeEncodeError:
            kind = "text that is not Unicode"
    return pa.nulls(len(cells), pa.binary()).cast(unreadable_type(kind))


def _has_several(days: pd.Series[Any]) -> bool:
    """Return whether some days of a column have a time, or a time zone, and others have none.

    Privacy:
        Arrow stores them as the first ones, and cuts off or moves the times of the others.
    """
    if str(days.dtype) not in ("object", "category"):
        return False
    kinds = {
        (isinstance(day, datetime.datetime), getattr(day, "tzinfo", None) is None)
        for day in days.dropna()
    }
    return len(kinds) > 1


class _UnreadableCell(TypeError):
    """A value of a frame that is not a text, number, boolean or date."""

    def __init__(self, value: object) -> None:
        self.kind = type(value).__name__
        super().__init__(self.kind)


def _cell_text(value: object) -> str | None:
    """Return the text of a single value of a frame, None if it is missing.

    >>> _cell_text(1.0), _cell_text(True), _cell_text(datetime.date(2026, 1, 31))
    ('1', 'true', '2026-01-31')

    Raises:
        _UnreadableCell: if it is not a text, number, boolean or date, or Arrow cannot hold it.
    """
    import pandas as pd

    if isinstance(value, str):
        return value
    if value is None or value is pd.NA or value is pd.NaT:
        return None
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, int | np.integer):
        return str(value)
    if isinstance(value, np.floating):
        value = float(value)
    if isinstance(value, float) and DOUBLE_LIMIT <= abs(value) < math.inf:
        return f"{value:.1f}"  # the point says that the digits are not exact
    if isinstance(value, float | decimal.Decimal | datetime.date):
        with contextlib.suppress(pa.ArrowException, OverflowError, TypeError, ValueError):
            text: str | None = canonical_texts(pa.array([value], from_pandas=True))[0].as_py()
            return text
    if isinstance(value, decimal.Decimal):
        return str(value)  # infinite, or with more digits than Arrow's decimals have
    raise _UnreadableCell(value)
