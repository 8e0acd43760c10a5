"""Draws labels, numbers and dates for the codes of single columns, and reads them back.

This is post-processing: it takes codes of synthetic records and public knowledge only. The values
of records, which obey rules between columns, are drawn by `dp_core.schema.rules.possible_codes`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_core.kernel.codes import Codes, code_type
from dp_core.schema.bin_pieces import BinPieces, drawn_places, spread, weights_of
from dp_core.schema.bin_values import float_bounds, legal_range, units_of_bins, whole_bounds
from dp_core.schema.definition import Column, Schema
from dp_core.schema.dependencies import derive, parts, value_sources


def assemble_columns(
    schema: Schema, codes: Mapping[str, Codes], arrays: Mapping[str, pa.Array]
) -> pa.Table:
    """Return decoded columns with the dependent columns, in the schema's order.

    Args:
        schema: The schema.
        codes: Codes of each column of the domain.
        arrays: The decoded columns of the domain.
    """
    arrays = dict(arrays)
    if schema.dependents:
        values = {
            name: schema.column(name).scale.values_in(arrays[name])
            for name in value_sources(schema)
        }
        derived = derive(schema, codes, values)
        for dependent in schema.dependents:
            column = dependent.column
            arrays[column.name] = labels(column, derived[column.name])
    return pa.table([arrays[name] for name in schema.names], names=list(schema.names))


def draw_values(column: Column, codes: Codes, *, rng: np.random.Generator) -> pa.Array:
    """Return the codes of one column as drawn values or labels.

    Categories and ordinals become dictionaries of labels (ordered for an ordinal), which pandas
    reads as categoricals and R as factors. A piece of the bin is drawn by its weight, where bins
    have pieces (`Column.within`). Integers (`int64`) and dates (`date32`) are uniform over the
    whole numbers or days of their piece or bin. Numbers (`float64`) are uniform in it, on the grid
    of `decimals` if it contains such a number. A group of levels that are drawn again
    (`Choice.drawn`) becomes one of them, by its weight. Missing is null. Every value encodes to the
    code it came from.
    """
    _check_chosen(column)
    missing = None if column.missing_code is None else codes == column.missing_code
    if column.levels:
        return labels(column.in_sets, _levels_in_sets(column, codes, rng))
    bins = codes if missing is None else np.where(missing, 0, codes)
    if (within := column.within) is not None:
        column, bins = _by_piece(column, within, bins, rng)
    if column.type.continuous:
        return column.scale.array(_uniform_numbers(column, bins, rng), missing)
    low, high = whole_bounds(column)
    return column.scale.array(rng.integers(low[bins], high[bins], endpoint=True), missing)


def _levels_in_sets(column: Column, codes: Codes, rng: np.random.Generator) -> Codes:
    """Return codes of the column's levels as codes of `Column.in_sets`."""
    choice = column.choice
    if choice is None or not choice.drawn:
        return codes
    of = np.array(choice.level_codes())
    order = np.argsort(of, kind="stable")
    first = np.searchsorted(of[order], np.arange(column.bins + 1))
    weights = weights_of(range(of.size + 1), choice.pieces)
    # The weight of a level that is kept is that of the run it lies in, which may be 0.
    weights[list(choice.codes or ())] = 1.0
    found = np.full(codes.size, choice.among.missing_code or 0, dtype=code_type(choice.among.size))
    present = codes < column.bins
    found[present] = order[drawn_places(codes[present], first, weights[order], rng=rng)]
    return found


def _by_piece(
    column: Column, within: BinPieces, bins: NDArray[Any], rng: np.random.Generator
) -> tuple[Column, NDArray[Any]]:
    """Return the column with pieces in place of its bins, and a piece for each row."""
    pieces, _ = spread(bins, within.places(column.edges), tuple(enumerate(within.weights)), rng=rng)
    return dataclasses.replace(column, edges=within.edges, choice=None, pieces=None), pieces


