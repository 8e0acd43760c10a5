"""The whole number that each stored position of a numeric column stands for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from dp_core.schema.bin_pieces import common_step
from dp_core.schema.definition import Column


@dataclass(frozen=True, slots=True)
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

    def value(self, position: int) -> int:
        """Return the value of one position."""
        first, value, step = next(run for run in reversed(self.runs) if run[0] <= position)
        return value + step * (position - first)


_MOST = 2**38
"""Largest whole number for which values are exact."""


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
    if not unit or max(abs(middles[0]), abs(middles[-1])) / unit <= _MOST:
        return middles
    apart = common_step([each - middles[0] for each in middles[1:]])
    return [each - middles[0] % apart for each in middles] if apart else middles
