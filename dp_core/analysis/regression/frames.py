"""Sets of a release as pandas frames, with categories in the codebook's levels, dates as days."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_core.analysis.regression.survey_sample import (
    Sample,
    design_columns,
    households_of,
    sample_of,
)
from dp_core.bundle.files.linked_sets import LinkedSet, households_with_members, join_households
from dp_core.bundle.reading import Bundle
from dp_core.errors import BadInput
from dp_core.schema.bin_values import legal_range
from dp_core.schema.definition import Column, Schema

Codes = NDArray[np.intp]

MOST_PUBLIC_ROWS = 1 << 12
"""Most combinations of levels and ends of numbers that made-up rows have completely."""


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """The rows of one set that have a value in every column of an analysis.

    Attributes:
        number: Number of the set, from 1.
        data: pandas frame; categories are unordered categoricals over all levels of the schema.
        dropped: Number of rows left out because a value was missing.
        kept: Which rows of the set are left, shape (rows of the set,).
        weights: Survey weights of the rows; None if the analysis is not weighted.
        sample: Sample design of the set; None if the analysis is not by the design.
    """

    number: int
    data: Any
    dropped: int
    kept: Any = None
    weights: Any = None
    sample: Sample | None = None

    @property
    def rows(self) -> int:
        """Number of rows that are left."""
        return len(self.data)


def read_frames(
    bundle: Bundle, columns: Sequence[str], *, weight: str | None = None, design: bool = False
) -> tuple[Frame, ...]:
    """Return the complete rows of each set of a release.

    Of linked tables, rows are households if all columns are those of households. Otherwise they are
    persons, and their households are clusters.

    Args:
        bundle: The release.
        columns: Names of the columns to read.
        weight: Column of survey weights for a weighted analysis; None otherwise.
        design: Whether the analysis is by the sample design that the schema states; False by
            default.

    Raises:
        BadInput: if a file cannot be read, or a set has no complete row.
    """
    schema, frames = bundle.claims.schema, []
    if schema.linked is not None:
        return tuple(
            _linked_frame(number, bundle.read_tables(number), columns, schema)
            for number in range(1, bundle.claims.sets + 1)
        )
    also = design_columns(schema) if design else [weight] if weight else []
    read = list(dict.fromkeys([*columns, *also]))
    wanted = [schema.column(name) for name in columns]
    for number in range(1, bundle.claims.sets + 1):
        table = bundle.read_set(number, read)
        frame = frame_of(number, table, wanted, weight=weight)
        frames.append(with_design(frame, table, schema) if design else frame)
    return tuple(frames)


def _linked_frame(number: int, data: LinkedSet, columns: Sequence[str], schema: Schema) -> Frame:
    """Return the complete rows of a set of linked tables."""
    wanted = [schema.column(name) for name in columns]
    if not about_persons(schema, columns):
        return frame_of(number, households_with_members(data), wanted)
    frame = frame_of(number, join_households(schema, data), wanted)
    return replace(
        frame,
        weights=np.ones(frame.rows),
        sample=households_of(data.household_of, frame.kept),
    )


def about_persons(schema: Schema, columns: Sequence[str]) -> bool:
    """Return whether an analysis of some columns is one of the persons of linked tables."""
    linked = schema.linked
    return linked is not None and not {*linked.person_columns}.isdisjoint(columns)


def frame_of(
    number: int, table: Any, columns: Sequence[Column], *, weight: str | None = None
) -> Frame:
    """Return the complete rows of a set's Arrow table.

    Raises:
        BadInput: if there is no complete row.
    """
    import pandas as pd

    read = {column.name: _values(column, table.column(column.name)) for column in columns}
    data = pd.DataFrame(read)
    kept = data.notna().all(axis=1).to_numpy()
    complete = data[kept].reset_index(drop=True)
    if complete.empty:
        raise BadInput(
            f"No row of set {number} has a value in all of {', '.join(data.columns)}; leave out the"
            " column that is mostly missing."
        )
    weights = None if weight is None else table.column(weight).to_numpy()[kept]
    return Frame(number, complete, len(data) - len(complete), kept, weights)


def public_frame(
    columns: Sequence[str],
    schema: Schema,
    rows: int = 1,
    numbers: Mapping[str, Any] | None = None,
) -> Frame:
    """Return made-up rows that have every level of some columns, and some values of every number.

    They are all combinations, or a random part of these if there are more than `MOST_PUBLIC_ROWS`.

    Args:
        columns: Names of the columns.
        schema: Schema of the release.
        rows: Smallest number of rows; 1 by default.
        numbers: Values of numbers, by name; by default both ends of each.
    """
    import pandas as pd

    values = {name: _public_values(schema.column(name)) for name in columns} | {**(numbers or {})}
    sizes = [len(each) for each in values.values()]
    whole = math.prod(sizes)
    if whole <= MOST_PUBLIC_ROWS:
        cells = np.arange(whole * -(-rows // whole)) % whole
        codes = np.unravel_index(cells, sizes) if sizes else ()
    else:
        rng, cells = np.random.default_rng(0), np.arange(max(rows, MOST_PUBLIC_ROWS, *sizes))
        codes = tuple(rng.permutation(cells % size) for size in sizes)
    data = pd.DataFrame(index=pd.RangeIndex(len(cells)))
    for (name, every), own in zip(values.items(), codes, strict=True):
        has_levels = bool(schema.column(name).levels)
        data[name] = pd.Categorical.from_codes(own, every) if has_levels else np.array(every)[own]
    return Frame(1, data, 0)


def _public_values(column: Column) -> tuple[Any, ...]:
    """Return the labels of the levels, or the ends of a number as in the frames."""
    if column.levels:
        return levels_of(column)
    return tuple(float(end - column.scale.zero) for end in legal_range(column))


def with_design(frame: Frame, table: Any, schema: Schema) -> Frame:
    """Return the frame of a set with its sample design and weights, which are 1 without a column.

    Args:
        frame: Complete rows of the set.
        table: Arrow table of the set, from which the frame was made.
        schema: Schema of the release, which states a design.
    """
    sample = sample_of(frame.number, table, schema, frame.kept)
    return replace(frame, weights=sample.weights[sample.kept], sample=sample)


def levels_of(column: Column) -> tuple[str, ...]:
    """Return the labels of a category, in the codebook's order."""
    return tuple(dict.fromkeys(level.label for level in column.in_sets.levels))


