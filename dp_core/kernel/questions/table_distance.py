"""Distance of tables from public tables; adaptive methods choose tables to measure by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.domain import Clique
from dp_core.kernel.counting.marginal import Marginal
from dp_core.kernel.privacy import Neighbours
from dp_core.kernel.questions.descriptions import whole
from dp_core.kernel.questions.statistic import TableScores
from dp_core.kernel.questions.whole_numbers import saturated, times


@dataclass(frozen=True, slots=True, eq=False)
class TableDistance(TableScores):
    """Weighted L1 distance of each table of counts from a public table.

    Entry r is weights[r] (sum over cells of |grid * count - answers[r]| - offsets[r]), in units of
    1/grid record. It is the score of MST (McKenna, Miklau & Sheldon 2021), of AIM (McKenna et al.
    2022) and of MWEM on a graphical model, with the tables of the current model as answers.

    Attributes:
        cliques: Columns of each table; a clique may occur several times.
        answers: Public tables, each with its clique's shape (or flat), in units of 1/grid record.
        grid: Number of units in one record, at least 1.
        weights: Weight of each table, a whole number of at least 0.
        offsets: Public number to subtract for each table, in units of 1/grid record.
    """

    NAME: ClassVar[str] = "table-distance"
    IN_SHARES: ClassVar[bool] = True
    STATED: ClassVar[tuple[str, ...]] = ("length", "grid", "weight")

    cliques: tuple[Clique, ...]
    answers: tuple[NDArray[np.int64], ...]
    grid: int
    weights: tuple[int, ...]
    offsets: tuple[int, ...]

    def __post_init__(self) -> None:
        lengths = {len(self.cliques), len(self.answers), len(self.weights), len(self.offsets)}
        if len(lengths) != 1:
            raise ValueError("Every table has an answer, a weight and an offset.")
        if self.grid < 1 or any(weight < 0 for weight in self.weights):
            raise ValueError("A grid is at least 1, and weights are not negative.")

    @property
    def length(self) -> int:
        return len(self.cliques)

    @property
    def weight(self) -> int:
        """The largest weight, at least 1."""
        return max((1, *self.weights))

    @classmethod
    def change(cls, stated: Mapping[str, Any], neighbours: Neighbours) -> int:
        """`grid` times the largest weight, and twice that under replace-one.

        A row that is added or removed changes one cell of a table by 1, and so one term of the sum
        by at most `grid`. A replaced row changes two cells by 1, or none. Answers and offsets are
        public and equal for both files.
        """
        one = whole(stated, "grid", least=1) * whole(stated, "weight", least=1)
        return one if neighbours == "add-remove" else 2 * one

    def in_shares(self, shares: int) -> Self:
        """Return the distances from S times the answers, less S times the offsets."""
        return replace(
            self,
            answers=tuple(times(answer, shares) for answer in self.answers),
            offsets=tuple(shares * offset for offset in self.offsets),
        )

    def compute(self, counts: Mapping[Clique, Marginal]) -> NDArray[np.int64]:
        return saturated(
            weight * (_distance(counts[clique].counts, answer, self.grid) - offset)
            for clique, answer, weight, offset in zip(
                self.cliques, self.answers, self.weights, self.offsets, strict=True
            )
        )


def _distance(counts: NDArray[np.int64], answer: NDArray[np.int64], grid: int) -> int:
    """Return the sum of |grid * count - answer| over the cells, exactly. Confidential."""
    answer = answer.reshape(counts.shape)
    if not counts.size:
        return 0
    most = grid * int(counts.max()) + max(-int(answer.min()), int(answer.max()), 0)
    # privacy: no cell is larger than `most`, so below this their sum cannot overflow.
    if most * counts.size >= 2**63:
        return int(np.abs(counts.astype(object) * grid - answer.astype(object)).sum())
    return int(np.abs(counts * grid - answer).sum())
