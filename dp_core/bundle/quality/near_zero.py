"""Which counts are too near to zero, for their noise, to be estimated without bias.

A synthetic file has no negative counts, so what is noisy around nothing is moved up and the rest
down. For a count of less than three standard errors that shows: intervals of such a share covered
in 90 to 93 of 100 measurements in place of 95 (`docs/noise-aware.md`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from dp_core.methods.reconstruction.estimates.consistency import estimates
from dp_core.tables.domain import Clique, Domain
from dp_core.tables.structural_zeros import StructuralZeros
from dp_core.wall.released import Released, tables_of

STANDARD_ERRORS = 3.0


@dataclass(frozen=True, slots=True)
class NearZero:
    """A count that hardly stands out of its noise. Public: it comes from noisy tables only.

    Attributes:
        clique: Columns.
        codes: One for each of them.
        count: What all tables say together, records; may be negative.
        standard_error: Of its noise, records.
    """

    clique: Clique
    codes: tuple[int, ...]
    count: float
    standard_error: float


def counts_near_zero(
    domain: Domain,
    released: Sequence[Released],
    cliques: Iterable[Clique],
    *,
    zeros: StructuralZeros,
    times: float = STANDARD_ERRORS,
) -> tuple[NearZero, ...]:
    """Return the cells of some cliques whose counts are below `times` their standard errors.

    Args:
        domain: All columns.
        released: Of one measurement; noisy tables are used.
        cliques: Columns by themselves, or a regression's outcome with each predictor. One that no
            table holds has no count and is left out.
        zeros: Impossible cells; they are empty for certain.
        times: Standard errors.
    """
    tables = estimates(domain, tables_of(released), zeros=zeros)
    found = []
    for clique in cliques:
        ordered = tuple(name for name in domain.columns if name in clique)
        holders = [table for table in tables if set(ordered) <= set(table.clique)]
        if not holders or not ordered:
            continue
        precision = np.zeros(domain.project(ordered).sizes)
        weighted, possible = precision.copy(), ~zeros.mask(domain.project(ordered))
        for table in holders:
            values, cells = table.project(ordered)
            weight = 1 / (table.variance * np.maximum(cells, 1))
            precision += weight
            weighted += weight * values
            possible &= cells > 0
        count = weighted / precision
        low = possible & (count < times / np.sqrt(precision))
        found += [
            NearZero(
                ordered,
                tuple(int(code) for code in cell),
                float(count[tuple(cell)]),
                1 / math.sqrt(float(precision[tuple(cell)])),
            )
            for cell in np.argwhere(low)
        ]
    return tuple(found)
