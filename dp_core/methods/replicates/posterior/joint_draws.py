"""Draws of the table of all columns, if it is the only one that was measured.

All other tables are its margins. If columns and pairs were estimated first, as usual, they would
ignore that no cell of this table is negative, which says much where most cells are nearly empty.
The prior of a cell is learned from all cells (empirical Bayes).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dp_core.client.released import Table
from dp_core.kernel.counting.domain import Domain
from dp_core.methods.mixture_weights import mixture_beliefs
from dp_core.methods.reconstruction.estimates.pooled_parts import Pooled
from dp_core.methods.reconstruction.estimates.raking import margin
from dp_core.methods.replicates.centred_draws import centred_normals, stratified_uniforms
from dp_core.methods.replicates.posterior.agreement import with_total
from dp_core.methods.replicates.posterior.truncation import (
    Floats,
    log_exponential_density,
    truncated,
    truncated_mean,
    truncated_variance,
)
from dp_core.schema.structure.structural_zeros import StructuralZeros
from dp_core.tables.cliques import cliques_of

_MOST_CELLS = 1 << 17
_PARTS = 14  # of the prior
_LEAST = 0.05  # mean of the first part, in standard deviations of the noise
_ROUNDS = 100  # of the EM algorithm


@dataclass(frozen=True, slots=True, eq=False)
class JointDraws:
    """Draws of the table of all columns.

    Attributes:
        domain: All columns.
        middle: Centre of the draws, shape `domain.sizes`, in whole records.
        draws: Draws of the sets, shape (sets, *domain.sizes), in whole records.
    """

    domain: Domain
    middle: Floats
    draws: Floats

    @classmethod
    def of(
        cls,
        pooled: Pooled,
        zeros: StructuralZeros,
        *,
        total: float,
        totals: Floats,
        rng: np.random.Generator,
    ) -> JointDraws:
        """Return the draws.

        Args:
            pooled: All measurements: one table, of all columns (`is_alone`).
            zeros: Impossible cells.
            total: Estimated number of records.
            totals: Number of records of each set, shape (sets,).
            rng: Generator; same state, same draws.
        """
        domain, (table,) = pooled.domain, pooled.tables
        possible = ~zeros.mask(domain)
        counts = np.asarray(table.values, dtype=np.float64)[possible]
        stddev = np.sqrt(table.variance)
        means, weights = _learned_prior(counts, stddev)
        lowered = counts[:, None] - stddev**2 / means
        noise = np.broadcast_to(stddev, lowered.shape)
        each = truncated_mean(lowered, noise)
        middle = (weights * each).sum(axis=1)
        squares = (weights * (truncated_variance(lowered, noise) + each**2)).sum(axis=1)
        left = squares - middle**2
        sets = len(totals)
        places = stratified_uniforms(sets, counts.size, rng)
        beyond = places[:, :, None] > np.cumsum(weights, axis=1)
        chosen = np.minimum(beyond.sum(axis=2), means.size - 1)
        scores = centred_normals(sets, counts.shape, rng)
        drawn = truncated(counts - stddev**2 / means[chosen], np.full(scores.shape, stddev), scores)
        found = np.zeros((sets + 1, *domain.sizes))
        for at, (cells, size) in enumerate(
            zip((middle, *drawn), (total, *totals.tolist()), strict=True)
        ):
            found[at][possible] = _whole(with_total(cells, left, size), rng)
        return cls(domain, found[0], found[1:])

    def tables(self, number: int) -> tuple[Table, ...]:
        """Return the one-way tables, those of pairs, and the table of all columns, which is last.

        Args:
            number: Number of the set, from 1; 0 for the centre.
        """
        whole = Table(self.domain, self.draws[number - 1] if number else self.middle)
        sizes = range(1, min(len(self.domain), 3))
        cliques = (each for size in sizes for each in cliques_of(self.domain, size))
        return (*(Table(self.domain.project(each), margin(whole, each)) for each in cliques), whole)


def _learned_prior(counts: Floats, stddev: float) -> tuple[Floats, Floats]:
    """Return the parts of the cells' prior, and the probability of each part for each cell.

    The prior is a mixture of exponential ones; all cells tell the weights of its parts (EM).

    Args:
        counts: Noisy counts, shape (cells,), in records.
        stddev: Standard deviation of their noise, in records.

    Returns:
        Means of the parts, shape (parts,), in records; posterior probabilities, shape (cells,
        parts).
    """
    least = max(_LEAST * stddev, 1e-6)
    means = np.geomspace(least, max(float(counts.max(initial=0.0)), 4 * stddev, 2 * least), _PARTS)
    densities = log_exponential_density(counts[:, None], np.array(stddev), means)
    even = np.full(_PARTS, 1 / _PARTS)
    return means, mixture_beliefs(densities, even, worth=1.0, rounds=_ROUNDS - 1)


def _whole(cells: Floats, rng: np.random.Generator) -> Floats:
    """Return whole counts whose sum is that of the cells, rounded.

    The largest remainders are rounded up. Many cells have the same, of which chance decides.
    """
    found = np.floor(cells)
    short = round(float(cells.sum())) - int(found.sum())
    remainders = np.round(cells - found, 9)
    found[np.lexsort((rng.random(cells.size), -remainders))[:short]] += 1
    return found


def is_alone(pooled: Pooled) -> bool:
    """Return whether only the table of all columns was measured, with few enough cells."""
    tables, domain = pooled.tables, pooled.domain
    return (
        domain.nested is None
        and domain.linked is None
        and len(domain) > 1
        and len(tables) == 1
        and not pooled.interactions
        and set(tables[0].clique) == set(domain.columns)
        and domain.size() <= _MOST_CELLS
    )
