"""The R score of Bayesian networks: how far a column is from independence of its parents."""

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
from dp_core.wall.statistics.dependence.indif import from_independence
from dp_core.wall.statistics.dependence.parent_candidates import (
    Candidate,
    by_parents,
    check_candidates,
    tables_of,
)
from dp_core.wall.statistics.statistic import TableStatistic, alike


@dataclass(frozen=True, slots=True)
class RScore(TableStatistic):
    """2 n R of PrivBayes: distance of child and parents from independence, in records.

    R is half of the L1 distance between Pr[X, P] and Pr[X] Pr[P] (Zhang et al. 2017),
    so 2 n R is |M_xP - M_x M_P / n|_1, rounded here to a whole number: InDif of a column and of all
    its parents taken as one column.

    Attributes:
        candidates: Children with parents; without parents the score is 0.
    """

    NAME: ClassVar[str] = "r-score"

    candidates: tuple[Candidate, ...]

    def __post_init__(self) -> None:
        check_candidates(self.candidates)

    @property
    def length(self) -> int:
        return len(self.candidates)

    @property
    def cliques(self) -> tuple[Clique, ...]:
        return tables_of(self.candidates)

    def largest_change(self, neighbours: Neighbours) -> int:
        """4 under add-remove, 6 under replace-one; n is the file's own number of rows.

        Take the combinations of the parents' codes as the codes of one column: nothing below
        depends on how many codes a column has. Write D for M_xP - M_x M_P / n, and p and q for the
        proportions M_x / n and M_P / n of a file of n rows. Add a row to it in row i and column j:

            D' - D = n/(n + 1) (e_i - p)(e_j - q)^T,

        by putting M + e_i e_j^T for M. Its L1 norm is 4 n/(n + 1) (1 - p_i)(1 - q_j) < 4, and what
        is rounded moves by no more. (From an empty file to one row, both are 0.) Rounding brings
        two numbers less than 1 further apart, so the scores differ by a whole number below 5.

        A row replaced is one row added in (k, l), or in (i, j), to the same n - 1 rows, so

            D'' - D' = (n - 1)/n [e_k e_l^T - e_i e_j^T - (e_k - e_i) q^T - p (e_l - e_j)^T],

        the terms p q^T having gone. Its L1 norm is at most (n - 1)/n (2 + 2 + 2) < 6, and rounded
        scores differ by a whole number below 7. (The 3/n + 2/n^2 of the paper for R is 6 + 4/n.)
        """
        return 4 if neighbours == "add-remove" else 6

    def compute(self, counts: Mapping[Clique, Marginal]) -> NDArray[np.int64]:
        return np.array(
            [from_independence(by_parents(counts, each)) for each in self.candidates],
            dtype=np.int64,
        )

    def to_json(self) -> dict[str, object]:
        return {"name": self.NAME, "length": self.length}

    @classmethod
    def required(cls, document: Mapping[str, Any], neighbours: Neighbours) -> Bounds:
        return alike(cls(()).largest_change(neighbours), document)
