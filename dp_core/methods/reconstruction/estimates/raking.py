"""Iterative proportional fitting: a table scaled until it has given margins.

Cells that are zero stay zero, and interactions that are not in the margins do not change. From a
table of ones the result is the maximum-entropy table (Deming and Stephan 1940; Ireland and Kullback
1968).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import Table
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.schema.structure.structural_zeros import StructuralZeros

MOST_CELLS = 1 << 20
"""Largest number of cells of a joint table that is made for rules of impossible cells."""

Margin: TypeAlias = tuple[Clique, NDArray[np.float64]]
"""Columns and their table, axes in the order of the table it is a margin of."""

_ROUNDS = 200
_FEW_ROUNDS = 30  # of a pair
_FLOOR = 1e-9  # part of all records put into an empty cell if margins contradict zeros


def margin(table: Table, clique: Clique) -> NDArray[np.float64]:
    """Return a table's sums over a clique of its columns, axes in the clique's order."""
    kept = [name for name in table.clique if name in clique]
    return np.asarray(table.values.sum(axis=others(table.clique, clique))).transpose(
        [kept.index(name) for name in clique]
    )


def others(clique: Clique, kept: Clique) -> tuple[int, ...]:
    """Return the axes of a clique that are not those of `kept`."""
    return tuple(axis for axis, name in enumerate(clique) if name not in kept)


def rake(
    values: NDArray[np.float64],
    clique: Clique,
    margins: Sequence[Margin],
    *,
    rounds: int,
    tolerance: float = 0.01,
) -> NDArray[np.float64]:
    """Return a table scaled until it has the given margins.

    Args:
        values: Nonnegative table with one axis per column of `clique`.
        clique: Columns of the table.
        margins: Tables of some of its columns, in the order of its axes.
        rounds: Largest number of rounds.
        tolerance: Fitting ends when no margin changes by as much, in records; 0.01 by default.
    """
    values = values.copy()
    for _ in range(rounds):
        moved = 0.0
        for columns, wanted in margins:
            moved = max(moved, _scale(values, others(clique, columns), wanted))
        if moved < tolerance:
            break
    return values


def without_dependence(
    domain: Domain,
    clique: Clique,
    one: NDArray[np.float64],
    other: NDArray[np.float64],
    *,
    zeros: StructuralZeros,
) -> NDArray[np.float64]:
    """Return the expected counts of two columns without dependence, except by impossible cells.

    Args:
        domain: All columns.
        clique: The two columns.
        one: Table of the first, in records, shape (p,).
        other: Table of the second, shape (q,), of the same total.
        zeros: Impossible cells.
    """
    product = np.multiply.outer(one, other) / max(float(one.sum()), 1e-9)
    possible = ~zeros.mask(domain.project(clique))
    if possible.all():
        return np.asarray(product)
    a, b = clique
    margins = [((a,), one), ((b,), other)]
    return rake(product * possible, clique, margins, rounds=_FEW_ROUNDS)


def rake_among_zeros(
    values: NDArray[np.float64],
    clique: Clique,
    margins: Sequence[Margin],
    *,
    rounds: int = _ROUNDS,
) -> NDArray[np.float64]:
    """Return a table scaled to margins that its zeros may contradict; it has their total.

    The mass of a margin in cells that are empty in the table is moved to its other cells, in
    proportion. If no table with these zeros has the margins, fitting ends in a cycle of tables that
    have one margin each (Gietl and Reffel, Metrika 2013); the result is the average over the cycle.

    Args:
        values: Nonnegative table with one axis per column of `clique`.
        clique: Columns of the table.
        margins: Nonnegative tables of some of its columns, of the same total; at least one.
        rounds: Largest number of rounds.
    """
    total = float(margins[0][1].sum())
    if not values.any() or total <= 0:
        return np.zeros_like(values)
    tolerance = max(0.01, 1e-6 * total)
    held = [np.asarray(values.any(axis=others(clique, columns))) for columns, _ in margins]
    reachable = [
        (columns, _reachable(wanted, possible, total))
        for (columns, wanted), possible in zip(margins, held, strict=True)
    ]
    raked = rake(values, clique, reachable, rounds=rounds, tolerance=tolerance)
    if gap(raked, clique, reachable) > tolerance:
        # An empty cell of one margin can make another margin unreachable, so it gets a little mass.
        floored = [
            (columns, np.maximum(wanted, _FLOOR * total * possible))
            for (columns, wanted), possible in zip(reachable, held, strict=True)
        ]
        last = rake(values, clique, floored, rounds=rounds, tolerance=tolerance)
        raked = np.zeros_like(values)
        for columns, wanted in floored:
            _scale(last, others(clique, columns), wanted)
            raked += last
    return np.asarray(raked * (total / raked.sum()))


def gap(values: NDArray[np.float64], clique: Clique, margins: Sequence[Margin]) -> float:
    """Return the largest difference between a table and its margins, in records."""
    return max(
        float(np.abs(values.sum(axis=others(clique, columns)) - wanted).max())
        for columns, wanted in margins
    )


def possible_joint(
    domain: Domain,
    clique: Clique,
    tables: Sequence[Table],
    zeros: StructuralZeros,
    *,
    start: NDArray[np.float64] | None = None,
    rounds: int = _ROUNDS,
) -> Table:
    """Return a clique's joint table nearest to `start` that agrees with the tables and rules.

    Args:
        domain: All columns.
        clique: Columns of the result.
        tables: Fitted tables of the same total, which together cover these columns.
        zeros: Impossible cells; they are 0 in the result.
        start: Start table, shape of the clique's sizes, any total; by default uniform, which
            gives the maximum-entropy table.
        rounds: Largest number of fitting rounds.
    """
    project = domain.project(clique)
    margins: list[Margin] = []
    found: list[set[str]] = []
    for table in sorted(tables, key=lambda table: -len(set(table.clique) & set(clique))):
        both = tuple(name for name in clique if name in table.clique)
        # A margin contained in another one adds nothing.
        if both and not any(set(both) <= other for other in found):
            found.append(set(both))
            margins.append((both, margin(table, both)))
    possible = (~zeros.mask(project)).astype(np.float64)
    values = possible if start is None else start * possible
    return Table(project, rake_among_zeros(values, clique, margins, rounds=rounds))


def _scale(
    values: NDArray[np.float64], summed: tuple[int, ...], wanted: NDArray[np.float64]
) -> float:
    """Scale a table to one margin, in place; return the largest change, in records."""
    sums = values.sum(axis=summed, keepdims=True)
    target = wanted.reshape(sums.shape)
    values *= np.divide(target, sums, out=np.zeros_like(sums), where=sums > 0)
    return float(np.abs(target - sums).max())


def _reachable(
    wanted: NDArray[np.float64], possible: NDArray[np.bool_], total: float
) -> NDArray[np.float64]:
    kept = wanted * possible
    if kept.sum() <= 0:
        kept = possible.astype(np.float64)
    return np.asarray(kept * (total / kept.sum()))