def labels(column: Column, codes: Codes) -> pa.Array:
    """Return the labels of the codes of a category or ordinal; missing is null."""
    missing = None if column.missing_code is None else codes == column.missing_code
    names = list(dict.fromkeys(level.label for level in column.levels))
    places = {label: index for index, label in enumerate(names)}
    place = [places[level.label] for level in column.levels]
    if missing is not None:
        place.append(0)
    kind = np.int8 if len(names) < 128 else np.int32
    return pa.DictionaryArray.from_arrays(
        pa.array(np.array(place, dtype=kind)[codes], mask=missing),
        pa.array(names, pa.string()),
        ordered=column.type.ordered,
    )


def codes_of(column: Column, values: pa.Array) -> Codes:
    """Return the codes of a column of a synthetic set; the inverse of `draw_values`.

    Args:
        column: A column of the schema, with its bins or levels chosen.
        values: The column as `draw_values` makes it: labels (text or a dictionary of texts),
            `int64`, `float64` or `date32`, with null for missing.

    Returns:
        Codes, shape (rows,).

    Raises:
        ValueError: if `draw_values` never makes such a type or value in this column.
        KeyError: if a label is not one of the column's.
    """
    _check_chosen(column)
    if values.null_count and column.missing_code is None:
        raise ValueError(f"Column {column.name!r} of a synthetic set has missing values.")
    if column.levels:
        return _codes_of_labels(column, values)
    scale = column.scale
    if values.type != scale.stored:
        raise ValueError(
            f"Column {column.name!r} of a synthetic set is not stored as {scale.stored}."
        )
    found = scale.values_in(values)
    # A number is compared with its bounds as `draw_values` makes them, rounded to binary64.
    low, high = map(float if scale.continuous else int, legal_range(column))
    missing = values.is_null().to_numpy(zero_copy_only=False)
    # A NaN fails both comparisons, so it is refused too.
    if not (((found >= low) & (found <= high)) | missing).all():
        raise ValueError(f"Column {column.name!r} of a synthetic set has a value out of range.")
    codes = parts(column.edges[1:-1], found).astype(code_type(column.size))
    if column.missing_code is not None:
        codes[missing] = column.missing_code
    return codes


def stored_codes(column: Column, codes: Codes, *, rng: np.random.Generator) -> Codes:
    """Return codes in which the file is stored (`Column.stored`) for codes of the schema.

    A code that stands for several stored ones becomes one of them, drawn as `draw_values` does.

    Args:
        column: Column of the schema, with its bins or levels chosen.
        codes: Its codes, shape (rows,).
        rng: Generator for post-processing.
    """
    if column.stored is column:
        return codes
    if column.levels:
        if column.in_sets is column:
            raise ValueError(f"The levels of {column.name!r} are chosen privately.")
        return _levels_in_sets(column, codes, rng)
    return codes_of(column.stored, draw_values(column, codes, rng=rng))


def _codes_of_labels(column: Column, values: pa.Array) -> Codes:
    if not pa.types.is_dictionary(values.type):
        values = values.dictionary_encode()
    code_of = column.label_codes()
    places = [code_of[label] for label in values.dictionary.to_pylist()]
    # The last entry is for null.
    table = np.array([*places, column.missing_code or 0], dtype=code_type(column.size))
    indices = values.indices.cast(pa.int64()).fill_null(len(places))
    found: Codes = table[indices.to_numpy(zero_copy_only=False)]
    return found


def _check_chosen(column: Column) -> None:
    if column.unknown:
        raise ValueError(f"The bins or levels of {column.name!r} are not chosen yet.")


def _uniform_numbers(
    column: Column, bins: NDArray[Any], rng: np.random.Generator
) -> NDArray[np.float64]:
    low, last = float_bounds(column)
    width = np.array([float(edge) for edge in column.edges[1:]]) - low
    values = low[bins] + rng.random(bins.size) * width[bins]
    if column.decimals is not None:
        first, final = units_of_bins(column, column.decimals)
        if all(abs(point) < 2**53 for point in (*first, *final)):
            start, stop = np.array(first, dtype=np.int64), np.array(final, dtype=np.int64)
            holds = (start <= stop)[bins]  # a bin narrower than the grid keeps full precision
            drawn = rng.integers(start[bins], np.maximum(start, stop)[bins], endpoint=True)
            # Both numbers are exact, so their quotient is the float nearest to the decimal.
            values = np.where(holds, drawn / 10.0**column.decimals, values)
    inside: NDArray[np.float64] = np.clip(values, low[bins], last[bins])
    return inside
