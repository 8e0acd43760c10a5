"""Noisy tables drawn towards what smaller tables already say. Public side of the wall.

Most cells of a large table hold less than their noise. What is known of them is the product of
the columns' tables (or, for more columns, what the pairs imply); what the noisy cell adds is
believed in part: much where the cell can hold many records, little where it cannot. How much
is learned from the table itself, as the weights of a mixture of normal priors of different widths
(adaptive shrinkage: Stephens, Biostatistics 2017). Then the table is raked to the smaller ones,
so that all tables agree.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.domain import Clique, Domain
from dp_core.marginals import Measurement, Table, Totals
from dp_core.reconstruction.consistency import (
    Estimate,
    norm_sub,
    overlapping,
    reconcile,
)
from dp_core.reconstruction.raking import others, rake
from dp_core.structural_zeros import StructuralZeros
from dp_core.sums.interactions import Interaction

_WIDTHS = np.array([0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0])
_POWER = 0.75  # a cell of expected count E differs from it by about _WIDTHS * E ** _POWER
_LOW_RANK_SHARE = 0.3  # weight of the low-rank estimate of two columns beside the cellwise one
_FEW_FREE = 1  # a table of 2 x 2 cells has nothing of its own to learn a prior from
_FEW_TABLES = 10  # nor have fewer such tables together: they are believed
_SMALLEST = 0.5  # records; a smaller cell narrows the prior of such a table no further
_MIXTURE_ROUNDS = 40
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
    """Return one-way tables of all columns and the larger measured tables, all agreeing.

    Args:
        domain: All columns.
        measurements: Noisy tables, at least one.
        rows: Number of records where it is public, otherwise None.
        zeros: Impossible cells; they hold exactly 0.
        interactions: Noisy interactions; what they are of counts as measured.
        together: Whether pairs tell of each other, where enough of them were measured.
        believe: Whether noisy cells are left as they are, the bounds at zero aside.

    Returns:
        One-way tables in the order of the domain, then one table for each larger clique measured;
        and the number of records, which every table sums to.
    """
    tables, subsets, total = overlapping(domain, measurements, rows=rows, zeros=zeros)
    alone = _alone(domain, interactions)
    # A column's interaction is its table but for the number of rows, which is known better.
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
    """A noisy table beside what smaller tables say of it.

    Attributes:
        expected: What they say, records, shape of the table.
        residual: Noisy table less that, orthogonal to what they hold.
        variance: Of the noise of a cell before that was taken off, records squared.
        free: Part of the noise that `residual` still has.
        possible: Which cells can occur.
        margins: The smaller tables.
        raw: The noisy table itself where it is too large to be shrunk, otherwise None.
        belief: What is believed of the residual already.
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
            believed = self.belief
        elif self.single:
            believed = left
        else:
            believed = shrink_residual(left, self.variance * self.free, self.expected)
        if self.belief is None and left.ndim == 2 and min(left.shape) > 2:
            share = _LOW_RANK_SHARE
            believed = (1 - share) * believed + share * low_rank(left, self.variance)
        fitted = np.maximum(self.expected + common + believed, 0.0) * self.possible
        return rake(fitted, self.clique, self.margins, rounds=_RAKING_ROUNDS)


