"""The dependence scores of pairs, and the one-way tables that are known beforehand."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dp_core.methods.selection.selector import Dependences
from dp_core.tables.domain import Clique, Domain
from dp_core.tables.structural_zeros import StructuralZeros
from dp_core.wall.released import Measurement
from dp_core.wall.statistics import InDif

if TYPE_CHECKING:
    from dp_core.wall.curator import Curator


def pairs_up_to(domain: Domain, max_cells: int) -> tuple[Clique, ...]:
    """Return all pairs of columns with at most `max_cells` cells."""
    pairs = itertools.combinations(domain.columns, 2)
    return tuple(pair for pair in pairs if domain.size(pair) <= max_cells)


def dependences(cliques: Sequence[Clique]) -> InDif | None:
    """Return the statistic of each pair's dependence, or None if there is no pair."""
    pairs = tuple((one, two) for one, two in cliques)
    return InDif(pairs) if pairs else None


def ask_dependences(curator: Curator, statistic: InDif, cost: Fraction) -> Dependences:
    """Return the noisy dependence of each pair, charged to the stage `select`."""
    noisy = curator.perturb("select", "indif", statistic, cost)
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
