"""A grid for skewed numbers: steps are small near 0 and grow with the distance from it.

Distances from the origin (0, or the end of the range nearest to 0) are counted in units. Up to
`FINE` units, a step is one unit. From there on, a step doubles each time the distance doubles, so
it is at most 2/`FINE` of the distance. Every bin edge is also an edge of the grid.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection
from fractions import Fraction

import numpy as np

from dp_core.errors import BadInput
from dp_core.schema.bin_pieces import common_step, exact_text
from dp_core.schema.definition import Column, Schema
from dp_core.schema.grid import MOST_POSITIONS, with_own_grids

FINE = 2048
"""Number of steps of one unit on each side of the origin."""
MOST_UNITS = 2**35
"""Largest number of units of a range."""
_MOST_FROM_0 = 2**48
"""Largest distance of a range from 0, in units."""
_USUAL_UNITS = 2**30  # approximate number of units of a number without decimals


def with_skewed_values(schema: Schema, names: Collection[str]) -> Schema:
    """Return the schema with numeric columns stored on a skewed grid.

    Bins, levels and domain do not change; `Schema.stored` does. Columns that already have a grid
    keep it.

    Args:
        schema: The schema as written.
        names: Names of integer or number columns with public bins.

    Raises:
        BadInput: if the range of a column has too many units, or an `impossible` rule cannot be
            stated on the grid.
    """
    grids = {
        column.name: skewed_grid(column)
        for column in schema.columns
        if column.name in names and column.grid is None
    }
    return with_own_grids(schema, grids)


def skewed_grid(column: Column) -> Column:
    """Return an integer or number column on a skewed grid that contains all of its bin edges.

    Args:
        column: A column with public bins.

    Raises:
        BadInput: if its range has more than `MOST_UNITS` units, or its edges are too close to each
            other in floating point.
    """
    unit = unit_of(column)
    low, high = column.edges[0], column.edges[-1]
    origin = min(max(low, Fraction(0)), high)
    # The origin as a multiple of the unit from `low`.
    origin = low + unit * ((origin - low) // unit)
    found = {*column.edges, origin}
    reach = max(high - origin, origin - low) / unit
    distances = [*range(min(FINE, math.ceil(reach)) + 1)]
    step, start = 2, FINE
    while start < reach:
        distances += range(start + step, 2 * start + 1, step)
        step, start = 2 * step, 2 * start
    found |= {origin + unit * each for each in distances if origin + unit * each < high}
    found |= {origin - unit * each for each in distances if origin - unit * each > low}
    edges = tuple(sorted(found))
    if len(edges) - 1 > MOST_POSITIONS:
        raise BadInput(
            f"Column {column.name!r} is in a declared statistic, and its values need"
            f" {len(edges) - 1:,} steps, more than {MOST_POSITIONS:,}; state fewer bins."
        )
    if (np.diff([float(edge) for edge in edges]) <= 0).any():
        raise BadInput(
            f"Column {column.name!r} is in a declared statistic, but its steps are equal in"
            " floating point; state a narrower range."
        )
    return dataclasses.replace(column, edges=edges, grid=None)


def unit_of(column: Column) -> Fraction:
    """Return the unit of a column's grid: 1 for an integer, otherwise a divisor of all bin edges.

    A number with `decimals` has its last decimal as the unit, if the range has at most
    `MOST_UNITS` of them. Other numbers have about a billion units.

    Raises:
        BadInput: if the range has more than `MOST_UNITS` units.
    """
    low, high = column.edges[0], column.edges[-1]
    if column.type.whole:
        unit = Fraction(1)
    else:
        unit = common_step([edge - low for edge in column.edges[1:]])
        decimals = None if column.decimals is None else Fraction(1, 10**column.decimals)
        if decimals is not None and (high - low) / common_step([unit, decimals]) <= MOST_UNITS:
            unit = common_step([unit, decimals])
        else:
            while 2 * (high - low) / unit <= _USUAL_UNITS:
                unit /= 2
    if (high - low) / unit > MOST_UNITS:
        raise BadInput(
            f"Column {column.name!r} is in a declared statistic, and its range has more than"
            f" {MOST_UNITS:,} units of {exact_text(unit)}; state a narrower range, or bin edges"
            " that are rounder numbers."
        )
    if max(abs(low), abs(high)) / unit > _MOST_FROM_0:
        raise BadInput(
            f"Column {column.name!r} is in a declared statistic, and its range, {exact_text(low)}"
            f" to {exact_text(high)}, is too far from 0 for steps of {exact_text(unit)}; state a"
            " range that"
            " is nearer to 0, or bin edges that are rounder numbers."
        )
    return unit