def shrink_residual(
    residual: NDArray[np.float64],
    variance: float | NDArray[np.float64],
    expected: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the expected true residual of each cell, given its noisy one.

    The prior of a cell is a mixture of centred normal distributions whose standard deviations are
    fixed multiples of `expected ** 0.75`; the weights of the mixture are those under which the
    table's residuals are most likely (by EM, from equal weights, with a few cells' worth of
    weight on no residual at all).

    Args:
        residual: Noisy count less the expected one, any shape.
        variance: Of the noise of each, records squared; one for all, or the same shape.
        expected: What smaller tables say the cell holds, same shape, not negative.
    """
    width = np.square(np.multiply.outer(expected.ravel() ** _POWER, _WIDTHS))
    # Cells that cannot matter stay as expected, and do not vote on the mixture.
    noise = np.broadcast_to(np.asarray(variance, dtype=np.float64), residual.shape).ravel()
    active = np.flatnonzero((width[:, -1] > 1e-3 * noise) & (noise > 0))
    shrunken = np.zeros(residual.size)
    if active.size:
        prior = width[active]
        spread = prior + noise[active, None]
        noisy = residual.ravel()[active]
        log_likelihood = -0.5 * (np.log(spread) + np.square(noisy)[:, None] / spread)
        likelihood = np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True))
        weights = _weights(likelihood)
        belief = (likelihood * (prior / spread)) @ weights / (likelihood @ weights)
        shrunken[active] = belief * noisy
    return shrunken.reshape(residual.shape)


def _weights(likelihood: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the weights of the widths under which cells are most likely, shape (widths,).

    Args:
        likelihood: Of each cell under each width, up to a factor of its own, shape (cells, widths).
    """
    weights = np.full(_WIDTHS.size, 1 / _WIDTHS.size)
    favour = np.full(_WIDTHS.size, 1e-9)
    favour[0] = 4.0
    for _ in range(_MIXTURE_ROUNDS):
        scale = 1.0 / (likelihood @ weights)
        weights = weights * (scale @ likelihood) + favour
        weights /= weights.sum()
    return weights


def evidence(
    residual: NDArray[np.float64],
    variance: float | NDArray[np.float64],
    expected: NDArray[np.float64],
) -> float:
    """Return the log likelihood of residuals under the prior that `shrink_residual` learns.

    Args:
        residual: As there, and so are the others.
        variance: Of the noise.
        expected: What smaller tables say.
    """
    width = np.square(np.multiply.outer(expected.ravel() ** _POWER, _WIDTHS))
    noise = np.broadcast_to(np.asarray(variance, dtype=np.float64), residual.shape).ravel()
    active = np.flatnonzero((width[:, -1] > 1e-3 * noise) & (noise > 0))
    if not active.size:
        return 0.0
    spread = width[active] + noise[active, None]
    log_likelihood = -0.5 * (np.log(spread) + np.square(residual.ravel()[active])[:, None] / spread)
    most = log_likelihood.max(axis=1, keepdims=True)
    likelihood = np.exp(log_likelihood - most)
    return float((np.log(likelihood @ _weights(likelihood)) + most[:, 0]).sum())


def low_rank(residual: NDArray[np.float64], variance: float) -> NDArray[np.float64]:
    """Return the part of a table of two columns that stands out of the noise as a whole.

    Dependence between two columns is mostly of low rank (one scale against another), and noise is
    spread over all of them. Singular values are shrunk as is best for squared error: those below
    `sqrt(variance) * (sqrt(p) + sqrt(q))` are noise (Gavish and Donoho, IEEE Trans. Inf. Theory
    2017, equation 7).

    Args:
        residual: Noisy count less the expected one, rows and columns summing to 0.
        variance: Of the noise of each cell, records squared.
    """
    left, values, right = np.linalg.svd(residual, full_matrices=False)
    p, q = residual.shape[0] - 1, residual.shape[1] - 1
    relative = np.square(values) / variance
    inner = np.square(relative - p - q) - 4 * p * q
    kept = relative > (math.sqrt(p) + math.sqrt(q)) ** 2
    shrunken = np.sqrt(np.maximum(inner, 0.0) / np.maximum(relative, 1e-300) * variance) * kept
    return np.asarray((left * shrunken) @ right)


