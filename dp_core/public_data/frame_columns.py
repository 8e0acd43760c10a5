"""Columns of a pandas frame as Arrow arrays, as a file would store them.

Whole numbers, floats, booleans, texts, dates, times and categories of these keep their type, which
`dp_core.confidential.raw_values` reads: 1.0 is the level `1`, and NaN, None and NaT are missing. In
a column of Python objects of several types each value becomes its text.
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

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
    array = _stored(values, name)
    kind = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
    if name == schema.unit.column:
        whole = pa.types.is_floating(kind) and array.cast(kind)
        return whole.cast(pa.int64()) if whole and _whole(whole) else array
    levels = bool(schema.column(name).levels)
    if levels and pa.types.is_decimal(kind):
        return pa.array([_text(value, name) for value in array.to_pylist()], pa.string())
    if levels and pa.types.is_boolean(kind):
        # A file that Python writes says True, others say true.
        texts = {*schema.column(name).texts()}
        if texts & {"True", "False"} and not texts & {"true", "false"}:
            words = array.cast(pa.bool_()).to_pylist()
            return pa.array([None if word is None else str(word) for word in words], pa.string())
    return array


def _whole(array: pa.Array) -> bool:
    known = array.drop_null().to_numpy()
    return bool(np.isfinite(known).all() and (known == np.floor(known)).all())


def _stored(values: pd.Series[Any], name: str) -> pa.Array:
    try:
        array = pa.array(values, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        array = None
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if array is not None and _readable(array.type):
        return array
    if values.dtype == object or str(values.dtype) == "category":
        return pa.array([_text(value, name) for value in values], pa.string())
    raise BadInput(
        f"Column {name!r} has values of the type {values.dtype}, which cannot be read; convert"
        " them to text, numbers, booleans or dates."
    )


def _readable(kind: pa.DataType) -> bool:
    of = kind.value_type if pa.types.is_dictionary(kind) else kind
    return any(
        test(of)
        for test in (
            pa.types.is_string,
            pa.types.is_large_string,
            pa.types.is_string_view,
            pa.types.is_integer,
            pa.types.is_floating,
            pa.types.is_decimal,
            pa.types.is_boolean,
            pa.types.is_date,
            pa.types.is_timestamp,
            pa.types.is_null,
        )
    )


def _text(value: object, name: str) -> str | None:
    """Return the text of a single value, None if it is missing.

    >>> _text(1.0, "x"), _text(True, "x"), _text(datetime.date(2026, 1, 31), "x")
    ('1', 'true', '2026-01-31')
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
    if isinstance(value, float | np.floating | decimal.Decimal):
        number = float(value)
        if math.isnan(number):
            return None
        return str(int(number)) if number.is_integer() else str(value)
    if isinstance(value, datetime.datetime):
        midnight = value.time() == datetime.time()
        return value.date().isoformat() if midnight else value.isoformat(sep=" ")
    if isinstance(value, datetime.date):
        return value.isoformat()
    raise BadInput(
        f"Column {name!r} has values of the type {type(value).__name__}, which cannot be read;"
        " convert them to text, numbers, booleans or dates."
    )
