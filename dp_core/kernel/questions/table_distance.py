"""Distance of tables from public tables, as scores for a choice or as a measure of accuracy."""

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
from dp_core.kernel.questions.statistic import TableScores, records_moved
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
        return records_moved(neighbours) * one

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


@dataclass(frozen=True, slots=True, eq=False)
class TableChecks(TableScores):
    """L1 distance between each table of counts and public reference counts, in records.

    Entry r is the sum over cells of |count - references[r]|. If both tables have equally many
    records, it is twice the number of records that must change their cell to make them equal.

    Attributes:
        cliques: Columns of each table.
        references: Public reference counts, each with its clique's shape; whole, not negative.
        shares: Shares of a unit in which the references are counted; 1 (the default) for records.
            Tables of one member or of pairs have fractions of households, so that of linked tables
            the sets are counted in shares, too.
    """

    NAME: ClassVar[str] = "table-checks"
    IN_SHARES: ClassVar[bool] = True
    STATED: ClassVar[tuple[str, ...]] = ("tables",)

    cliques: tuple[Clique, ...]
    references: tuple[NDArray[np.int64], ...]
    shares: int = 1

    def __post_init__(self) -> None:
        if len(self.cliques) != len(self.references) or not self.cliques:
            raise ValueError("Every checked table needs reference counts, and at least one table.")
        if any((each < 0).any() for each in self.references):
            raise ValueError("Reference counts are at least 0.")

    @property
    def length(self) -> int:
        return len(self.cliques)

    @property
    def tables(self) -> list[list[str]]:
        """Columns of each table, as a receipt states them."""
        return [*map(list, self.cliques)]

    @classmethod
    def change(cls, stated: Mapping[str, Any], neighbours: Neighbours) -> int:  # noqa: ARG003
        """1, and 2 under replace-one: that of `TableDistance` of weight 1 in whole records."""
        return records_moved(neighbours)

    @classmethod
    def entries(cls, stated: Mapping[str, Any]) -> int:
        tables = stated["tables"]
        # privacy: the sensitivity grows with the number of tables, and an empty list has none.
        if type(tables) is not list or not tables or not all(type(t) is list for t in tables):
            raise ValueError("Checked tables must be a non-empty list of lists of columns.")
        return len(tables)

    def in_shares(self, shares: int) -> Self:
        """Return the distances in shares: the references must be in shares already.

        Raises:
            ValueError: if they are in other units.
        """
        if self.shares != shares:
            raise ValueError(
                f"Reference counts must be in units of 1/{shares} of a record, not 1/{self.shares}."
            )
        return self

    def compute(self, counts: Mapping[Clique, Marginal]) -> NDArray[np.int64]:
        return saturated(
            _distance(counts[clique].counts, reference, 1)
            for clique, reference in zip(self.cliques, self.references, strict=True)
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