def codes_of(column: Column, values: Any) -> Codes:
    """Return the codes of a frame's column without missing values; of a number, its bins."""
    if not column.levels:
        edges = np.array([float(edge) for edge in column.edges[1:-1]])
        numbers = np.asarray(values, dtype=np.float64) + column.scale.zero
        return np.asarray(np.searchsorted(edges, numbers, side="right"), dtype=np.intp)
    code_of = column.label_codes()
    places = np.array([code_of[label] for label in values.cat.categories], dtype=np.intp)
    found: Codes = places[values.cat.codes.to_numpy()]
    return found


def measured_codes(
    names: Sequence[str], frames: Sequence[Frame], schema: Schema
) -> tuple[dict[str, Codes], dict[str, NDArray[np.float64]]]:
    """Return codes of the columns that can be in a noisy table, and the values of the numbers.

    Args:
        names: Names of columns of the frames; those that depend on others are left out.
        frames: Complete rows of each set.
        schema: Schema of the release.

    Returns:
        Both by name, of all sets one after the other, shape (rows,).
    """
    names = [name for name in dict.fromkeys(names) if name in schema.domain.columns]
    codes = {
        name: np.concatenate([codes_of(schema.column(name), frame.data[name]) for frame in frames])
        for name in names
    }
    values = {
        name: np.concatenate([np.asarray(frame.data[name], np.float64) for frame in frames])
        for name in names
        if not schema.column(name).levels
    }
    return codes, values


def _values(column: Column, array: Any) -> Any:
    import pandas as pd

    if column.levels:
        values, levels = array.to_pandas(), list(levels_of(column))
        # Unordered: an ordinal is coded like any category, relative to its first level.
        if isinstance(values.dtype, pd.CategoricalDtype):
            return values.cat.set_categories(levels).cat.as_unordered()
        return pd.Categorical(values, categories=levels)
    return column.scale.numbers(array).to_pandas().astype("float64")
