"""InDif: how far pairs of columns are from independence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_core.schema.privacy import Neighbours
from dp_core.tables.domain import Clique
from dp_core.tables.marginal import Marginal
from dp_core.wall.accounting.sensitivity import Bounds
from dp_core.wall.statistics.statistic import TableStatistic, alike


@dataclass(frozen=True, slots=True)
class InDif(TableStatistic):
    """Distance of pairs of columns from independence (PrivSyn's InDif), in records.

    For each pair, |M_ab - M_a M_b / n|_1 over its cells, rounded to a whole number.

    Attributes:
        pairs: Pairs of different columns.
    """

    NAME: ClassVar[str] = "indif"

    pairs: tuple[tuple[str, str], ...]

    @property
    def length(self) -> int:
        return len(self.pairs)

    @property
    def cliques(self) -> tuple[Clique, ...]:
        return self.pairs

    def largest_change(self, neighbours: Neighbours) -> int:
        """4 under add-remove, 7 under replace-one.

        An added row changes the unrounded value by less than 4n/(n + 1) < 4, and a replaced row by
        at most 6 + 4/n. Rounding increases a difference by less than 1. So the rounded values
        differ by a whole number that is below 5 (add-remove) or below 7 + 4/n (replace-one). For
        n >= 4 the latter is at most 7. For n <= 3 the value itself is at most 2n <= 6, and so is
        the difference.
        """
        return 4 if neighbours == "add-remove" else 7

    def compute(self, counts: Mapping[Clique, Marginal]) -> NDArray[np.int64]:
        return np.array(
            [from_independence(counts[pair].counts) for pair in self.pairs], dtype=np.int64
        )

    def to_json(self) -> dict[str, object]:
        return {"name": self.NAME, "length": self.length}

    @classmethod
    def required(cls, document: Mapping[str, Any], neighbours: Neighbours) -> Bounds:
        return alike(cls(()).largest_change(neighbours), document)


def from_independence(table: NDArray[np.int64]) -> int:
    """Return |M_ab - M_a M_b / n|_1 of a table with two axes, rounded; 0 if it is empty.

    Confidential.
    """
    # privacy: whole numbers throughout; a float sum would not have the proven sensitivity.
    n = int(table.sum())
    if n == 0:
        return 0
    # n |M_ab - M_a M_b / n| is whole, and at most 2 n^2 in sum: it fits below 2^31 rows.
    if n >= 2**31:
        table = table.astype(object)
    product = np.multiply.outer(table.sum(axis=1), table.sum(axis=0))
    scaled = int(np.abs(n * table - product).sum())
    return (2 * scaled + n) // (2 * n)
