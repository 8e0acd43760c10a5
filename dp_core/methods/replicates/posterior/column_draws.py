"""Draws of one-way tables given the noisy ones.

The prior is flat on nonnegative counts. A prior learned from the column's other levels would make
sets slightly more accurate, but intervals of a rare level among many empty ones would cover less
often.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dp_core.kernel.counting.domain import Domain
from dp_core.methods.reconstruction.estimates.pooled_parts import Pooled
from dp_core.methods.replicates.centred_draws import centred_normals
from dp_core.methods.replicates.posterior.agreement import with_total
from dp_core.methods.replicates.posterior.known_sums import Condition, KnownSums, drawn_errors
from dp_core.methods.replicates.posterior.truncation import (
    Floats,
    central_counts,
    truncated,
    truncated_variance,
)
from dp_core.schema.structure.structural_zeros import StructuralZeros

Told = tuple[Floats, float | Floats]
"""A noisy table, in records, and the variance of its cells or coordinates, in records squared: one
for all, or an array that broadcasts to the table."""


@dataclass(frozen=True, slots=True, eq=False)
class ColumnDraws:
    """Draws of a column's one-way table.

    Attributes:
        middle: Centre of the draws, shape (levels,), in records; it sums to the estimated total.
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


def with_geometric_tails(counts: Floats, scores: Floats | None) -> Floats:
    """Return noisy counts that fall towards the ends of a column, where noise hides its levels.

    A few records of noise far out change the moments of a number more than all others. So beyond
    the last level that stands out, the counts continue it as a geometric series with the same sum.

    Args:
        counts: Noisy counts, shape (levels,), in records.
        scores: Values of the levels, which ascend but for a missing one, cut to those of levels
            that stand out (`clear_scores`); None for levels without values, whose counts stay.
    """
    if scores is None:
        return counts
    found = counts.copy()
    for tail in (
        np.flatnonzero(scores == scores.min())[::-1],
        np.flatnonzero(scores == scores.max()),
    ):
        left, last = max(float(counts[tail[1:]].sum()), 0.0), max(float(counts[tail[0]]), 1.0)
        series = (left / (left + last)) ** np.arange(1, tail.size)
        found[tail[1:]] = left * series / max(float(series.sum()), 1e-300)
    return found


def draw_column(
    domain: Domain,
    measured: Told | None,
    *,
    total: float,
    totals: Floats,
    zeros: StructuralZeros,
    scores: Floats | None,
    sums: KnownSums | None = None,
    rng: np.random.Generator,
) -> ColumnDraws:
    """Return draws of a column's one-way table; an unmeasured column is uniform in all sets.

    Args:
        domain: Domain of the column alone.
        measured: Its noisy counts and their variance; None if they were not measured.
        total: Estimated number of records.
        totals: Number of records of each set, shape (sets,).
        zeros: Impossible cells; levels that cannot occur get no records.
        scores: Value of each level, shape (levels,), whose mean is kept; None for levels without
            values.
        sums: Noisy sums of the counts that were measured apart, which are kept as well; None (the
            default) without any.
        rng: Generator; same state, same draws.
    """
    possible = ~zeros.mask(domain)
    if measured is None:
        even = possible / max(int(possible.sum()), 1)
        return ColumnDraws(total * even, np.multiply.outer(totals, even))
    counts = measured[0]
    spread = np.sqrt(np.maximum(np.broadcast_to(measured[1], counts.shape), 0.0))
    left = truncated_variance(counts, spread) * possible
    noise = centred_normals(len(totals), counts.shape, rng)
    if sums is not None:
        given = Condition.of(counts, spread**2, sums.weights, sums)
        counts, spread = given.mean, np.sqrt(given.variances)
        off = given.deviations(noise, drawn_errors(sums, len(totals), rng))
        noise = off / np.maximum(spread, 1e-9)
        left = truncated_variance(counts, spread) * possible
    drawn = truncated(counts, spread, noise) * possible
    middle = central_counts(with_geometric_tails(counts, scores), spread, possible)

    def settled(values: Floats, before: Floats, size: float) -> Floats:
        if scores is None:
            return with_total(values, left, size)
        # The sum of centred scores does not depend on the total.
        centre = float(middle @ scores) / max(float(middle.sum()), 1e-9)
        apart = (scores - centre) / max(float(np.abs(scores - centre).max()), 1e-12) * possible
        kept = [(apart, float(apart @ before))]
        if sums is not None:
            kept += [(each, float(each @ before)) for each in sums.weights * possible]
        return with_total(values, left, size, kept)

    return ColumnDraws(
        settled(middle, counts, total),
        np.array(
            [
                settled(values, counts + spread * scaled, size)
                for values, scaled, size in zip(drawn, noise, totals, strict=True)
            ]
        ),
    )
