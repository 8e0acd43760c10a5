"""How far columns are from independence: InDif of pairs, the R score of Bayesian networks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.domain import Clique
from dp_core.kernel.counting.marginal import Marginal
from dp_core.kernel.extensions.parent_candidates import CandidateScores
from dp_core.kernel.privacy import Neighbours
from dp_core.kernel.questions.statistic import TableScores
from dp_core.kernel.questions.whole_numbers import saturated


@dataclass(frozen=True, slots=True)
class InDif(TableScores):
    """Distance of pairs of columns from independence (PrivSyn's InDif), in records.

    For each pair, |M_ab - M_a M_b / n|_1 over its cells, rounded to a whole number.

    Attributes:
        pairs: Pairs of different columns.
    """

    NAME: ClassVar[str] = "indif"
    IN_SHARES: ClassVar[bool] = True

    pairs: tuple[tuple[str, str], ...]

    @property
    def length(self) -> int:
        return len(self.pairs)

    @property
    def cliques(self) -> tuple[Clique, ...]:
        return self.pairs

    @classmethod
    def change(cls, stated: Mapping[str, Any], neighbours: Neighbours) -> int:  # noqa: ARG003
        """4 under add-remove, 6 under replace-one, for any number of rows.

        Write D for M_ab - M_a M_b / n, and p and q for the proportions M_a / n and M_b / n of a
        file of n rows. A row added in row i and column j replaces M by M + e_i e_j^T, so

            D' - D = n/(n + 1) (e_i - p)(e_j - q)^T,

        whose L1 norm is 4 n/(n + 1) (1 - p_i)(1 - q_j) < 4. (From an empty file to one row, both
        are 0.)

        Two files of n rows that differ in one row are the same n - 1 rows, of proportions p and q,
        with a row added in (i, j) or in (k, l). (For n = 1 both values are 0.) The terms p q^T
        cancel:

            D'' - D' = (n - 1)/n [e_k e_l^T - e_i e_j^T - (e_k - e_i) q^T - p (e_l - e_j)^T],

        whose L1 norm is at most (n - 1)/n (2 + 2 + 2) < 6.

        The unrounded values differ by no more than these norms. Rounding brings them less than 1
        further apart, so the rounded ones differ by a whole number below 5, or below 7.
        """
        return 4 if neighbours == "add-remove" else 6

    def compute(self, counts: Mapping[Clique, Marginal]) -> NDArray[np.int64]:
        return saturated(from_independence(counts[pair].counts) for pair in self.pairs)


@dataclass(frozen=True, slots=True)
class RScore(CandidateScores):
    """2 n R of PrivBayes: distance of child and parents from independence, in records.

    R is half of the L1 distance between Pr[X, P] and Pr[X] Pr[P] (Zhang et al. 2017),
    so 2 n R is |M_xP - M_x M_P / n|_1, rounded here to a whole number: InDif of a column and of all
    its parents taken as one column.

    Attributes:
        candidates: Children with parents; without parents the score is 0.
    """

    NAME: ClassVar[str] = "r-score"
    IN_SHARES: ClassVar[bool] = True

    @classmethod
    def change(cls, stated: Mapping[str, Any], neighbours: Neighbours) -> int:
        """4 under add-remove, 6 under replace-one; n is the file's own number of rows.

        Take the combinations of the parents' codes as the codes of one column. The score is then
        `InDif` of two columns, and the proof there holds for any number of codes. (The
        3/n + 2/n^2 of the paper for R is 6 + 4/n.)
        """
        return InDif.change(stated, neighbours)

    def score(self, table: NDArray[np.int64]) -> int:
        return from_independence(table)


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