def _gap(
    domain: Domain,
    pooled: Estimate | None,
    alone: tuple[NDArray[np.float64], float] | None,
    done: Mapping[Clique, NDArray[np.float64]],
    zeros: StructuralZeros,
    total: float,
) -> _Gap:
    """Return what a clique's noisy table and its noisy interaction say beyond smaller tables.

    Args:
        domain: The clique's.
        pooled: Its table, None if it was not measured.
        alone: Its interaction and the variance of that, None if it was not measured.
        done: Smaller tables.
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
        # A margin that another one holds says nothing more.
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
    # The noise in the margins has been dealt with; what is left is orthogonal to them.
    for other in inside:
        summed = others(clique, other)
        cells = np.maximum(possible.sum(axis=summed, keepdims=True), 1)
        residual -= residual.sum(axis=summed, keepdims=True) / cells * possible
    variance = pooled.variance
    if alone is not None:
        weight = variance / (variance + alone[1])
        residual += weight * (alone[0] - beyond(expected) - beyond(residual)) * possible
        variance *= 1 - weight
    return _Gap(expected, residual, variance, _free(domain, inside), possible, margins, clique)


def _tell_each_other(domain: Domain, gaps: Sequence[_Gap], total: float) -> None:
    """Note of each pair what all pairs have in common, where there are enough of them."""
    from dp_core.reconstruction.shared_factors import Deviation, common_part, enough

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


def believed(
    common: NDArray[np.float64],
    residual: NDArray[np.float64],
    variance: float | NDArray[np.float64],
    expected: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return what all pairs have in common as far as this one is more likely with it than without.

    A pair may depend in a way of its own, which what others have in common only blurs.

    Args:
        common: What all pairs say of this one, records.
        residual: Of this one, as for `shrink_residual`, and so are the others.
        variance: Of the noise.
        expected: What smaller tables say.
    """
    free = max(1.0, (residual.shape[0] - 1) * (residual.shape[1] - 1)) / residual.size
    without = evidence(residual, variance, expected)
    gain = (evidence(residual - common, variance, expected) - without) * free
    return np.asarray(common / (1 + math.exp(min(-gain, 500.0))))


def _believe_single(gaps: Sequence[_Gap]) -> None:
    """Note what is believed of tables whose residual is one number: they have one prior together.

    A table of 2 x 2 cells has nothing of its own to learn a prior from, but many have.
    """
    single = [gap for gap in gaps if gap.single and gap.residual.any()]
    if len(single) < _FEW_TABLES:
        return
    left = [gap.residual - (0.0 if gap.common is None else gap.common) for gap in single]
    # In all cells at once, the prior of the number is as narrow as that of its smallest cells.
    width = [float((np.maximum(g.expected, _SMALLEST) ** (-2 * _POWER)).sum()) for g in single]
    found = shrink_residual(
        np.array([float(np.abs(each).max()) for each in left]),
        np.array([gap.variance * gap.free for gap in single]),
        np.array(width) ** (-0.5 / _POWER),
    )
    for gap, each, size in zip(single, left, found, strict=True):
        largest = float(np.abs(each).max())
        gap.belief = each * (size / largest) if largest else each


def _alone(
    domain: Domain, interactions: Sequence[Totals]
) -> dict[Clique, tuple[NDArray[np.float64], float]]:
    """Return each clique's interaction, records, and the variance of a whole table like it.

    Those of the same columns are averaged by inverse variance.
    """
    found: dict[Clique, tuple[NDArray[np.float64], float]] = {}
    for item in interactions:
        assert isinstance(item.of, Interaction)
        clique = tuple(name for name in domain.columns if name in item.of.columns)
        values = item.of.spread(item.values)
        values = values.transpose([item.of.columns.index(name) for name in clique])
        variance = item.of.cell_variance(item.variance)
        if clique in found:
            before, spread = found[clique]
            weight = spread / (spread + variance)
            values, variance = before + weight * (values - before), spread * (1 - weight)
        found[clique] = values, variance
    return found


def beyond(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the part of a table that sums to 0 over every axis."""
    for axis in range(table.ndim):
        table = table - table.mean(axis=axis, keepdims=True)
    return table


def interaction_part(domain: Domain) -> float:
    """Return the part of a table's noise that is in its interaction."""
    return math.prod(1 - 1 / size for size in domain.sizes)


def _free(domain: Domain, inside: Sequence[Clique]) -> float:
    """Return the part of a table's noise that is left when the margins `inside` are known."""
    if len(domain) > 12:
        return 1.0
    free = 0
    for size in range(len(domain) + 1):
        for subset in itertools.combinations(domain.columns, size):
            if not any(set(subset) <= set(clique) for clique in inside):
                free += math.prod(levels - 1 for levels in domain.project(subset).sizes)
    return free / domain.size()


def _pooled(
    clique: Clique, domain: Domain, tables: Sequence[Estimate], zeros: StructuralZeros
) -> Estimate | None:
    """Return what all (agreeing) tables say about a clique, None if none holds it."""
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
