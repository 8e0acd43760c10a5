"""Draws of the tables of nested columns, such as districts in counties, from the top down.

A table of the smaller areas consists of blocks, one for each larger area. The margins of a block
are known when it is drawn: the counts of its smaller areas, and the larger area's table of the
other column. So a block is drawn like any pair of columns, given its margins. Its expected counts
are those without dependence *within* the larger area. Before that, the tables of larger areas are
pooled with the sums of the tables of smaller ones. So tables of smaller areas add up to those of
larger ones, and the error of a large area is at most that of its own table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.methods.reconstruction.estimates.area_parts import summed
from dp_core.methods.reconstruction.estimates.pooled_parts import Pooled
from dp_core.methods.reconstruction.estimates.table_parts import beyond
from dp_core.methods.replicates.centred_draws import centred_normals
from dp_core.methods.replicates.posterior.agreement import with_margins, with_total
from dp_core.methods.replicates.posterior.column_draws import ColumnDraws, Told
from dp_core.methods.replicates.posterior.pair_draws import PairPosterior
from dp_core.methods.replicates.posterior.truncation import (
    Floats,
    central_counts,
    truncated,
    truncated_variance,
)
from dp_core.tables.nested_columns import NestedColumns

MOST_UNMEASURED = 1 << 12
"""Most cells of a pair that is drawn if no pair of its small areas was measured."""

Children = Sequence[NDArray[np.intp]]
"""For each larger area, the codes of its smaller areas."""


def in_order(nested: NestedColumns | None, names: Sequence[str]) -> list[str]:
    """Return columns, each after the one in which it lies."""
    if nested is None:
        return list(names)
    return sorted(names, key=nested.depth)


def lower_of(nested: NestedColumns | None, clique: Clique) -> str | None:
    """Return the column of a pair that lies within another column; None if there is none."""
    if nested is None:
        return None
    return next((name for name in clique if nested.depth(name)), None)


def is_drawn(domain: Domain, pair: Clique, measured: Sequence[Clique]) -> bool:
    """Return whether a pair may be drawn if it was not measured.

    A pair of small areas with many cells may not, unless some pair of these areas was measured. Its
    cells would have less than one record on average.

    Args:
        domain: All columns.
        pair: The pair.
        measured: Measured pairs.
    """
    lower = lower_of(domain.nested, pair)
    if lower is None or domain.size(pair) <= MOST_UNMEASURED:
        return True
    return any(lower in other for other in measured if len(other) == 2)


def above(domain: Domain, clique: Clique, lower: str) -> Clique:
    """Return the pair with the column in which `lower` lies in its place, in the domain's order."""
    assert domain.nested is not None
    named = {domain.nested.above(name) if name == lower else name for name in clique}
    return tuple(name for name in domain.columns if name in named)


def with_pairs_above(domain: Domain, pairs: Sequence[Clique]) -> list[Clique]:
    """Return pairs with those of all larger areas, each in the order of the domain."""
    found = dict.fromkeys(pairs)
    for pair in pairs:
        while (lower := lower_of(domain.nested, pair)) is not None:
            pair = above(domain, pair, lower)
            found.setdefault(pair)
    return list(found)


def counts_of(pooled: Pooled, name: str) -> Told | None:
    """Return the noisy counts of a column and their variance, or None if they were not measured.

    Counts of larger areas are pooled with the sums of smaller ones. Then each area has its own
    variance, because a sum has the noise of all its areas. The counts of every column of areas
    already contain the number of all records, so only the deviations from even counts are pooled.
    """
    nested, size = pooled.domain.nested, pooled.domain.size((name,))
    # Draws are brought to the number of records. If that is public, `variance` has left out the
    # noise of the sum already, and the draws would lose it a second time.
    public = pooled.rows is not None
    if nested is None or name not in nested.upper or size == 1:
        counts, variance = pooled.counts((name,)), pooled.variance((name,))
        if counts is None or variance is None:
            return None
        own = pooled.precision((name,)) if public else 0.0
        return counts, 1 / own if own else variance

    def below(lower: str) -> Told | None:
        counts, precision = pooled.counts((lower,)), pooled.precision((lower,))
        return None if counts is None or not precision else (counts, 1 / precision)

    told = _with_sums(pooled, name, pooled.observed((name,)), below, axis=0, part=beyond)
    if told is None:
        return None
    total, variance = pooled.total()
    spread = told[1] if public else told[1] * (size - 1) / size + variance / size**2
    return told[0] + total / size, spread


def observed_pair(pooled: Pooled, clique: Clique) -> Told | None:
    """Return the noisy interaction of a pair and the variance of its coordinates, if known.

    The interaction of larger areas is pooled with the sums over smaller ones; see
    `Pooled.observed`. Then the variance is that of each area, of shape (areas, 1) or (1, areas).

    Args:
        pooled: All measurements.
        clique: The pair, in the order of the domain.
    """
    nested, own = pooled.domain.nested, pooled.observed(clique)
    inside = [] if nested is None else [name for name in clique if name in nested.columns]
    if not inside:
        return own
    name = inside[0]

    def below(lower: str) -> Told | None:
        swapped = tuple(lower if each == name else each for each in clique)
        pair = tuple(each for each in pooled.domain.columns if each in swapped)
        precision = pooled.precision(pair)
        # Sums of the interaction alone would lack the other column's counts, because larger areas
        # have different numbers of smaller ones.
        counts = pooled.counts(swapped) if precision else None
        return None if counts is None else (counts, 1 / precision)

    return _with_sums(pooled, name, own, below, axis=clique.index(name), part=beyond)


