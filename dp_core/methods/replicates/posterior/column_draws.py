"""Draws of one-way tables given the noisy ones.

The prior is flat on counts that are not negative. A prior learned from the column's other levels
would make sets a little more accurate, but would cover a rare level among many empty ones less
often.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dp_core.methods.reconstruction.estimates.pooled_parts import Pooled
from dp_core.methods.replicates.centred_draws import centred_normals
from dp_core.methods.replicates.posterior.agreement import with_total
from dp_core.methods.replicates.posterior.truncation import Floats, truncated, truncated_variance
from dp_core.tables.structural_zeros import StructuralZeros


@dataclass(frozen=True, slots=True, eq=False)
class ColumnDraws:
    """Draws of a column's one-way table.

    Attributes:
        middle: Median draw, shape (levels,), in records; it sums to the estimated total.
        draws: Draws of the sets, shape (sets, levels), in records; each sums to its set's total.
    """

    middle: Floats
    draws: Floats


def draw_total(pooled: Pooled, sets: int, rng: np.random.Generator) -> tuple[float, Floats]:
    """Return the estimated number of records, at least 1, and each set's draw of it.

    Args:
        pooled: All measurements; their total is exact if it is public.
        sets: Number of sets.
        rng: Generator; same state, same draws.
    """
    total, variance = pooled.total()
    total = max(total, 1.0)
    if not variance:
        return total, np.full(sets, total)
    spread = np.asarray([variance**0.5])
    scores = centred_normals(sets, (1,), rng)
    return total, np.maximum(truncated(np.asarray([total]), spread, scores)[:, 0], 1.0)


def draw_column(
    pooled: Pooled,
    name: str,
    *,
    total: float,
    totals: Floats,
    zeros: StructuralZeros,
    rng: np.random.Generator,
) -> ColumnDraws:
    """Return draws of a column's one-way table; an unmeasured column is uniform in all sets.

    Args:
        pooled: All measurements.
        name: The column.
        total: Estimated number of records.
        totals: Number of records of each set, shape (sets,).
        zeros: Impossible cells; levels that cannot occur get no records.
        rng: Generator; same state, same draws.
    """
    domain = pooled.domain.project((name,))
    possible = ~zeros.mask(domain)
    counts, variance = pooled.counts((name,)), pooled.variance((name,))
    if counts is None or variance is None:
        even = possible / max(int(possible.sum()), 1)
        return ColumnDraws(total * even, np.multiply.outer(totals, even))
    spread = np.full(counts.shape, max(variance, 0.0) ** 0.5)
    left = truncated_variance(counts, spread) * possible
    scores = centred_normals(len(totals), counts.shape, rng)
    drawn = truncated(counts, spread, scores) * possible
    middle = truncated(counts, spread, np.zeros(counts.shape)) * possible
    return ColumnDraws(
        with_total(middle, left, total),
        np.array([with_total(each, left, size) for each, size in zip(drawn, totals, strict=True)]),
    )
