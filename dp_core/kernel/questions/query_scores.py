"""Statistics of counting queries: counts, distances from public answers, and payoffs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.cost.sensitivity import Bounds
from dp_core.kernel.counting.domain import Clique
from dp_core.kernel.counting.marginal import Marginal
from dp_core.kernel.privacy import Neighbours
from dp_core.kernel.questions.counting_queries import Queries
from dp_core.kernel.questions.descriptions import whole
from dp_core.kernel.questions.statistic import ClaimedCodes, TableScores, TableStatistic
from dp_core.kernel.questions.whole_numbers import MOST, cut, times


@dataclass(frozen=True, slots=True, eq=False)
class _OfQueries(TableStatistic):
    """What questions about counting queries share."""

    IN_SHARES: ClassVar[bool] = True

    queries: Queries

    @property
    def length(self) -> int:
        return self.queries.length

    @property
    def cliques(self) -> tuple[Clique, ...]:
        return self.queries.cliques

    def claimed_codes(self) -> Iterable[ClaimedCodes]:
        return self.queries.claimed_codes()

    def counted(self, counts: Mapping[Clique, Marginal]) -> NDArray[np.int64]:
        """Return exact counts, shape (length,). Confidential."""
        values = self.queries.count({clique: counts[clique].counts for clique in self.cliques})
        # privacy: counts of records, never a float.
        assert values.dtype == np.int64
        return values

    def multiples(
        self,
        counts: Mapping[Clique, Marginal],
        factor: int,
        offsets: NDArray[np.int64],
        signs: int | NDArray[np.int64] = 1,
    ) -> NDArray[np.int64]:
        """Return each count times its sign and the factor, less its offset, exactly. Confidential.

        Args:
            counts: The tables that the queries are counted in.
            factor: A whole number of at least 1.
            offsets: Public numbers, shape (length,).
            signs: 1, 0 or -1 for each query; 1 (the default) for all.
        """
        exact = self.counted(counts)
        largest = max(int(offsets.max(initial=0)), -int(offsets.min(initial=0)))
        # privacy: whole numbers of any size where 64 bits might overflow.
        if factor * int(exact.max(initial=1)) + largest > MOST:
            exact, offsets = exact.astype(object), offsets.astype(object)
        return cut(signs * exact * factor - offsets)


@dataclass(frozen=True, slots=True)
class QueryCounts(_OfQueries):
    """The numbers of records of counting queries.

    Attributes:
        queries: The counting queries.
    """

    NAME: ClassVar[str] = "query-counts"

    def of_row(self, neighbours: Neighbours) -> Bounds:
        """Return 1, for a row adds 0 or 1 to a count, and what the queries prove of themselves."""
        return 1, *self.queries.norms(neighbours)

    def compute(self, counts: Mapping[Clique, Marginal]) -> NDArray[np.int64]:
        return self.counted(counts)


@dataclass(frozen=True, slots=True, eq=False)
class QueryDistance(_OfQueries, TableScores):
    """Distance of each query's count from a public answer, in units of 1/grid record.

    Entry i is |grid * count_i - answers_i|. MWEM chooses by these scores (Hardt, Ligett & McSherry
    2012, Figure 1), with the answers of its current approximation.

    Attributes:
        queries: The counting queries.
        answers: Public answers, shape (length,), in units of 1/grid record.
        grid: Number of units in one record, at least 1.
    """

    NAME: ClassVar[str] = "query-distance"
    STATED: ClassVar[tuple[str, ...]] = ("length", "grid")

    answers: NDArray[np.int64]
    grid: int

    def __post_init__(self) -> None:
        _check_shapes(self.queries, self.answers)
        if self.grid < 1:
            raise ValueError(f"A grid must be at least 1, not {self.grid}.")

    @classmethod
    def change(cls, stated: Mapping[str, Any], neighbours: Neighbours) -> int:  # noqa: ARG003
        """`grid`, under either relation.

        A row adds 0 or 1 to a query's count. So an added or removed row changes the count by 0 or
        1, and so does a replaced row, which subtracts 0 or 1 and adds 0 or 1. The answer is public
        and equal for both files, and ||x| - |y|| <= |x - y|.
        """
        return whole(stated, "grid", least=1)

    def in_shares(self, shares: int) -> Self:
        """Return the distances from S times the answers: those in units of 1/grid share."""
        return replace(self, answers=times(self.answers, shares))

    def compute(self, counts: Mapping[Clique, Marginal]) -> NDArray[np.int64]:
        return np.abs(self.multiples(counts, self.grid, self.answers))


@dataclass(frozen=True, slots=True, eq=False)
class SignedQueries(_OfQueries, TableScores):
    """Signed multiples of each query's count minus a public number.

    Entry i is signs_i * factor * count_i - offsets_i. These are the payoffs of DualQuery (Gaboardi
    et al. 2014, Algorithm 1), which has each query and, with the other sign, its complement.

    Attributes:
        queries: The counting queries.
        factor: Common factor of all counts, at least 1.
        offsets: Public numbers to subtract, shape (length,).
        signs: 1, 0 or -1 for each query, shape (length,).
    """

    NAME: ClassVar[str] = "signed-queries"
    STATED: ClassVar[tuple[str, ...]] = ("length", "factor")

    factor: int
    offsets: NDArray[np.int64]
    signs: NDArray[np.int64]

    def __post_init__(self) -> None:
        _check_shapes(self.queries, self.offsets, self.signs)
        if self.factor < 1:
            raise ValueError(f"A factor must be at least 1, not {self.factor}.")
        # privacy: a sign of 2 would be a factor twice as large as the one that is stated.
        if not np.isin(self.signs, (-1, 0, 1)).all():
            raise ValueError("Signs are 1, 0 or -1.")

    @classmethod
    def change(cls, stated: Mapping[str, Any], neighbours: Neighbours) -> int:  # noqa: ARG003
        """`factor`, under either relation.

        A row that is added, removed or replaced changes a count by 0 or 1 (see `QueryDistance`),
        and so the entry by 0 or `factor`. Offsets are public and equal for both files.
        """
        return whole(stated, "factor", least=1)

    def in_shares(self, shares: int) -> Self:
        """Return the multiples less S times the offsets."""
        return replace(self, offsets=times(self.offsets, shares))

    def compute(self, counts: Mapping[Clique, Marginal]) -> NDArray[np.int64]:
        return self.multiples(counts, self.factor, self.offsets, self.signs)


def _check_shapes(queries: Queries, *vectors: NDArray[np.int64]) -> None:
    for vector in vectors:
        if vector.shape != (queries.length,):
            raise ValueError(f"{queries.length} queries need as many numbers.")
