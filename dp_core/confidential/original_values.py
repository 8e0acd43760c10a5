"""The confidential file's values in the labels and units of the synthetic sets. Confidential side.

The table has the columns and types of a synthetic set (`dp_core.schema.decoding.draw_values`), so
the same analysis runs on both. Its numbers are the file's own, not drawn from a bin.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_core.confidential.between_columns import RuleCheck
from dp_core.confidential.encoding import Encoder, settle_zeros
from dp_core.confidential.person_rows import Persons, hashes, kept_rows, orders
from dp_core.confidential.source import Source
from dp_core.kernel.coding.raw_values import Array, Values
from dp_core.schema.decoding import assemble_columns, draw_values, labels
from dp_core.schema.definition import Column, Schema
from dp_core.schema.dependencies import derive, value_sources
from dp_core.schema.rules.file_rules import file_rules


def original_values(source: Source, schema: Schema, columns: Sequence[str]) -> pa.Table:
    """Return columns of a validated file, with the types of a synthetic set. CONFIDENTIAL.

    Values out of range, missing values and impossible rows are settled as the schema says,
    dependent columns are derived, and each person has the rows that a release uses. The columns are
    kept in memory.

    Args:
        source: The confidential files, with the columns of the schema.
        schema: Schema of the release.
        columns: Names of the columns, in the order of the table.

    Raises:
        ValueError: if the file has a value that the schema refuses.

    Privacy:
        Spends nothing and protects nothing: for the internal folder, never for the bundle.
    """
    encoders = [Encoder(column) for column in schema.columns]
    rules = file_rules(schema)
    check = RuleCheck(rules)
    # The stored codes decide which rows of a person are used; private bins and levels were chosen
    # from them only later.
    finer = [
        None if kept is column else Encoder(kept)
        for column, kept in zip(schema.columns, schema.stored.columns, strict=True)
    ]
    read, pieces = schema.domain.columns, []
    unit, persons, order = schema.unit, list[Persons](), list[NDArray[np.uint64]]()
    for batch in source.batches():
        values = [
            encoder.reader.read(found)
            for encoder, found in zip(encoders, map(batch.records.column, read), strict=True)
        ]
        encoded = [encoder.place(typed) for encoder, typed in zip(encoders, values, strict=True)]
        if any(found.bad is not None for found in encoded):
            raise ValueError("The file does not fit its schema.")
        codes = [np.array(found.codes) for found in encoded]
        compared = {name: values[schema.domain.axes((name,))[0]] for name in check.columns}
        units = {name: check.units_of(name, typed) for name, typed in compared.items()}
        by_name = dict(zip(schema.domain.columns, codes, strict=True))
        settle_zeros(rules, by_name, units)
        rows = {name: values[schema.domain.axes((name,))[0]] for name in value_sources(schema)}
        derived = derive(schema, by_name, {name: _by_row(typed) for name, typed in rows.items()})
        arrays = []
        for name in columns:
            column = schema.column(name)
            if column.levels:
                arrays.append(labels(column, derived[name] if name in derived else by_name[name]))
                continue
            axis = schema.domain.axes((name,))[0]
            missing = codes[axis] == column.missing_code if column.missing == "level" else None
            arrays.append(_numbers(column, encoders[axis], _by_row(values[axis]), missing))
        pieces.append(pa.table(arrays, names=list(columns)))
        if unit.column is not None:
            found = batch.records.column(unit.column)
            persons.append(hashes(unit.column, found, unit.missing_values)[0])
            stored = [
                own if fine is None else _stored(fine, batch.records.column(name), own, column)
                for name, own, fine, column in zip(read, codes, finer, schema.columns, strict=True)
            ]
            order.append(orders(persons[-1], stored))
    if not pieces:
        rng, nothing = np.random.default_rng(0), np.zeros(0, schema.domain.code_type)
        codes_of_none = dict.fromkeys(schema.domain.columns, nothing)
        empty = {one.name: draw_values(one, nothing, rng=rng) for one in schema.columns}
        return assemble_columns(schema, codes_of_none, empty).select(list(columns))
    table = pa.concat_tables(pieces)
    if unit.column is None:
        return table
    return table.filter(
        pa.array(kept_rows(np.concatenate(persons), np.concatenate(order), unit.max_rows))
    )


def _stored(fine: Encoder, values: pa.Array, own: Array, column: Column) -> Array:
    """Return stored codes of a column; a value that a policy set to missing is missing."""
    found = fine.encode(values).codes
    missing = fine.rule.missing_code
    if missing is None:
        return found
    return np.where(own == column.missing_code, missing, found).astype(found.dtype)


def _by_row(typed: Values) -> Array:
    """Return the value of each row."""
    data: Array = typed.data if typed.index is None else typed.data[typed.index]
    return data


def _numbers(column: Column, encoder: Encoder, data: Array, missing: Array | None) -> pa.Array:
    """Return numbers, whole numbers or dates, clipped to the bounds."""
    clipped = np.clip(data, data.dtype.type(encoder.low), data.dtype.type(encoder.high))
    if encoder.rule.continuous:
        clipped = decimals(clipped)
    return column.scale.array(clipped, missing)


def decimals(numbers: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the shortest decimal of each binary32, as binary64: 0.7 for 0.69999998807...

    The decimals of up to six digits, and most of seven, are as a file or a schema writes them.
    """
    texts = pa.array(numbers).cast(pa.string())
    written: NDArray[np.float64] = texts.cast(pa.float64()).to_numpy()
    return written
