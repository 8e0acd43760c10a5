"""Integer statistics other than counts that the curator may release, with proven sensitivities.

This list is closed on purpose: a method asks for one of these, it cannot bring its own. To add a
statistic is to add a proof here and an audit in `tests/distributions`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dp_core.domain import Clique
from dp_core.marginals import Marginal
from dp_core.privacy import Neighbours


class Statistic(Protocol):
    """A vector of whole numbers computed from exact marginals."""

    @property
    def length(self) -> int:
        """Number of entries."""

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """Marginals it is computed from."""

    def largest_change(self, neighbours: Neighbours) -> int:
        """How far one row can move any one entry."""

    def compute(self, counts: Mapping[Clique, Marginal]) -> NDArray[np.int64]:
        """Return the exact values, shape (length,). Confidential."""


@dataclass(frozen=True, slots=True)
class InDif:
    """Distance of pairs of columns from independence (PrivSyn's InDif), in records.

    For each pair, |M_ab - M_a M_b / n|_1 over its cells, rounded to a whole number.

    Attributes:
        pairs: Pairs of different columns.
    """

    pairs: tuple[tuple[str, str], ...]

    @property
    def length(self) -> int:
        return len(self.pairs)

    @property
    def cliques(self) -> tuple[Clique, ...]:
        return self.pairs

    def largest_change(self, neighbours: Neighbours) -> int:
        """4 under add-remove, 7 under replace-one.

        One row added moves the unrounded value by less than 4n/(n + 1) < 4, one row replaced by at
        most 6 + 4/n. Rounding moves a difference of d by less than 1, so the rounded values differ
        by a whole number below 5, and by less than 7 + 4/n: for n >= 4 that is at most 7. For
        n <= 3 the value itself is at most 2n <= 6, and so is the difference.
        """
        return 4 if neighbours == "add-remove" else 7

    def compute(self, counts: Mapping[Clique, Marginal]) -> NDArray[np.int64]:
        # privacy: whole numbers throughout; a float sum would not have the proven sensitivity.
        values = np.zeros(len(self.pairs), dtype=np.int64)
        for index, pair in enumerate(self.pairs):
            table = counts[pair].counts
            n = int(table.sum())
            if n == 0:
                continue
            # n |M_ab - M_a M_b / n| is whole, and at most 2 n^2 in sum: it fits below 2^31 rows.
            if n >= 2**31:
                table = table.astype(object)
            product = np.multiply.outer(table.sum(axis=1), table.sum(axis=0))
            scaled = int(np.abs(n * table - product).sum())
            values[index] = (2 * scaled + n) // (2 * n)
        return values


VETTED: tuple[type, ...] = (InDif,)
"""Statistics whose sensitivity is proven in this module."""


def sensitivities(statistic: Statistic, neighbours: Neighbours) -> tuple[int, int]:
    """Return L1 and squared L2 sensitivity of a statistic: every entry may move by its largest.

    Raises:
        TypeError: if the statistic is not one whose sensitivity is proven here.
    """
    # privacy: a sensitivity is believed only where it is proven.
    if type(statistic) not in VETTED:
        raise TypeError(f"{type(statistic).__name__} has no proven sensitivity.")
    change = statistic.largest_change(neighbours)
    return change * statistic.length, change**2 * statistic.length
