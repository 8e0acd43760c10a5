"""The dependence scores of pairs, and the one-way tables that are known beforehand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import Measurement
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.extensions.indif import InDif
from dp_core.methods.selection.budget.dependence import expected_dependence
from dp_core.methods.selection.selector import Dependences
from dp_core.schema.structure.structural_zeros import StructuralZeros
from dp_core.tables.cliques import cliques_of

if TYPE_CHECKING:
    from dp_core.client.curator import Curator

INDIF = "indif"
"""Step of the dependences of pairs."""
DISTANCES = "distances"
"""Step of the distances of pairs from the products of noisy one-way tables."""
MOST_CELLS = 2**20
"""Largest number of cells of a pair: 8 MB of counts. In larger ones, noise outweighs counts."""


def pairs_up_to(domain: Domain, max_cells: int = MOST_CELLS) -> tuple[Clique, ...]:
    """Return all pairs of columns with at most `max_cells` cells."""
    sizes = dict(zip(domain.columns, domain.sizes, strict=True))
    pairs = cliques_of(domain, 2)
    return tuple((one, two) for one, two in pairs if sizes[one] * sizes[two] <= max_cells)


def dependences(cliques: Sequence[Clique]) -> InDif | None:
    """Return the statistic of each pair's dependence, or None if there is no pair."""
    pairs = tuple((one, two) for one, two in cliques)
    return InDif(pairs) if pairs else None


@dataclass(frozen=True, slots=True)
class Look:
    """What a private look at pairs found. Public.

    Attributes:
        dependence: Expected L1 distance of pairs from independence, in records.
        asked: The noisy dependences; None if there is no pair.
        typical: Expected distance of the other pairs, without sampling deviations, in records; None
            if the look was at all pairs.
    """

    dependence: Mapping[Clique, float]
    asked: Dependences | None = None
    typical: float | None = None


def look(
    curator: Curator,
    domain: Domain,
    statistic: InDif | None,
    cost: Fraction,
    rows: float,
) -> Look:
    """Return the expected dependences of pairs, whose noisy scores the stage `select` pays for.

    Args:
        curator: The only way to ask about the data.
        domain: All columns.
        statistic: The scores; nothing is asked if it is None.
        cost: Budget of all scores together, in the release's currency.
        rows: Number of records.
    """
    if statistic is None:
        return Look({})
    asked = ask_dependences(curator, statistic, cost)
    noisy = np.array(asked.values, dtype=np.float64)
    most = most_dependent(domain, asked.pairs, rows)
    found = np.minimum(expected_dependence(noisy, asked.stddev, rows), most)
    return Look(dict(zip(asked.pairs, found.tolist(), strict=True)), asked)


def most_dependent(domain: Domain, pairs: Sequence[Clique], rows: float) -> NDArray[np.float64]:
    """Return how far from independence a pair of such columns can be, in records, positive."""
    smaller = np.array([min(domain.project(pair).sizes) for pair in pairs])
    return np.asarray(np.maximum(2 * rows * (1 - 1 / smaller), 1e-9))


def ask_dependences(
    curator: Curator, statistic: InDif, cost: Fraction, *, step: str = INDIF
) -> Dependences:
    """Return the noisy dependence of each pair, charged to the stage `select`.

    Args:
        curator: The only way to ask about the data.
        statistic: The scores.
        cost: Budget of all scores together, in the release's currency.
        step: Name of the step; by default that of the scores by which tables are chosen.
    """
    noisy = curator.perturb("select", step, statistic, cost)
    stddev = curator.statistic_noise(statistic, cost).stddev
    return Dependences(statistic.pairs, tuple(noisy.tolist()), stddev)


def one_way_tables(
    domain: Domain, known: Sequence[Measurement]
) -> list[tuple[NDArray[np.float64], float]]:
    """Return each column's estimated table, nonnegative, and the precision of its cells."""
    from dp_core.methods.reconstruction.estimates.consistency import column_tables

    tables, _ = column_tables(domain, known, rows=None, zeros=StructuralZeros())
    found = []
    for table, column in zip(tables, domain.columns, strict=True):
        precision = sum(
            table.values.size / (measurement.values.size * measurement.variance)
            for measurement in known
            if column in measurement.clique
        )
        found.append((table.values, precision))
    return found
