"""Numbers, whole numbers and dates in the whole units of a rule, and the units of each bin."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.schema.bin_values import float_bounds, units_of_bins
from dp_core.schema.definition import Column
from dp_core.schema.rules.column_rules import Array, AtMost, Condition, Units

MOST_UNITS = 2**51
"""Largest size of a value or sum in units; up to it, binary64 gives back every decimal."""
MOST_NUMBER_UNITS = 2**23
"""Largest size of a number in units; up to it, binary32 gives back every decimal."""


@dataclass(frozen=True, slots=True)
class UnitBounds:
    """The least and greatest unit of each code of a column.

    Attributes:
        low: Least unit of each code, shape (codes,).
        high: Greatest unit of each code, shape (codes,). Both are 0 for the code of missing.
    """

    low: NDArray[np.int64]
    high: NDArray[np.int64]


def unit_bounds(column: Column, units: Units) -> UnitBounds:
    """Return the units that a value with each code of a column can have.

    Every code of a column whose bins are not chosen yet has the units of the whole column.

    Args:
        column: The column in any codes: the schema's own, on a grid, or as stored.
        units: Its units.
    """
    if units.edges:
        firsts = [bisect_right(units.edges, edge) - 1 for edge in column.edges[:-1]]
        lasts = [bisect_left(units.edges, edge) - 1 for edge in column.edges[1:]]
        bins = [(low, max(low, high)) for low, high in zip(firsts, lasts, strict=True)]
    else:
        bins = list(zip(*units_of_bins(column, units.decimals), strict=True))
    if column.unknown:
        bins = [(bins[0][0], bins[-1][1])] * len(bins)
    if column.missing_code is not None:
        bins.append((0, 0))
    low, high = zip(*bins, strict=True)
    return UnitBounds(np.array(low, dtype=np.int64), np.array(high, dtype=np.int64))


def codes_that_hold(
    condition: Condition, column: Column, bounds: Mapping[str, UnitBounds]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return the codes with which a condition always holds, and those with which it can hold.

    Args:
        condition: A condition about one column.
        column: The column.
        bounds: Units of the codes of each compared column, by name.

    Returns:
        Two arrays of shape (codes,).
    """
    able = condition.codes_of(column)
    if not isinstance(condition, AtMost):
        return able, able
    ((name, factor),) = condition.terms
    ends = bounds[name].low, bounds[name].high
    sure = able & (factor * ends[factor > 0] <= condition.bound)
    return sure, able & (factor * ends[factor < 0] <= condition.bound)


def values_of(column: Column, units: Units, whole: NDArray[np.int64], codes: Array) -> Array:
    """Return the values of units that lie in the bins of some codes (dates: day ordinals).

    Args:
        column: The column, in the codes given.
        units: Its units; not those of a number without `decimals`.
        whole: Values in units, shape (rows,).
        codes: Their codes, none of them missing, shape (rows,).
    """
    if not column.type.continuous:
        return whole
    low, last = float_bounds(column)
    # Both numbers are exact, so their quotient is the float nearest to the decimal.
    return np.asarray(np.clip(whole / 10.0**units.decimals, low[codes], last[codes]))


def units_by_column(units: Iterable[Units]) -> dict[str, Units]:
    """Return the units of each column that rules compare."""
    return {each.column: each for each in units}
