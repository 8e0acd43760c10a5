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
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dp_core.domain import Clique, Domain
from dp_core.marginals import Measurement, Table
from dp_core.reconstruction.consistency import (
    Estimate,
    norm_sub,
    overlapping,
    reconcile,
)
from dp_core.reconstruction.raking import others, rake
from dp_core.structural_zeros import StructuralZeros

_WIDTHS = np.array([0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0])
_POWER = 0.75  # a cell of expected count E differs from it by about _WIDTHS * E ** _POWER
_LOW_RANK_SHARE = 0.3  # weight of the low-rank estimate of two columns beside the cellwise one
_FEW_FREE = 1  # a table of 2 x 2 cells has nothing of its own to learn a prior from: believe it
_MIXTURE_ROUNDS = 40
_RAKING_ROUNDS = 30
_MOST_CELLS = 1 << 20  # beyond it a table is only made nonnegative


def shrunk(
    domain: Domain,
    measurements: Sequence[Measurement],
    *,
    rows: int | None,
    zeros: StructuralZeros,
) -> tuple[tuple[Table, ...], int]:
    """Return one-way tables of all columns and the larger measured tables, all agreeing.

    Args:
        domain: All columns.
        measurements: Noisy tables, at least one.
        rows: Number of records where it is public, otherwise None.
        zeros: Impossible cells; they hold exactly 0.

    Returns:
        One-way tables in the order of the domain, then one table for each larger clique measured;
        and the number of records, which every table sums to.
    """
    tables, subsets, total = overlapping(domain, measurements, rows=rows, zeros=zeros)
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
    wanted = {*larger, *(subset for subset in subsets if len(subset) > 1)}
    for clique in sorted(wanted, key=lambda name: (len(name), domain.axes(name))):
        pooled = _pooled(clique, domain, holding[clique[0]], zeros)
        assert pooled is not None
        done[clique] = _shrink(pooled, done, float(total))
    kept = [*((column,) for column in domain.columns), *larger]
    return tuple(Table(domain.project(clique), done[clique]) for clique in kept), total


def shrink_residual(
    residual: NDArray[np.float64], variance: float, expected: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the expected true residual of each cell, given its noisy one.

    The prior of a cell is a mixture of centred normal distributions whose standard deviations are
    fixed multiples of `expected ** 0.75`; the weights of the mixture are those under which the
    table's residuals are most likely (by EM, from equal weights, with a few cells' worth of
    weight on no residual at all).

    Args:
        residual: Noisy count less the expected one, any shape.
        variance: Of the noise of each, records squared.
        expected: What smaller tables say the cell holds, same shape, not negative.
    """
    width = np.square(np.multiply.outer(expected.ravel() ** _POWER, _WIDTHS))
    # Cells that cannot matter stay as expected, and do not vote on the mixture.
    active = np.flatnonzero(width[:, -1] > 1e-3 * variance)
    shrunken = np.zeros(residual.size)
    if active.size and variance > 0:
        prior = width[active]
        spread = prior + variance
        noisy = residual.ravel()[active]
        log_likelihood = -0.5 * (np.log(spread) + np.square(noisy)[:, None] / spread)
        likelihood = np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True))
        weights = np.full(_WIDTHS.size, 1 / _WIDTHS.size)
        favour = np.full(_WIDTHS.size, 1e-9)
        favour[0] = 4.0
        for _ in range(_MIXTURE_ROUNDS):
            scale = 1.0 / (likelihood @ weights)
            weights = weights * (scale @ likelihood) + favour
            weights /= weights.sum()
        belief = (likelihood * (prior / spread)) @ weights / (likelihood @ weights)
        shrunken[active] = belief * noisy
    return shrunken.reshape(residual.shape)


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


def _shrink(
    pooled: Estimate, done: dict[Clique, NDArray[np.float64]], total: float
) -> NDArray[np.float64]:
    """Return the nonnegative table that agrees with those done already."""
    if pooled.values.size > _MOST_CELLS:
        return norm_sub(pooled.values, total=total, possible=pooled.possible)
    if len(pooled.clique) <= 10:
        sizes = reversed(range(1, len(pooled.clique)))
        smaller = [c for size in sizes for c in itertools.combinations(pooled.clique, size)]
    else:
        smaller = sorted(done, key=len, reverse=True)
    inside: list[Clique] = []
    for clique in smaller:
        # A margin that another one holds says nothing more.
        within = clique in done and set(clique) < set(pooled.clique)
        if within and not any(set(clique) <= set(other) for other in inside):
            inside.append(clique)
    margins = [(clique, done[clique]) for clique in inside]
    expected = pooled.possible.astype(np.float64)
    product = all(len(clique) == 1 for clique in inside)
    if product:
        for clique, values in margins:
            shape = [size if name in clique else 1 for name, size in _axes(pooled.domain)]
            expected = expected * (values / total).reshape(shape)
        expected *= total
    if not (product and pooled.possible.all()):
        expected = rake(expected, pooled.clique, margins, rounds=_RAKING_ROUNDS)
    difference = pooled.values - expected
    # The noise in the margins has been dealt with; what is left is orthogonal to them.
    for clique in inside:
        summed = others(pooled.clique, clique)
        cells = np.maximum(pooled.possible.sum(axis=summed, keepdims=True), 1)
        difference -= difference.sum(axis=summed, keepdims=True) / cells * pooled.possible
    free = _free(pooled.domain, inside)
    if round(free * pooled.domain.size()) <= _FEW_FREE:
        shrunken = difference
    else:
        shrunken = shrink_residual(difference, pooled.variance * free, expected)
    if difference.ndim == 2 and min(difference.shape) > 2:
        share = _LOW_RANK_SHARE
        shrunken = (1 - share) * shrunken + share * low_rank(difference, pooled.variance)
    fitted = np.maximum(expected + shrunken, 0.0) * pooled.possible
    return rake(fitted, pooled.clique, margins, rounds=_RAKING_ROUNDS)


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
