"""Elimination of columns from a graph, compiled: selections try thousands of graphs."""

from __future__ import annotations

import numba
import numpy as np


@numba.njit(nogil=True, cache=True)
def _price(edges, left, sizes, one):  # type: ignore[no-untyped-def]
    """Return the cells of a column's clique, and the edges that its elimination adds."""
    cells = sizes[one]
    fill = 0.0
    for two in range(sizes.size):
        if not (left[two] and two != one and edges[one, two]):
            continue
        cells *= sizes[two]
        for three in range(two + 1, sizes.size):
            joined = left[three] and three != one and edges[one, three]
            if joined and not edges[two, three]:
                fill += 1.0
    return cells, fill


@numba.njit(nogil=True, cache=True)
def eliminate(adjacent, sizes, by_fill):  # type: ignore[no-untyped-def]
    """Return the cliques of a triangulation, and their total number of cells.

    Columns are eliminated one by one, and the neighbours of an eliminated column are connected. The
    next column is the one whose clique has the fewest cells, or adds the fewest edges; the other
    rule breaks ties.

    Args:
        adjacent: Whether two columns share a table, shape (columns, columns).
        sizes: Number of codes of each column, shape (columns,).
        by_fill: Whether added edges decide first, and cells break ties.

    Returns:
        The maximal cliques as rows, shape (cliques, columns), and the sum of their cells.
    """
    columns = sizes.size
    edges = adjacent.copy()
    left = np.ones(columns, dtype=np.bool_)
    cliques = np.zeros((columns, columns), dtype=np.bool_)
    prices = np.empty((columns, 2))
    stale = np.ones(columns, dtype=np.bool_)  # the price of a column, since edges changed near it
    found = 0
    total = 0.0
    for _ in range(columns):
        best = -1
        best_cells = best_fill = np.inf
        for one in range(columns):
            if not left[one]:
                continue
            if stale[one]:
                prices[one] = _price(edges, left, sizes, one)
                stale[one] = False
            cells, fill = prices[one, 0], prices[one, 1]
            if by_fill:
                better = fill < best_fill or (fill == best_fill and cells < best_cells)
            else:
                better = cells < best_cells or (cells == best_cells and fill < best_fill)
            if better:
                best, best_cells, best_fill = one, cells, fill
        clique = np.zeros(columns, dtype=np.bool_)
        clique[best] = True
        for two in range(columns):
            if left[two] and two != best and edges[best, two]:
                clique[two] = True
        for two in range(columns):
            if not clique[two] or two == best:
                continue
            stale[two] = True
            for three in range(columns):
                if best_fill and edges[two, three]:
                    stale[three] = True
                if clique[three] and three != two and three != best:
                    edges[two, three] = True
        left[best] = False
        # A later clique can only be a subset of an earlier one, because columns are eliminated.
        inside = False
        for other in range(found):
            held = True
            for two in range(columns):
                if clique[two] and not cliques[other, two]:
                    held = False
                    break
            if held:
                inside = True
                break
        if not inside:
            # Element by element, because assigning an array to a slice takes three seconds to
            # compile.
            for two in range(columns):
                cliques[found, two] = clique[two]
            found += 1
            total += best_cells
    return cliques[:found], total
