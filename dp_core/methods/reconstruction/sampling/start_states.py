"""Records in a kept cell of every table, the possible starts of a Gibbs sampler.

The tables are joined one after the other. Only the most likely partial records are kept at each
step, which bounds the work. All decisions depend on public noisy counts only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.codes import Codes
from dp_core.kernel.counting.domain import Clique

MOST_STATES = 1 << 13
"""Largest number of partial records that are kept after each table."""

BRANCHES = 8
"""Average number of continuations considered per partial record."""


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Kept cells of one table.

    Attributes:
        clique: Columns of the table.
        axes: Positions of these columns in a complete record.
        codes: Codes of the cells, shape (cells, columns).
        weights: Noisy counts, positive, shape (cells,).
    """

    clique: Clique
    axes: tuple[int, ...]
    codes: Codes
    weights: NDArray[np.int64]


def start_states(tables: Sequence[Cells], columns: int) -> tuple[Codes, NDArray[np.float64]]:
    """Return records that lie in a kept cell of every table, and a probability for each.

    Args:
        tables: Tables with at least one kept cell each; together they cover every column.
        columns: Number of columns of a record.

    Returns:
        Codes, shape (states, columns), at most `MOST_STATES` states, the most likely first; and
        probabilities proportional to the product of the tables' conditional weights. There can be
        no state because none exists, or because the most likely partial records have no
        continuation.
    """
    kind = np.result_type(*(table.codes.dtype for table in tables))
    states = np.zeros((1, columns), dtype=kind)
    logs = np.zeros(1)
    known: set[int] = set()
    left = list(tables)
    while left and len(states):
        # The table with the fewest columns that are not known yet; among these the smallest.
        best = min(left, key=lambda one: (len(set(one.axes) - known), len(one.weights)))
        left.remove(best)
        states, logs = _joined(states, logs, best, known)
        known |= set(best.axes)
        order = np.argsort(-logs, kind="stable")[:MOST_STATES]
        states, logs = states[order], logs[order]
    if not len(states):
        return states, logs
    chances = np.exp(logs - logs.max())
    return states, chances / chances.sum()


def _joined(
    states: Codes, logs: NDArray[np.float64], table: Cells, known: set[int]
) -> tuple[Codes, NDArray[np.float64]]:
    """Return the partial records joined with the matching cells of one more table."""
    shared = [place for place, axis in enumerate(table.axes) if axis in known]
    axes = [table.axes[place] for place in shared]
    both = np.concatenate((table.codes[:, shared], states[:, axes]))
    group = np.zeros(len(both), dtype=np.int64)
    if shared:
        group = np.unique(both, axis=0, return_inverse=True)[1].ravel()
    of_cell, of_state = group[: len(table.codes)], group[len(table.codes) :]
    groups = int(group.max()) + 1
    # Sort cells by group, within a group by decreasing weight.
    order = np.lexsort((-table.weights, of_cell))
    counts = np.bincount(of_cell, minlength=groups)
    starts = np.cumsum(counts) - counts
    total = np.bincount(of_cell, weights=table.weights, minlength=groups)
    most = max(1, BRANCHES * MOST_STATES // len(states))
    times = np.minimum(counts[of_state], most)
    state = np.repeat(np.arange(len(states)), times)
    nth = np.arange(len(state)) - np.repeat(np.cumsum(times) - times, times)
    cell = order[starts[of_state[state]] + nth]
    found = states[state]
    found[:, list(table.axes)] = table.codes[cell]
    return found, logs[state] + np.log(table.weights[cell] / total[of_cell[cell]])
