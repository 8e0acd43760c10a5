"""Columns of a pandas frame as Arrow arrays, as a file would store them.

Whole numbers, floats, booleans, texts, dates, times and categories of these keep their type, which
`dp_core.confidential.values.raw_values` reads: 1.0 is the level `1`, and NaN, None and NaT are
missing. In a column of Python objects of several types each value becomes its text, as
`stored_texts` writes it.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dp_core.confidential.source_files import is_readable
from dp_core.confidential.values.common_types import in_common_type
from dp_core.confidential.values.stored_texts import cell_text
from dp_core.errors import BadInput
from dp_core.schema.definition import Schema

if TYPE_CHECKING:
    import pandas as pd


def frame_columns(frame: object, schema: Schema) -> pa.Table:
    """Return the columns of a frame.

    Args:
        frame: The rows.
        schema: The schema.

    Raises:
        BadInput: if a name is not a text, or a column of the schema is in the index or cannot be
            read.
        TypeError: if it is not a pandas frame.
    """
    import pandas as pd

    if not isinstance(frame, pd.DataFrame):
        raise TypeError(
            f"The data must be a pandas frame, not {type(frame).__name__}; pandas.read_csv(FILE,"
            " dtype=str, keep_default_na=False) reads a file with its texts unchanged."
        )
    names = list(frame.columns)
    for name in names:
        if not isinstance(name, str):
            raise BadInput(
                f"The frame has a column named {name!r}, which is not a text; rename it:"
                " frame.columns = [...]."
            )
    for name in schema.reads:
        if name not in names and name in frame.index.names:
            raise BadInput(
                f"Column {name!r} is the index of the frame; make it a column: frame.reset_index()."
            )
    arrays = [_array(frame.iloc[:, place], name, schema) for place, name in enumerate(names)]
    return pa.Table.from_arrays(arrays, names=names)


def _array(values: pd.Series[Any], name: str, schema: Schema) -> pa.Array:
    """Return a column.

    Raises:
        BadInput: if its values cannot be read.
    """
    if name not in schema.reads:
        # Perhaps a column of the schema under another name.
        with contextlib.suppress(BadInput):
            return _stored(values, name)
        return pa.nulls(len(values))
    return _stored(values, name)


def _stored(values: pd.Series[Any], name: str) -> pa.Array:
    try:
        array = pa.array(values, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        array = None
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if array is not None and is_readable(array.type):
        return in_common_type(array)
    if values.dtype == object or str(values.dtype) == "category":
        try:
            return pa.array([cell_text(value) for value in values], pa.string())
        except TypeError as error:
            raise BadInput(
                f"Column {name!r} has values of the type {error}, which cannot be read; convert"
                " them to text, numbers, booleans or dates."
            ) from None
    raise BadInput(
        f"Column {name!r} has values of the type {values.dtype}, which cannot be read; convert"
        " them to text, numbers, booleans or dates."
    )
