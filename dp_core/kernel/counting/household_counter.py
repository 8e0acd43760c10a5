"""Exact counts of households and their members in shares, from counts of pair rows. Confidential.

Households and persons are counted as one file of *pair rows* over the wide domain
(`dp_core.kernel.counting.linked_columns`). A household with s >= 2 members has s(s - 1) pair rows,
one for each ordered pair of different members. A household with one member, or with none, has one.

Privacy:
    *Every household adds exactly S shares to every table.* Let r(s) be the number of pair rows of a
    household with s members: s(s - 1), or 1 if s is 0 or 1. All of them have the same code of
    `members`, the one that stands for s. The weight of a pair row is w(s) = S/r(s) shares, a whole
    number, because S is a multiple of every r(s). A pair row has one code in each column, so it is
    in exactly one cell of the table over any columns. So the household adds r(s) w(s) = S shares to
    the table, in at most r(s) cells, whichever columns the table has: household columns, those of
    one member, those of another member, or some of each.

    The constructor checks r(s) w(s) = S for every code of `members`. That every household of the
    file has its r(s) pair rows is what `stored_rows` checks before the first charge.

    *Sensitivity.* So S steps, each of one share, lead from a file to a neighbouring one:
    `dp_core.kernel.cost.sensitivity.in_shares` proves what follows for tables and statistics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.codes import Codes
from dp_core.kernel.counting.domain import Clique
from dp_core.kernel.counting.linked_columns import MEMBERS, LinkedColumns, pair_rows, with_members
from dp_core.kernel.counting.marginal import Counter, Marginal


class HouseholdCounter:
    """A counter of shares of households that uses a counter of pair rows.

    It counts each clique together with `members`, and adds up over `members` with the weights of
    the pair rows. Its results are confidential if those of the other counter are.
    """

    def __init__(self, counter: Counter, linked: LinkedColumns) -> None:
        """Create a counter of shares.

        Args:
            counter: Counts the pair rows, over the wide domain.
            linked: What links the tables, with the weights.

        Raises:
            ValueError: if the weights do not give every household the same number of shares.
        """
        # privacy: every sensitivity is for units of exactly `shares` shares.
        if any(
            type(weight) is not int or weight < 1 or weight * pair_rows(members) != linked.shares
            for members, weight in zip(linked.sizes, linked.weights, strict=True)
        ):
            raise ValueError("The weights of pair rows do not add up to the shares of a household.")
        self._counter = counter
        self._weights = np.array(linked.weights, dtype=np.int64)
        self._shares = linked.shares

    def __repr__(self) -> str:
        return f"HouseholdCounter({self._shares} shares, confidential)"

    @property
    def shares(self) -> int:
        """Number of shares that every household adds to each table."""
        return self._shares

    def count(self, cliques: Sequence[Clique]) -> Mapping[Clique, Marginal]:
        """Return the exact marginal of each clique, in shares."""
        wide = {clique: with_members(clique) for clique in cliques}
        counts = self._counter.count(list(dict.fromkeys(wide.values())))
        return {clique: self._weighted(counts[wide[clique]], clique) for clique in wide}

    def _weighted(self, pairs: Marginal, clique: Clique) -> Marginal:
        axis = pairs.domain.columns.index(MEMBERS)
        if pairs.domain.sizes[axis] != len(self._weights):
            raise ValueError(f"The column {MEMBERS!r} has another number of codes than weights.")
        last = np.moveaxis(pairs.counts, axis, -1)
        # privacy: whole numbers; with fewer than 2^35 households of 20 members nothing overflows.
        if MEMBERS in clique:
            table = np.moveaxis(last * self._weights, -1, axis)
        else:
            table = (last * self._weights).sum(axis=-1, dtype=np.int64)
        return Marginal(pairs.domain.project(clique), np.asarray(table))

    def observed(self, clique: Clique) -> tuple[Codes, NDArray[np.int64]]:
        """Return the cells of a clique that hold a share, and the number of shares in each."""
        wide = with_members(clique)
        cells, counts = self._counter.observed(wide)
        shares = counts * self._weights[cells[:, wide.index(MEMBERS)]]
        if MEMBERS in clique or not len(cells):
            return cells[:, : len(clique)], shares
        # The cells are in ascending order with `members` last, so equal ones are neighbours.
        cells = cells[:, : len(clique)]
        first = np.concatenate([[True], (cells[1:] != cells[:-1]).any(axis=1)])
        (starts,) = np.nonzero(first)
        return np.ascontiguousarray(cells[starts]), np.add.reduceat(shares, starts)
