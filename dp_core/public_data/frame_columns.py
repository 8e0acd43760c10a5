"""Columns of a pandas frame as Arrow arrays, as a file would store them.

Whole numbers, floats, booleans, texts, dates, times and categories of these keep their type, which
`dp_core.confidential.raw_values` reads: 1.0 is the level `1`, and NaN, None and NaT are missing. In
a column of Python objects of several types each value becomes its text.
"""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dp_core.errors import BadInput, similar
from dp_core.schema.definition import Schema

if TYPE_CHECKING:
    import pandas as pd

MOST_NAMED = 8
"""Most columns that a message names."""


def frame_columns(frame: pd.DataFrame, schema: Schema) -> pa.RecordBatch:
    """Return the columns of a frame that the schema reads.

    Args:
        frame: The rows; columns that the schema ignores are left out.
        schema: The schema.

    Raises:
        BadInput: if a column is missing, unknown, named twice, or cannot be read, or there is no
            row.
        TypeError: if it is not a pandas frame.
    """
    import pandas as pd

    if not isinstance(frame, pd.DataFrame):
        raise TypeError(
            f"The data must be a pandas frame, not {type(frame).__name__}; pandas.read_csv(FILE,"
            " dtype=str, keep_default_na=False) reads a file with its texts unchanged."
        )
    _check_names(frame, schema)
    if not len(frame):
        raise BadInput("The frame has no row.")
    arrays = [_array(frame[name], name, schema) for name in schema.reads]
    return pa.RecordBatch.from_arrays(arrays, names=list(schema.reads))


def _check_names(frame: pd.DataFrame, schema: Schema) -> None:
    have = list(frame.columns)
    other = next((name for name in have if not isinstance(name, str)), None)
    if other is not None:
        raise BadInput(
            f"The frame has a column named {other!r}, which is no text; rename it:"
            " frame.columns = [...]."
        )
    twice = [name for name in dict.fromkeys(have) if have.count(name) > 1]
    if twice:
        raise BadInput(f"The frame has more than one {_named(twice)}; rename or drop one.")
    known = {*schema.reads, *schema.ignore}
    extra = [name for name in have if name not in known]
    missing = [name for name in schema.reads if name not in have]
    said = []
    if missing:
        in_index = [name for name in missing if name in frame.index.names]
        hint = "".join(
            f" Did you mean to rename {near[0]!r} to {name!r}?"
            for name in missing
            if (near := [each for each in extra if _alike(each, name)])
        )
        if in_index:
            hint = f" {_named(in_index)} is in the index: use frame.reset_index()."
        said.append(f"The frame lacks {_named(missing)} of the schema.{hint}")
    if extra:
        said.append(
            f"The frame has {_named(extra)}, which the schema does not describe: describe each"
            " under `columns`, name it under `ignore`, or drop it: frame.drop(columns=[...])."
        )
    if said:
        raise BadInput(" ".join(said))


def _alike(one: str, other: str) -> bool:
    return one.strip().casefold() == other.strip().casefold() or bool(similar(one, [other]))


def _named(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:MOST_NAMED])
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"column{'s' if len(names) > 1 else ''} {shown}{more}"


def _array(values: pd.Series[Any], name: str, schema: Schema) -> pa.Array:
    """Return a column.

    Raises:
        BadInput: if its values cannot be read.
    """
    array = _stored(values, name)
    kind = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
    if name == schema.unit.column:
        whole = pa.types.is_floating(kind) and array.cast(kind)
        return whole.cast(pa.int64()) if whole and _whole(whole) else array
    if pa.types.is_boolean(kind):
        # A file that Python writes says True, others say true.
        texts = {*schema.column(name).texts()} if schema.column(name).levels else set()
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
        f"Column {name!r} holds values of the type {type(value).__name__}, which cannot be read;"
        " convert them to text, numbers, booleans or dates."
    )
