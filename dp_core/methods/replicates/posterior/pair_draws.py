"""Draws of a pair's table given what was observed of it and given the columns' tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.methods.replicates.centred_draws import centred_normals, systematic_choices
from dp_core.methods.replicates.posterior.agreement import KeptSum, clear_scores, with_margins
from dp_core.methods.replicates.posterior.known_sums import Condition, drawn_errors
from dp_core.methods.replicates.posterior.pair_prior import Component, Pair, conditional, given_sums
from dp_core.methods.replicates.posterior.truncation import (
    IN_SETS,
    Floats,
    central_counts,
    lowered,
    truncated,
    truncated_variance,
)

_LEAST_BELIEF = 1e-3  # smallest probability of a component that is used


@dataclass(frozen=True, slots=True, eq=False)
class PairPosterior:
    """The posterior distribution of a pair's deviation from independence.

    Attributes:
        pair: The pair.
        means: Mean of each coordinate under each component, shape (components, p - 1, q - 1).
        variances: Its variance under each component, same shape.
        belief: Probability of each component.
        mean: Mean of each cell's deviation, shape (p, q), in records.
        stddev: Its standard deviation, same shape.
        shift: Added to the means of small cells (`lowered`), same shape, not positive.
        possible: Whether each cell can have records, same shape; the others get none.
        given: The coordinates given sums that were measured apart, under each component; empty
            without such sums. `means` and `variances` are then given them.
    """

    pair: Pair
    means: Floats
    variances: Floats
    belief: Floats
    mean: Floats
    stddev: Floats
    shift: Floats
    possible: NDArray[np.bool_]
    given: tuple[Condition, ...] = ()

    @classmethod
    def of(
        cls,
        pair: Pair,
        components: Sequence[Component],
        belief: Floats,
        *,
        expected: Floats,
        possible: NDArray[np.bool_],
    ) -> PairPosterior:
        """Return the posterior of a pair under a learned prior.

        Args:
            pair: The pair.
            components: Components of the prior.
            belief: Their probabilities for this pair given all that was measured of it, shape
                (components,).
            expected: Counts without dependence, given the median margins, shape (p, q), in records.
            possible: Whether each cell can have records, shape (p, q).
        """
        kept = [int(at) for at in np.flatnonzero(belief > _LEAST_BELIEF)]
        belief = belief[kept] / belief[kept].sum()
        given: tuple[Condition, ...] = ()
        if pair.sums is None:
            each = [conditional(pair, components[at]) for at in kept]
        else:
            given = tuple(given_sums(pair, components[at]) for at in kept)
            shape = pair.one.values.size, pair.other.values.size
            each = [(one.mean.reshape(shape), one.variances.reshape(shape)) for one in given]
        means, variances = (np.array(found) for found in zip(*each, strict=True))
        mean = np.tensordot(belief, means, 1)
        variance = np.tensordot(belief, variances + means**2, 1) - mean**2
        spread = np.sqrt(np.maximum(pair.cell_variances(np.maximum(variance, 0.0)), 1e-18))
        cells = pair.table(mean)
        usual, shift = (expected + cells)[possible], np.zeros_like(cells)
        shift[possible] = lowered(usual, spread[possible], left=IN_SETS) - usual
        return cls(pair, means, variances, belief, cells, spread, shift, possible, given)

    def deviations(self, sets: int, rng: np.random.Generator) -> Floats:
        """Return one deviation for each set, shape (sets, p, q), in records; centred.

        Components are assigned to sets in proportion to their probabilities. The mean deviation of
        the sets is the posterior mean.

        Args:
            sets: Number of sets.
            rng: Generator; same state, same draws.
        """
        chosen = systematic_choices(self.belief, sets, rng)
        scores = centred_normals(sets, self.means.shape[1:], rng)
        drawn = self.means[chosen] + self._deviations(chosen, scores, rng)
        drawn = drawn - drawn.mean(axis=0)
        return np.asarray(self.mean + np.array([self.pair.table(each) for each in drawn]))

    def nonnegative_cells(
        self, expected: Floats, deviation: Floats | None
    ) -> tuple[Floats, Floats]:
        """Return the nonnegative cells of a draw, not yet with its margins, and their variances.

        The centre of a pair that was not measured is its mean: the median given that counts are not
        negative would invent dependence where much is unknown.

        Args:
            expected: Counts without dependence, given the draw's margins, shape (p, q), in records.
            deviation: The draw, same shape, in records; None for the centre.
        """
        usual = expected + self.mean
        mean = usual + self.shift
        left = truncated_variance(mean, self.stddev) * self.possible
        if deviation is not None:
            drawn = truncated(mean, self.stddev, (deviation - self.mean) / self.stddev)
        elif self.pair.observed is None:
            drawn = np.maximum(usual, 0.0)
        else:
            drawn = central_counts(usual, self.stddev, self.possible)
        return drawn * self.possible, left

    def _deviations(
        self, chosen: NDArray[np.int64], scores: Floats, rng: np.random.Generator
    ) -> Floats:
        """Return deviations of the coordinates from the means of the chosen components."""
        if self.pair.sums is None:
            return np.asarray(np.sqrt(self.variances[chosen]) * scores)
        sets = len(chosen)
        errors, flat = drawn_errors(self.pair.sums, sets, rng), scores.reshape(sets, -1)
        found = [
            self.given[component].deviations(flat[at : at + 1], errors[at : at + 1])
            for at, component in enumerate(chosen)
        ]
        return np.concatenate(found).reshape(scores.shape)


def pair_table(
    posterior: PairPosterior,
    deviation: Floats | None,
    *,
    expected: Floats,
    rows: Floats,
    columns: Floats,
    scores: tuple[Floats | None, Floats | None],
) -> Floats:
    """Return a set's nonnegative table of a pair, with the margins of the set.

    Truncation keeps the sum of the products of two columns' values. Where a column has no values,
    such as one of two levels, it keeps the pair's trend instead, if that was measured.

    Args:
        posterior: Posterior of the pair.
        deviation: The set's draw from it, shape (p, q), in records; None for the centre.
        expected: Counts without dependence, given the set's margins, shape (p, q).
        rows: The set's table of the first column, shape (p,).
        columns: The set's table of the second column, shape (q,).
        scores: Values of the levels of both columns; None for levels without values.
    """
    drawn, left = posterior.nonnegative_cells(expected, deviation)
    whole = expected + (posterior.mean if deviation is None else deviation)
    kept = _product(whole, rows, columns, scores, posterior.stddev**2)
    if kept is None and posterior.pair.sums is not None and len(posterior.pair.sums.weights) == 1:
        (weights,) = posterior.pair.sums.weights
        kept = weights, float((weights * whole).sum())
    return with_margins(drawn, left, rows, columns, kept)


def _product(
    table: Floats,
    rows: Floats,
    columns: Floats,
    scores: tuple[Floats | None, Floats | None],
    variances: Floats,
) -> KeptSum | None:
    """Return the sum of the products of two columns' values, which truncation must not change.

    Values are cut to what stands out from noise (`clear_scores`). Without values of both columns,
    there is nothing to keep.
    """
    one, other = scores
    if one is None or other is None:
        return None
    first = clear_scores(one, rows, variances.sum(axis=1))
    second = clear_scores(other, columns, variances.sum(axis=0))
    if first is None or second is None:
        return None
    product = np.multiply.outer(_standard(first, rows), _standard(second, columns))
    return product, float((product * table).sum())


def _standard(scores: Floats, counts: Floats) -> Floats:
    """Return centred scores, the largest of size 1."""
    apart = scores - float(scores @ counts) / max(float(counts.sum()), 1e-9)
    return np.asarray(apart / max(float(np.abs(apart).max()), 1e-12))
