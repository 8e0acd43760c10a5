"""Bias that bins alone cause, without any noise: means, and slopes on or of a numeric column.

The values of a set within a bin are drawn from the bin's density and are independent of everything
else there. With x a value, b(x) the mean of its bin in the sets and u the value in a set:

- *Mean.* E u = E b(x), so the error of the mean is E b(x) - E x. It is 0 if the values of a set
  follow the fitted density; where they are uniform and the density falls within a bin, the mean of
  its records is below its middle.
- *Predictor.* The sets keep cov(b(x), y). So a slope on x is multiplied by cov(b(x), x)/Var(u).
  With t the part of the variance within the bins, this is 1 - t with the fitted density, and about
  1 - 2 t for uniform values of a smooth density.
- *Outcome.* The sets keep the covariance of the predictor with b(y), so a slope of y is multiplied
  by cov(b(y), y)/Var(y), if the mean of the predictor is linear in y. With the fitted density this
  is 1 - t. For uniform values of a smooth density it is 1, because middles that are too high in one
  part of the density are too low in another (Sheppard 1898).

E x and Var x are those of the density that is fitted to the noisy counts
(`dp_core.methods.bin_density`), whether or not the sets follow it. All of this is public.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.released import Released
from dp_core.methods.bin_density.fitting import MOST_BINS, fit_pieces
from dp_core.methods.reconstruction.estimates.pooled_parts import pool
from dp_core.schema.bin_values import BinValues
from dp_core.schema.definition import Column, Schema

WIDE = 0.05
"""Relative change of a slope by bins from which the report names a column."""


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
    if column.levels or column.choice is not None or not 1 <= column.bins <= MOST_BINS:
        return None
    kept = np.maximum(counts[: column.bins], 0.0)
    if kept.sum() <= 0:
        return None
    share = kept / kept.sum()
    of_set, true = BinValues.of(column), _as_fitted(column, counts, standard_error)
    mean, spread = true.mean() / true.steps, true.variance() / true.steps**2
    middle, even = of_set.mean() / of_set.steps, of_set.variance() / of_set.steps**2
    centre, centre_of_set = float(share @ mean), float(share @ middle)
    covariance = float(share @ ((middle - centre_of_set) * (mean - centre)))
    variance = float(share @ (np.square(mean - centre) + spread))
    variance_of_set = float(share @ (np.square(middle - centre_of_set) + even))
    if not (variance_of_set > 0 and variance > 0):
        return None
    return BinBias(
        centre_of_set - centre,
        variance**0.5,
        covariance / variance_of_set,
        covariance / variance,
    )


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


def _as_fitted(column: Column, counts: NDArray[np.float64], standard_error: float) -> BinValues:
    """Return the values within the bins if they follow the density fitted to noisy counts."""
    pieces = fit_pieces(column, counts, standard_error**2)
    return BinValues.of(dataclasses.replace(column, pieces=pieces))
