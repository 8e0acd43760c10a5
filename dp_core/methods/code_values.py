"""Numeric values of the codes of a column."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from dp_core.schema.bin_values import BinValues
from dp_core.schema.definition import Column, Schema
from dp_core.schema.structure.households_with_members import codes_with_members

Floats = NDArray[np.float64]


def numbers_of(column: Column) -> Floats:
    """Return the mean of the values in each bin of a numeric column, and NaN for missing."""
    values = BinValues.of(column)
    means = values.mean() / values.steps
    return np.array([*means, *[math.nan] * (column.size - column.bins)])


def scores_of(schema: Schema) -> Mapping[str, Floats]:
    """Return the value of each code of numeric and ordinal columns, NaN for missing.

    The values of an ordinal column are the ranks of its levels. The code of `members` for a
    household without members is NaN, too, because such a household is not just a small one.
    """
    found = {}
    for column in schema.columns:
        if not column.levels:
            found[column.name] = numbers_of(column)
        elif column.type.ordered:
            ranks = np.arange(column.size, dtype=np.float64)
            ranks[column.bins :] = math.nan
            found[column.name] = ranks
    for name, kept in codes_with_members(schema.domain).items():
        if name in found:
            found[name][: kept.start] = math.nan
    return found
