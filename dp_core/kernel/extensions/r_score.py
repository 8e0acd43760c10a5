"""The R score of Bayesian networks: how far a column is from independence of its parents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.domain import Clique
from dp_core.kernel.counting.marginal import Marginal
from dp_core.kernel.extensions.indif import from_independence
from dp_core.kernel.extensions.parent_candidates import CandidateScores, by_parents
from dp_core.kernel.privacy import Neighbours


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
    def change(cls, stated: Mapping[str, Any], neighbours: Neighbours) -> int:  # noqa: ARG003
        """4 under add-remove, 6 under replace-one; n is the file's own number of rows.

        Take the combinations of the parents' codes as the codes of one column. The score is then
        `InDif` of two columns, and the proof there holds for any number of codes. (The
        3/n + 2/n^2 of the paper for R is 6 + 4/n.)
        """
        return 4 if neighbours == "add-remove" else 6

    def compute(self, counts: Mapping[Clique, Marginal]) -> NDArray[np.int64]:
        return np.array(
            [from_independence(by_parents(counts, each)) for each in self.candidates],
            dtype=np.int64,
        )
