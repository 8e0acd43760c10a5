"""Noisy empirical distribution functions: cumulative counts from a tree, made monotone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import Totals
from dp_core.methods.parametric.column_histograms import (
    ColumnHistograms,
    Estimated,
    ask_tree,
    estimate_tree,
)
from dp_core.methods.parametric.synthesizer import Ask
from dp_core.schema.variables import Variable

BRANCHING = 8
"""Number of intervals of a level in one of the level above. Cumulative counts of 256 bins then add
counts of three levels, and 8 to 16 is best for ranges (Qardaji, Yang & Li 2013)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyECDF(ColumnHistograms):
    """Draw each column from its noisy empirical distribution function.

    Wasserman & Zhou (2010; section 3.1.2 of Bowen & Liu 2020) draw a whole set by the exponential
    mechanism from all sets, by the largest distance of the distribution functions, which the survey
    calls infeasible. Here noisy counts give the distribution function. Noise on the cumulative
    counts themselves would have the scale K/epsilon for K bins, because a record is in up to K of
    them; sums of noisy bins have a variance that grows with the number of bins. Counts of nested
    intervals (a tree) give every cumulative count as the sum of few noisy counts (Hay et al. 2010).
    They are combined by least squares, added up, made monotone by isotonic regression, and
    inverted.
    """

    bins: ClassVar[int] = 256

    def ask_column(self, variable: Variable) -> tuple[Ask, ...]:
        return ask_tree(variable, self.edges(variable), BRANCHING)

    def estimate(
        self, variable: Variable, released: Sequence[Totals], rows: float | None
    ) -> Estimated:
        found = estimate_tree(variable, released, BRANCHING, rows=rows, bounded=False)
        if rows is None:
            return found
        steps = np.diff(monotone(np.cumsum(found.values), rows), prepend=0.0)
        return Estimated(found.edges, steps, found.missing, found.variance)


def monotone(cumulative: NDArray[np.float64], total: float) -> NDArray[np.float64]:
    """Return the nearest nondecreasing function in squares, from 0 to `total`, which it ends at.

    >>> monotone(np.array([1.0, 4.0, 2.0, 9.0, 7.0]), 8.0).tolist()
    [1.0, 3.0, 3.0, 8.0, 8.0]
    """
    from scipy.optimize import isotonic_regression

    found = np.clip(isotonic_regression(cumulative).x, 0.0, total)
    found[-1] = total
    return np.asarray(found)


METHOD = NoisyECDF
