"""Draws of one-way tables given the noisy ones.

The prior is flat on nonnegative counts, but for the ends of numbers (`hidden_tails`). A prior
learned from a column's other levels would make sets slightly more accurate, but intervals of a rare
level among many empty ones would cover less often.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dp_core.kernel.counting.domain import Domain
from dp_core.methods.reconstruction.estimates.pooled_parts import Pooled
from dp_core.methods.replicates.centred_draws import centred_normals
from dp_core.methods.replicates.hidden_tails import prior_means
from dp_core.methods.replicates.posterior.agreement import with_total
from dp_core.methods.replicates.posterior.known_sums import Condition, KnownSums, drawn_errors
from dp_core.methods.replicates.posterior.truncation import (
    Floats,
    central_counts,
    truncated,
    truncated_mean,
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


def draw_column(
    domain: Domain,
    measured: Told | None,
    *,
    total: float,
    totals: Floats,
    zeros: StructuralZeros,
    values: Floats | None,
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
        values: Value of each level, shape (levels,), NaN for missing; None for levels without
            values. Where noise hides the ends of their range, counts fall (`hidden_tails`).
        sums: Noisy sums of the counts that were measured apart, which are kept; None (the default)
            without any.
        rng: Generator; same state, same draws.
    """
    possible = ~zeros.mask(domain)
    if measured is None:
        even = possible / max(int(possible.sum()), 1)
        return ColumnDraws(total * even, np.multiply.outer(totals, even))
    counts = measured[0]
    spread = np.sqrt(np.maximum(np.broadcast_to(measured[1], counts.shape), 0.0))
    noise = centred_normals(len(totals), counts.shape, rng)
    if sums is not None:
        given = Condition.of(counts, spread**2, sums.weights, sums)
        counts, spread = given.mean, np.sqrt(given.variances)
        off = given.deviations(noise, drawn_errors(sums, len(totals), rng))
        noise = off / np.maximum(spread, 1e-9)
    order = np.empty(0, dtype=np.intp)
    if values is not None:
        order = np.argsort(values, kind="stable")
        order = order[(possible & ~np.isnan(values))[order]]
    prior = prior_means(counts, spread, order, len(totals), rng)
    flat = np.isinf(prior.middle)
    # With an exponential prior of mean m, the mean before truncation falls by the variance over m.
    central = counts - spread**2 / prior.middle
    middle = central_counts(counts, spread, possible & flat)
    middle[~flat] = truncated_mean(central, spread)[~flat]
    drawn = truncated(counts - spread**2 / prior.draws, spread, noise) * possible
    usual = counts - spread**2 / prior.draws.mean(axis=0)
    left = truncated_variance(usual, spread) * possible
    weights = [] if sums is None else list(sums.weights * possible)

    def agreeing(cells: Floats, left: Floats, before: Floats, size: float) -> Floats:
        """Return counts near `cells` with their total, and with the sums of `before`."""
        kept = [(each, float(each @ before)) for each in weights]
        return with_total(cells, left, size, kept)

    return ColumnDraws(
        agreeing(middle, truncated_variance(central, spread) * possible, counts, total),
        np.array(
            [
                agreeing(cells, left, counts + spread * scaled, size)
                for cells, scaled, size in zip(drawn, noise, totals, strict=True)
            ]
        ),
    )
