"""Decodes synthetic codes into values that obey the rules between columns. Post-processing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_core.schema import decoding
from dp_core.schema.decoding import assembled, drawn
from dp_core.schema.definition import Schema
from dp_core.schema.rules.obeyed_values import compared, obey
from dp_core.tables.dataset import Dataset


def decode(schema: Schema, data: Dataset, *, rng: np.random.Generator) -> pa.Table:
    """Return synthetic codes as values in the schema's own labels and units, which obey its rules.

    Without rules it is `dp_core.schema.decoding.decode`. With rules, all values are drawn in the
    same way; then rows that break a rule are drawn again in the columns that rules compare.

    Args:
        schema: Schema with the columns of `data`, in any order.
        data: Synthetic codes, as `dp_core.schema.rules.possible_codes` leaves them.
        rng: Generator for post-processing.

    Returns:
        One column per released column of the schema, in its order.

    Raises:
        ValueError: if the codes of a record leave no values that obey the rules.
    """
    if not schema.rules:
        return decoding.decode(schema, data, rng=rng)
    codes = {column.name: data.column(column.name) for column in schema.columns}
    arrays = {name: drawn(schema.column(name), own, rng=rng) for name, own in codes.items()}

    def draw(name: str, own: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        column = schema.column(name)
        return column.scale.values_in(drawn(column, own, rng=rng))

    before = {name: schema.column(name).scale.values_in(arrays[name]) for name in compared(schema)}
    for name, values in obey(schema, codes, before, draw, rng=rng).items():
        column = schema.column(name)
        missing = None if column.missing_code is None else codes[name] == column.missing_code
        arrays[name] = column.scale.array(values, missing)
    return assembled(schema, codes, arrays)
