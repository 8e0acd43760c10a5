"""Sets of columns that may be a column's parents in a Bayesian network. Uses public values only.

A set is a candidate if its table with the child is small enough to be useful, and no column can be
added to it (Zhang et al., ACM TODS 2017, Section 5, Algorithm 5). If there are more candidates than
a limit, a random part of them is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dp_core.kernel.counting.domain import Clique, Domain

_VISITS = 20_000  # steps of an exhaustive search before sets are drawn at random instead
_TRIALS = 4  # draws per requested set


def maximal_sets(
    sizes: Mapping[str, int],
    *,
    cells: int,
    degree: int | None,
    most: int,
    rng: np.random.Generator,
) -> tuple[Clique, ...]:
    """Return the maximal sets of columns within the limits.

    Args:
        sizes: Number of codes of each column.
        cells: Largest number of cells of a set's joint table.
        degree: Largest number of columns of a set; None for any number.
        most: Number of sets up to which all are returned; of more, a random part is returned.
        rng: Generator of the random part.

    Returns:
        The sets, each with columns in the order of `sizes`; at least the empty set.

    >>> rng = np.random.default_rng(0)
    >>> maximal_sets({"a": 2, "b": 3, "c": 4}, cells=8, degree=None, most=9, rng=rng)
    (('a', 'c'), ('a', 'b'))
    """
    limit = len(sizes) if degree is None else min(degree, len(sizes))
    order = sorted(sizes, key=lambda name: -sizes[name])
    found: list[set[str]] = []
    visits = 0

    def search(position: int, chosen: Clique, used: int, left_out: int) -> bool:
        """List the maximal sets that extend `chosen`; return False if there are too many.

        `left_out` is the size of the smallest column that was skipped, 0 for none.
        """
        nonlocal visits
        visits += 1
        if visits > _VISITS or len(found) > most:
            return False
        full = len(chosen) == limit
        if full or position == len(order):
            if full or not left_out or used * left_out > cells:
                found.append(set(chosen))
            return True
        name = order[position]
        fits = used * sizes[name] <= cells
        if fits and not search(position + 1, (*chosen, name), used * sizes[name], left_out):
            return False
        if not fits:
            return search(position + 1, chosen, used, left_out)
        smallest = min(left_out or sizes[name], sizes[name])
        return search(position + 1, chosen, used, smallest)

    if not search(0, (), 1, 0):
        found = _draw_parents(sizes, cells, limit, most, rng)
    return tuple(tuple(name for name in sizes if name in chosen) for chosen in found)


def candidates(
    domain: Domain,
    done: Sequence[str],
    *,
    cells: int,
    degree: int | None,
    most: int,
    rng: np.random.Generator,
) -> tuple[tuple[str, Clique], ...]:
    """Return the possible next columns of a network, each with its possible sets of parents.

    Args:
        domain: All columns.
        done: Columns that are in the network already.
        cells: Largest number of cells of a child's table with its parents; a child that alone has
            more gets no parents.
        degree: Largest number of parents; None for any number.
        most: Approximate number of results; every remaining column has at least one.
        rng: Generator of the choice if there are more.
    """
    parents = {name: domain.project((name,)).size() for name in domain.columns if name in done}
    children = [name for name in domain.columns if name not in done]
    each = max(1, most // max(len(children), 1))
    by_cells: dict[int, tuple[Clique, ...]] = {}
    found: list[tuple[str, Clique]] = []
    for child in children:
        room = cells // domain.size((child,))
        if room not in by_cells:
            by_cells[room] = maximal_sets(parents, cells=room, degree=degree, most=most, rng=rng)
        sets = by_cells[room]
        if len(sets) > each:
            kept = np.sort(rng.choice(len(sets), size=each, replace=False))
            sets = tuple(sets[index] for index in kept)
        found += [(child, chosen) for chosen in sets]
    return tuple(found)


def _draw_parents(
    sizes: Mapping[str, int], cells: int, limit: int, most: int, rng: np.random.Generator
) -> list[set[str]]:
    """Return some maximal sets, each filled with columns in a random order."""
    names = list(sizes)
    found: dict[frozenset[str], None] = {}
    for _ in range(_TRIALS * most):
        chosen: list[str] = []
        used = 1
        for index in rng.permutation(len(names)):
            size = sizes[names[index]]
            if len(chosen) < limit and used * size <= cells:
                chosen.append(names[index])
                used *= size
        found[frozenset(chosen)] = None
        if len(found) == most:
            break
    return [set(chosen) for chosen in found]
