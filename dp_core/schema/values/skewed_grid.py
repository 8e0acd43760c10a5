"""A grid for skewed numbers, whose steps are small near 0 and grow; values of its positions.

Distances from the origin (0, or the end of the range nearest to 0) are counted in units. Up to
`FINE` units, a step is one unit. From there on, a step doubles each time the distance doubles, so
it is at most 2/`FINE` of the distance. Every bin edge is also an edge of the grid.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

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
_MOST_EXACT = 2**38
"""Largest whole number for which the values of positions are exact."""


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


@dataclasses.dataclass(frozen=True, slots=True)
class StoredValues:
    """Values of the positions of a column, as whole numbers of a public unit.

    A position stands for the middle of its step, so that rounding causes no bias if values are
    spread evenly within a step. A step of an integer, or of a number with one step for each
    decimal, stands for the middle of the whole numbers in it: a step of one number is exact.

    Attributes:
        unit: Unit of the whole numbers, in the unit of the column.
        runs: Runs of equal distances: the first position, its value, and the distance of the values
            from one position to the next; ascending.
        positions: Number of positions.
    """

    unit: Fraction
    runs: tuple[tuple[int, int, int], ...]
    positions: int

    def numbers(self) -> NDArray[np.int64]:
        """Return the value of each position, shape (positions,)."""
        found = np.empty(self.positions, dtype=np.int64)
        ends = [run[0] for run in self.runs[1:]] + [self.positions]
        for (first, value, step), end in zip(self.runs, ends, strict=True):
            found[first:end] = value + step * np.arange(end - first)
        return found


def stored_values(column: Column) -> StoredValues:
    """Return the values of a column's stored positions.

    Args:
        column: An integer or number column; `Column.stored` says how it is stored.
    """
    stored = column.stored
    edges = stored.edges
    if column.type.whole:
        # A step has the whole numbers from its lower edge up to its upper edge less 1.
        edges = tuple(Fraction(math.ceil(edge)) for edge in edges)
        below = Fraction(1)
    elif column.decimals is not None and column.grid is not None:
        below = Fraction(1, 10**column.decimals)
        if any((edge / below).denominator != 1 for edge in edges):
            below = Fraction(0)
    else:
        below = Fraction(0)
    middles = [(low + high - below) / 2 for low, high in pairwise(edges)]
    middles = _in_fewer_units(middles)
    unit = common_step(middles) or Fraction(1)
    wholes = [int(each / unit) for each in middles]
    runs: list[tuple[int, int, int]] = []
    for place, value in enumerate(wholes):
        if runs:
            first, start, step = runs[-1]
            if place == first + 1:
                # The second position of a run defines its distance.
                runs[-1] = (first, start, value - start)
                continue
            if value == start + step * (place - first):
                continue
        runs.append((place, value, 1))
    return StoredValues(unit, tuple(runs), len(wholes))


def _in_fewer_units(middles: list[Fraction]) -> list[Fraction]:
    """Return values that are multiples of their distances, if exact ones are large whole numbers.

    If the smallest value is no multiple of the distances, as 1 is none of a billionth of 999,999,
    the common unit of all values is far smaller than the distances. Then all values are lowered by
    less than one distance, at most a billionth of the range.
    """
    unit = common_step(middles)
    if not unit or max(abs(middles[0]), abs(middles[-1])) / unit <= _MOST_EXACT:
        return middles
    apart = common_step([each - middles[0] for each in middles[1:]])
    return [each - middles[0] % apart for each in middles] if apart else middles
