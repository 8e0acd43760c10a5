"""Shrinks noisy tables towards the predictions of smaller tables. Public side of the wall.

Most cells of a large table have fewer records than their noise. They are predicted by the product
of the columns' tables (or, for more columns, by the tables of pairs), and the noisy cell's
deviation from the prediction is shrunk (`residual_belief`). Each table is raked to the smaller
ones, from the smallest on, so that all tables agree.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import Measurement, Table, Totals
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.methods.reconstruction.estimates.consistency import (
    Estimate,
    norm_sub,
    overlapping,
    reconcile,
)
from dp_core.methods.reconstruction.estimates.raking import others, rake
from dp_core.methods.reconstruction.estimates.residual_belief import (
    believed,
    shrink_numbers,
    shrink_table,
)
from dp_core.methods.reconstruction.estimates.shared_factors import Deviation, common_part, enough
from dp_core.methods.reconstruction.estimates.table_parts import (
    beyond,
    free_part,
    interaction_part,
    interactions_by_clique,
)
from dp_core.schema.structure.structural_zeros import StructuralZeros

_FEW_FREE = 1  # degrees of freedom (2 x 2 cells) with which a table cannot estimate a prior
_FEW_TABLES = 10  # fewer such tables together cannot either, and are not shrunk
_RAKING_ROUNDS = 30
_MOST_CELLS = 1 << 20  # beyond it a table is only made nonnegative


def shrunk(
    domain: Domain,
    measurements: Sequence[Measurement],
    *,
    rows: int | None,
    zeros: StructuralZeros,
    interactions: Sequence[Totals] = (),
    together: bool = True,
    believe: bool = False,
) -> tuple[tuple[Table, ...], int]:
    """Return shrunk one-way tables of all columns and larger measured tables, which all agree.

    Args:
        domain: All columns.
        measurements: Noisy tables, at least one.
        rows: Number of records if it is public, otherwise None.
        zeros: Impossible cells; they are exactly 0 in the results.
        interactions: Noisy interactions; their cliques count as measured.
        together: Whether pairs also improve each other's estimates, if enough were measured.
        believe: Whether noisy cells are used without shrinkage, except for bounds at zero.

    Returns:
        One-way tables in the order of the domain, then one table per larger measured clique; and
        the number of records, which every table sums to.
    """
    tables, subsets, total = overlapping(domain, measurements, rows=rows, zeros=zeros)
    alone = interactions_by_clique(domain, interactions)
    # A column's interaction is its table without the number of rows, which is known more precisely.
    for clique, (values, variance) in alone.items():
        if len(clique) == 1:
            one = domain.project(clique)
            possible = ~zeros.mask(one)
            even = values + total / values.size
            tables.append(Estimate(one, even * possible, variance, possible))
            subsets = [clique, *(subset for subset in subsets if subset != clique)]
    reconcile(tables, subsets, total=float(total))

    holding = {name: [t for t in tables if name in t.clique] for name in domain.columns}
    done: dict[Clique, NDArray[np.float64]] = {}
    for column in domain.columns:
        pooled = _pooled((column,), domain, holding[column], zeros)
        if pooled is None:
            done[(column,)] = _uniform(domain.project((column,)), total, zeros)
        else:
            done[(column,)] = norm_sub(pooled.values, total=float(total), possible=pooled.possible)
    larger = [table.clique for table in tables if len(table.clique) > 1]
    larger += [clique for clique in alone if len(clique) > 1 and clique not in larger]
    wanted = {*larger, *(subset for subset in subsets if len(subset) > 1)}
    for size in sorted({len(clique) for clique in wanted}):
        cliques = sorted((c for c in wanted if len(c) == size), key=domain.axes)
        gaps = []
        for clique in cliques:
            pooled = _pooled(clique, domain, holding[clique[0]], zeros)
            gaps.append(_gap(domain.project(clique), pooled, alone.get(clique), done, zeros, total))
        if believe:
            for gap in gaps:
                gap.belief = gap.residual
        else:
            if size == 2 and together:
                _tell_each_other(domain, gaps, float(total))
            _believe_single(gaps)
        for clique, gap in zip(cliques, gaps, strict=True):
            done[clique] = gap.settled(float(total))
    kept = [*((column,) for column in domain.columns), *larger]
    return tuple(Table(domain.project(clique), done[clique]) for clique in kept), total


@dataclass(slots=True, eq=False)
class _Gap:
    """A noisy table and its prediction from smaller tables.

    Attributes:
        expected: Expected counts from smaller tables, in records, shape of the table.
        residual: Noisy table minus `expected`, projected orthogonally to the smaller tables.
        variance: Noise variance of a cell before `expected` was subtracted, in records squared.
        free: Part of the noise variance that remains in `residual`.
        possible: Whether each cell can have records.
        margins: The smaller tables with their columns.
        clique: Columns of the table.
        raw: The noisy table itself if it is too large for shrinkage, otherwise None.
        belief: Shrunk residual so far, or None.
        common: Part of the estimate that comes from other pairs, or None.
        single: Whether `residual` is one number, up to its sign.
    """

    expected: NDArray[np.float64]
    residual: NDArray[np.float64]
    variance: float
    free: float
    possible: NDArray[np.bool_]
    margins: list[tuple[Clique, NDArray[np.float64]]]
    clique: Clique
    raw: NDArray[np.float64] | None = None
    belief: NDArray[np.float64] | None = None
    common: NDArray[np.float64] | None = None

    @property
    def single(self) -> bool:
        return self.raw is None and round(self.free * self.residual.size) <= _FEW_FREE

    def settled(self, total: float) -> NDArray[np.float64]:
        """Return the nonnegative table that agrees with the smaller ones."""
        if self.raw is not None:
            return norm_sub(self.raw, total=total, possible=self.possible)
        common = self.common if self.common is not None else np.zeros_like(self.residual)
        left = self.residual - common
        if self.belief is not None:
            belief = self.belief
        elif self.single:
            belief = left
        else:
            belief = shrink_table(left, self.variance, self.free, self.expected)
        fitted = np.maximum(self.expected + common + belief, 0.0) * self.possible
        return rake(fitted, self.clique, self.margins, rounds=_RAKING_ROUNDS)


def _gap(
    domain: Domain,
    pooled: Estimate | None,
    alone: tuple[NDArray[np.float64], float] | None,
    done: Mapping[Clique, NDArray[np.float64]],
    zeros: StructuralZeros,
    total: float,
) -> _Gap:
    """Return the residual of a clique's noisy table and interaction beyond smaller tables.

    Args:
        domain: Domain of the clique.
        pooled: Its table, or None if it was not measured.
        alone: Its interaction with the variance, or None if it was not measured.
        done: Smaller tables by clique.
        zeros: Impossible cells.
        total: Number of records.
    """
    clique = domain.columns
    possible = pooled.possible if pooled is not None else ~zeros.mask(domain)
    if pooled is not None and pooled.values.size > _MOST_CELLS:
        empty = np.zeros(0)
        return _Gap(empty, empty, pooled.variance, 1.0, possible, [], clique, raw=pooled.values)
    if len(clique) <= 10:
        sizes = reversed(range(1, len(clique)))
        smaller = [c for size in sizes for c in itertools.combinations(clique, size)]
    else:
        smaller = sorted(done, key=len, reverse=True)
    inside: list[Clique] = []
    for other in smaller:
        # A margin contained in another one adds nothing.
        within = other in done and set(other) < set(clique)
        if within and not any(set(other) <= set(held) for held in inside):
            inside.append(other)
    margins = [(other, done[other]) for other in inside]
    expected = possible.astype(np.float64)
    product = all(len(other) == 1 for other in inside)
    if product:
        for other, values in margins:
            shape = [size if name in other else 1 for name, size in _axes(domain)]
            expected = expected * (values / total).reshape(shape)
        expected *= total
    if not (product and possible.all()):
        expected = rake(expected, clique, margins, rounds=_RAKING_ROUNDS)
    if pooled is None:
        assert alone is not None
        residual = (alone[0] - beyond(expected)) * possible
        return _Gap(
            expected, residual, alone[1], interaction_part(domain), possible, margins, clique
        )
    residual = pooled.values - expected
    # Noise in the margins is handled already, so the residual is made orthogonal to them.
    for other in inside:
        summed = others(clique, other)
        cells = np.maximum(possible.sum(axis=summed, keepdims=True), 1)
        residual -= residual.sum(axis=summed, keepdims=True) / cells * possible
    variance = pooled.variance
    if alone is not None:
        weight = variance / (variance + alone[1])
        residual += weight * (alone[0] - beyond(expected) - beyond(residual)) * possible
        variance *= 1 - weight
    return _Gap(expected, residual, variance, free_part(domain, inside), possible, margins, clique)


def _tell_each_other(domain: Domain, gaps: Sequence[_Gap], total: float) -> None:
    """Store each pair's prediction from all pairs, in place, if there are enough of them."""
    pairs = {gap.clique: gap for gap in gaps if gap.raw is None}
    if not enough(domain, len(pairs)):
        return
    found = common_part(
        domain,
        {
            clique: Deviation(gap.residual, gap.expected, gap.variance * gap.free)
            for clique, gap in pairs.items()
        },
        total,
    )
    for clique, gap in pairs.items():
        gap.common = believed(
            found[clique] * gap.possible, gap.residual, gap.variance * gap.free, gap.expected
        )


