"""Draws of measured tables of three columns and more, given the tables of pairs.

The prior expects a table to follow from its smaller tables, without an interaction of all its
columns. The noisy deviations from this are shrunk cell by cell, under a prior learned from the
cells (`estimates.residual_belief`). The draws have the variance that remains after shrinkage.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.methods.reconstruction.estimates.pooled_parts import Pooled
from dp_core.methods.reconstruction.estimates.raking import Margin, rake
from dp_core.methods.reconstruction.estimates.residual_belief import posterior_residual
from dp_core.methods.replicates.centred_draws import centred_normals
from dp_core.methods.replicates.posterior.truncation import (
    IN_SETS,
    Floats,
    central_counts,
    lowered,
    truncated,
)
from dp_core.schema.structure.structural_zeros import StructuralZeros

_LOG = logging.getLogger(__name__)
MOST_CELLS = 1 << 20
"""Largest number of cells of a table that is drawn; a larger table follows from its pairs."""
_RAKING_ROUNDS = 30
_BYTES = 500  # of each cell, in arrays of the widths of the prior


@dataclass(frozen=True, slots=True, eq=False)
class LargerDraws:
    """Measured cliques of three columns and more, and their measurements.

    Attributes:
        domain: All columns.
        pooled: All measurements.
        zeros: Impossible cells.
        cliques: The cliques, smaller ones first.
    """

    domain: Domain
    pooled: Pooled
    zeros: StructuralZeros
    cliques: tuple[Clique, ...]

    @classmethod
    def of(cls, domain: Domain, pooled: Pooled, zeros: StructuralZeros) -> LargerDraws:
        """Return the measured cliques that are small enough."""
        tables = [table.clique for table in pooled.tables]
        measured = dict.fromkeys([*tables, *pooled.interactions])
        larger = [clique for clique in measured if len(clique) > 2]
        kept = [clique for clique in larger if domain.size(clique) <= MOST_CELLS]
        if len(kept) < len(larger):
            # They are already paid for, so their pairs are better than nothing.
            _LOG.warning(
                "Tables of more than %d cells are used through their pairs only: %d.",
                MOST_CELLS,
                len(larger) - len(kept),
            )
        return cls(domain, pooled, zeros, tuple(sorted(kept, key=lambda c: (len(c), c))))

    def draw(
        self,
        number: int,
        sets: int,
        smaller: Mapping[Clique, Floats],
        *,
        rng: np.random.Generator,
    ) -> dict[Clique, Floats]:
        """Return a set's tables of the cliques; they nearly agree with the smaller ones.

        Args:
            number: Number of the set, from 1.
            sets: Number of sets.
            smaller: The set's tables of columns and pairs.
            rng: Generator, in the same state for every set, because the draws are centred together.
        """
        done = dict(smaller)
        found: dict[Clique, Floats] = {}
        for clique in self.cliques:
            scores = centred_normals(sets, self.domain.project(clique).sizes, rng)[number - 1]
            found[clique] = done[clique] = self._table(clique, done, scores)
        return found

    def middle(self, smaller: Mapping[Clique, Floats]) -> dict[Clique, Floats]:
        """Return the centre of the larger cliques' tables; it nearly agrees with the smaller ones.

        Args:
            smaller: Central tables of columns and pairs.
        """
        done = dict(smaller)
        found: dict[Clique, Floats] = {}
        for clique in self.cliques:
            found[clique] = done[clique] = self._table(clique, done, None)
        return found

    def _table(
        self, clique: Clique, done: Mapping[Clique, Floats], scores: Floats | None
    ) -> Floats:
        """Return a draw of a clique's table with these scores; for None, the centre."""
        possible = ~self.zeros.mask(self.domain.project(clique))
        margins = _margins(clique, done)
        expected = rake(possible.astype(np.float64), clique, margins, rounds=_RAKING_ROUNDS)
        residual, variance = self.pooled.beyond_pairs(clique, expected)
        mean, spread = posterior_residual(residual, variance, expected)
        usual = expected + mean
        if scores is None:
            drawn = central_counts(usual, spread, possible)
        else:
            drawn, spread = np.zeros_like(expected), spread[possible]
            usual = lowered(usual[possible], spread, left=IN_SETS)
            drawn[possible] = truncated(usual, spread, scores[possible])
        return rake(drawn, clique, margins, rounds=_RAKING_ROUNDS)


def working_memory(domain: Domain, cliques: Sequence[Clique]) -> int:
    """Return about how many bytes the table with the most cells takes while it is estimated.

    Args:
        domain: All columns.
        cliques: Measured cliques; those that are not estimated here are ignored.
    """
    sizes = [domain.size(clique) for clique in cliques if len(clique) > 2]
    return _BYTES * max((size for size in sizes if size <= MOST_CELLS), default=0)


def _margins(clique: Clique, done: Mapping[Clique, Floats]) -> list[Margin]:
    """Return the tables of subsets of a clique, none of which is a subset of another."""
    found: list[Clique] = []
    for size in range(len(clique) - 1, 0, -1):
        for subset in itertools.combinations(clique, size):
            if subset in done and not any({*subset} <= {*other} for other in found):
                found.append(subset)
    return [(subset, done[subset]) for subset in found]
