"""How far public totals are from the noisy tables. Post-processing: the file is not asked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dp_core.methods.reconstruction.estimates.pooled_parts import Pooled
from dp_core.tables.public_totals import PublicTotals

_FAR = 0.05
"""Least TVD that is far, if noise does not explain it."""
_TIMES = 3.0
"""How many times the TVD from noise alone a TVD must be to be far."""


@dataclass(frozen=True, slots=True)
class TotalsDistance:
    """The distance of a column's public totals from its noisy counts.

    Attributes:
        column: The column.
        tvd: TVD of their proportions, 0 to 1.
        expected: TVD that noise alone would give, about.
    """

    column: str
    tvd: float
    expected: float

    @property
    def is_far(self) -> bool:
        """Whether noise does not explain the distance, so that relations of sets are distorted."""
        return self.tvd > max(_FAR, _TIMES * self.expected)


def totals_distances(totals: Sequence[PublicTotals], pooled: Pooled | None) -> list[TotalsDistance]:
    """Return the distance of each list of totals whose column was measured.

    Args:
        totals: The public totals.
        pooled: All measurements; None if they cannot be pooled.
    """
    found = []
    for each in totals if pooled is not None else ():
        assert pooled is not None
        counts, variance = pooled.counts((each.column,)), pooled.variance((each.column,))
        if counts is None or variance is None:
            continue
        known = np.maximum(counts, 0.0)
        records = max(float(known.sum()), 1.0)
        shares = np.array(each.counts) / each.records
        tvd = float(np.abs(known / records - shares).sum()) / 2
        # The mean of the absolute value of a normal error.
        error = math.sqrt(2 * max(variance, 0.0) / math.pi) / records
        found.append(TotalsDistance(each.column, tvd, min(1.0, counts.size * error / 2)))
    return found
