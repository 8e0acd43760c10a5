"""Bias that bins alone cause, without any noise: means, and slopes on or of a numeric column.

A set has values that are uniform within their bin and independent of everything else there. With
x a value, b(x) the middle of its bin and u the value in a set:

- *Mean.* E u = E b(x), so the error of the mean is E b(x) - E x. Where the density falls within a
  bin, the mean of its records is below its middle.
- *Predictor.* The sets keep cov(b(x), y), and Var(u) = Var b(x) + E w^2/12 for bins of width w. So
  a slope on x is multiplied by cov(b(x), x)/Var(u). For a smooth density this is about 1 - 2 t,
  with t the part of the variance within the bins; for a uniform one it is 1 - t.
- *Outcome.* The sets keep the covariance of the predictor with b(y), so a slope of y is multiplied
  by cov(b(y), y)/Var(y), if the mean of the predictor is linear in y. For a smooth density this is
  1, because middles that are too high in one part of the density are too low in another (Sheppard
  1898). It is below 1 if the density changes greatly within a bin, for example if most incomes are
  in the first bin.

E x and Var x are those of a density that is linear in each bin, with a slope estimated from the
neighbouring bins. The distance between mean and middle of a bin is then w^2/12 times the relative
slope, at most w/6. Where noise may explain the slope, the density is taken as constant. All of this
is public.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.methods.reconstruction.estimates.pooled_parts import pool
from dp_core.schema.decoding import legal_range
from dp_core.schema.definition import Column, Schema
from dp_core.wall.released import Released

WIDE = 0.05
"""Relative change of a slope by bins from which the report names a column."""
_SURE = 2.0
"""A density's slope is used if it differs from 0 by more than this many standard errors."""


@dataclass(frozen=True, slots=True)
class BinBias:
    """What bins do to estimates from the sets.

    Attributes:
        mean: Expected error of the mean, in the column's unit.
        deviation: Standard deviation of the column, in its unit.
        predictor: Factor of a slope on this column; 1 without bias.
        outcome: Factor of a slope of this column on others; 1 without bias.
    """

    mean: float
    deviation: float
    predictor: float
    outcome: float


def bin_bias(column: Column, counts: NDArray[np.float64], standard_error: float) -> BinBias | None:
    """Return the bias that the bins of a numeric column cause.

    Args:
        column: Column with public bins. None is returned for a column with levels, and for bins
            that were chosen privately, within which the values of sets follow the noisy counts.
        counts: Noisy counts of its codes, records; a last one for missing is ignored.
        standard_error: Standard error of a count due to noise, records.
    """
    if column.levels or column.choice is not None or column.bins < 1:
        return None
    low, high = _ends(column)
    width, middle = high - low, (low + high) / 2
    # Whole numbers are uniform over k = high - low + 1 values, with variance (k^2 - 1)/12.
    whole = column.kind != "number"
    within = (np.square(width + 1) - 1) / 12 if whole else np.square(width) / 12
    kept = np.maximum(counts[: column.bins], 0.0)
    if kept.sum() <= 0:
        return None
    share = kept / kept.sum()
    shift = _shifts(kept, width + whole, middle, standard_error) * within
    shift = np.clip(shift, -width / 6, width / 6)
    true, centre = middle + shift, float(share @ middle)
    mean = float(share @ true)
    between = float(share @ np.square(middle - centre))
    covariance = float(share @ ((middle - centre) * (true - mean)))
    # The variance of a linear density in a bin is that of the uniform one less the squared shift.
    variance = float(share @ (np.square(true - mean) + within - np.square(shift)))
    of_set = between + float(share @ within)
    if not (of_set > 0 and variance > 0):
        return None
    return BinBias(centre - mean, variance**0.5, covariance / of_set, covariance / variance)


def wide_bins(released: Sequence[Released], schema: Schema) -> tuple[str, ...]:
    """Return the columns whose bins alone change a slope on them or of them, as "age (-12 %)".

    The change is the larger of the two. Columns with a change below `WIDE` are left out.

    Args:
        released: Everything that was measured, of all sets.
        schema: Published schema.
    """
    found = []
    pooled = pool(schema.domain, released)
    for column in schema.columns:
        counts, variance = pooled.counts((column.name,)), pooled.variance((column.name,))
        if counts is None or variance is None:
            continue
        bias = bin_bias(column, counts, math.sqrt(variance))
        change = 0.0 if bias is None else min(bias.predictor, bias.outcome) - 1
        if change <= -WIDE:
            found.append(f"{column.name} ({100 * change:+.0f} %)")
    return tuple(found)


def _ends(column: Column) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the smallest and the largest value of each bin."""
    least, most = map(float, legal_range(column))
    edges = np.array([float(edge) for edge in column.edges])
    if column.kind == "number":
        return np.maximum(edges[:-1], least), np.minimum(edges[1:], most)
    return np.maximum(np.ceil(edges[:-1]), least), np.minimum(np.ceil(edges[1:]) - 1, most)


def _shifts(
    counts: NDArray[np.float64],
    width: NDArray[np.float64],
    middle: NDArray[np.float64],
    standard_error: float,
) -> NDArray[np.float64]:
    """Return the relative slope f'/f of the density in each bin; 0 where noise may explain it."""
    if counts.size < 2:
        return np.zeros_like(counts)
    density, noise = counts / width, standard_error / width
    before = np.maximum(np.arange(counts.size) - 1, 0)
    after = np.minimum(np.arange(counts.size) + 1, counts.size - 1)
    rise, apart = density[after] - density[before], middle[after] - middle[before]
    sure = np.abs(rise) > _SURE * np.hypot(noise[after], noise[before])
    with np.errstate(divide="ignore", invalid="ignore"):
        found = rise / apart / density
    return np.where(sure & (density > _SURE * noise) & (density > 0), found, 0.0)