def _with_sums(
    pooled: Pooled,
    name: str,
    own: Told | None,
    below: Callable[[str], Told | None],
    *,
    axis: int,
    part: Callable[[Floats], Floats],
) -> Told | None:
    """Return a table of areas pooled with the sums of the tables of smaller areas.

    Args:
        pooled: All measurements.
        name: Column of the areas.
        own: Table of these areas, from their own measurements; None without any.
        below: Returns the table of a column of smaller areas, or None.
        axis: Axis of the areas.
        part: Takes the part of the sums that corresponds to `own`.
    """
    nested, told = pooled.domain.nested, [] if own is None else [own]
    if nested is not None and name in nested.upper:
        size = pooled.domain.size((name,))
        for lower in nested.columns[nested.columns.index(name) + 1 :]:
            seen = below(lower)
            if seen is not None:
                parents = nested.map(name, lower)
                table = part(summed(seen[0], parents, axis=axis))
                shape = [size if at == axis else 1 for at in range(table.ndim)]
                parts = np.bincount(parents, minlength=size).reshape(shape)
                told.append((table, np.asarray(seen[1] * parts, dtype=np.float64)))
    if len(told) < 2:
        return told[0] if told else None
    weights = [1 / np.maximum(variance, 1e-12) for _, variance in told]
    whole = np.asarray(sum(weights))
    mean = sum(weight * table for weight, (table, _) in zip(weights, told, strict=True))
    return np.asarray(mean) / whole, 1 / whole


def draw_areas(
    pooled: Pooled,
    name: str,
    *,
    larger: ColumnDraws,
    children: Children,
    possible: NDArray[np.bool_],
    rng: np.random.Generator,
) -> ColumnDraws:
    """Return draws of a column that lies within another; they add up to those of the other.

    Args:
        pooled: All measurements.
        name: The column.
        larger: Draws of the column in which it lies.
        children: Its codes within each code of the other column.
        possible: Which levels can occur, shape (levels,).
        rng: Generator; same state, same draws.
    """
    told = counts_of(pooled, name)
    sets, size = len(larger.draws), pooled.domain.size((name,))
    if told is None:
        counts, spread = np.zeros(size), np.zeros(size)
        noise = np.zeros((sets, size))
    else:
        counts, spread = told[0], np.sqrt(np.maximum(np.broadcast_to(told[1], size), 0.0))
        noise = centred_normals(sets, (size,), rng)
    left = truncated_variance(counts, spread) * possible

    def settled(counted: Floats, totals: Floats) -> Floats:
        drawn = possible * counted
        found = np.zeros(size)
        for block, total in zip(children, totals, strict=True):
            if block.size == 1:
                found[block] = total
            elif told is None:
                found[block] = total * drawn[block] / max(float(drawn[block].sum()), 1e-300)
            else:
                found[block] = with_total(drawn[block], left[block], float(total))
        return found

    if told is None:
        middle, drawn = np.ones(size), np.ones((sets, size))
    else:
        middle, drawn = central_counts(counts, spread, possible), truncated(counts, spread, noise)
    middle = settled(middle, larger.middle)
    draws = [settled(one, totals) for one, totals in zip(drawn, larger.draws, strict=True)]
    return ColumnDraws(middle, np.array(draws))


def expected_within(
    rows: Floats, table: Floats, children: Children, possible: NDArray[np.bool_]
) -> Floats:
    """Return the counts of smaller areas by another column without dependence within larger areas.

    Args:
        rows: Counts of the smaller areas, shape (smaller,), in records.
        table: Table of the larger areas by the other column, shape (larger, q), in records.
        children: Smaller areas of each larger one.
        possible: Which cells can have records, shape (smaller, q).
    """
    found = np.zeros(possible.shape)
    for block, across in zip(children, table, strict=True):
        shares = possible[block] * across
        sums = shares.sum(axis=1, keepdims=True)
        even = possible[block] / np.maximum(possible[block].sum(axis=1, keepdims=True), 1)
        shares = np.where(sums > 0, shares / np.maximum(sums, 1e-300), even)
        found[block] = rows[block, None] * shares
    return found


def areas_table(
    posterior: PairPosterior,
    deviation: Floats | None,
    *,
    expected: Floats,
    rows: Floats,
    table: Floats,
    children: Children,
    axis: int,
) -> Floats:
    """Return a set's nonnegative table of smaller areas by another column.

    Its sums over the areas of each larger one are the set's table of the larger areas.

    Args:
        posterior: Posterior of the pair.
        deviation: The set's draw from it, shape (p, q), in records; None for the centre.
        expected: Counts without dependence within larger areas, given the set's tables, same shape.
        rows: The set's counts of the smaller areas.
        table: The set's table of the larger areas by the other column; the areas on axis 0.
        children: Smaller areas of each larger one.
        axis: Axis of the smaller areas in the pair.
    """
    cells = posterior.nonnegative_cells(expected, deviation)
    drawn, left = (np.moveaxis(each, axis, 0) for each in cells)
    found = np.zeros(drawn.shape)
    for block, across in zip(children, table, strict=True):
        if block.size == 1:
            found[block] = across
        else:
            found[block] = with_margins(drawn[block], left[block], rows[block], across)
    return np.moveaxis(found, 0, axis)
