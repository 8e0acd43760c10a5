"""Counts that are too near zero, for their noise, to be estimated without bias.

A synthetic file has no negative counts, so counts near zero are biased upwards and others
downwards. The bias matters below three standard errors: intervals of such shares covered in 90 to
93 of 100 measurements instead of 95 (`benchmarks/notes/noise-aware.md`).
"""

from __future__ import annotations

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
    """A count near zero for its noise. Public: it comes from noisy tables only.

    Attributes:
        clique: Columns.
        codes: Code of each column.
        count: Estimate from all tables, records; may be negative.
        standard_error: Standard error of that estimate due to noise, records.
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
    """Return the cells whose counts are below `times` standard errors.

    Args:
        domain: All columns.
        released: Everything measured for one set; only noisy tables are used.
        cliques: Columns of the cells; a clique that no table contains is left out.
        zeros: Impossible cells, which are known to be empty and are left out.
        times: Number of standard errors.
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
        codes_of, counts = np.argwhere(low).tolist(), count[low].tolist()
        errors = (1 / np.sqrt(precision[low])).tolist()
        found += [
            NearZero(ordered, tuple(codes), number, error)
            for codes, number, error in zip(codes_of, counts, errors, strict=True)
        ]
    return tuple(found)