def _believe_single(gaps: Sequence[_Gap]) -> None:
    """Store the shrunk residual of each table with one number, in place, if there are enough."""
    single = [gap for gap in gaps if gap.single and gap.residual.any()]
    if len(single) < _FEW_TABLES:
        return
    found = shrink_numbers(
        [gap.residual - (0.0 if gap.common is None else gap.common) for gap in single],
        [gap.variance * gap.free for gap in single],
        [gap.expected for gap in single],
    )
    for gap, belief in zip(single, found, strict=True):
        gap.belief = belief


def _pooled(
    clique: Clique, domain: Domain, tables: Sequence[Estimate], zeros: StructuralZeros
) -> Estimate | None:
    """Return the table of a clique from (consistent) larger tables, or None if none covers it."""
    holders = [table for table in tables if set(clique) <= set(table.clique)]
    if not holders:
        return None
    project = domain.project(clique)
    possible = ~zeros.mask(project)
    precision = 0.0
    for holder in holders:
        values, cells = holder.project(clique)
        possible &= cells > 0
        precision += 1.0 / (holder.variance * max(float(cells.max()), 1.0))
    return Estimate(project, values * possible, 1.0 / precision, possible)


def _uniform(domain: Domain, total: int, zeros: StructuralZeros) -> NDArray[np.float64]:
    possible = ~zeros.mask(domain)
    return norm_sub(np.zeros(domain.sizes), total=float(total), possible=possible)


def _axes(domain: Domain) -> list[tuple[str, int]]:
    return list(zip(domain.columns, domain.sizes, strict=True))
