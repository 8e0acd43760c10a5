"""The F score of Bayesian networks of binary columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.extensions.parent_candidates import CandidateScores
from dp_core.kernel.privacy import Neighbours


@dataclass(frozen=True, slots=True)
class FScore(CandidateScores):
    """2 n F of PrivBayes: how closely the parents determine a binary child, in records.

    Divide the combinations of the parents' codes into two groups. Let k0 be the number of records
    with child 0 in the first group, and k1 the number with child 1 in the second. Then 2 n F is
    minus the minimum of (n - 2 k0)+ + (n - 2 k1)+ over all divisions, a whole number between -2 n
    and 0. F is the score of Zhang et al. (2017) for binary columns.

    Attributes:
        candidates: Binary children with their parents. Parents may have any number of codes, and a
            child may have none.
    """

    NAME: ClassVar[str] = "f-score"
    NOT_IN_SHARES: ClassVar[str] = (
        "it takes time in proportion to the number of shares. Use the R score (`r-score`)."
    )

    @classmethod
    def change(cls, stated: Mapping[str, Any], neighbours: Neighbours) -> int:  # noqa: ARG003
        """2, under either relation.

        For one split write g = (n - 2 k0)+ + (n - 2 k1)+. A row added raises n by 1 and, at most,
        one of k0 and k1 by 1. If neither, both terms rise by 0 or 1; if k0, the first term, of
        n - 2 k0 less 1, falls by 0 or 1 while the second rises by 0 or 1. So g moves by -1 to 2.
        A row replaced leaves n: the one that goes takes 1 from k0, or from k1, or from neither, so
        that g rises by 0 to 2; the one that comes lets g fall by 0 to 2. So g moves by -2 to 2.
        The smallest of numbers that move by at most 2 moves by at most 2. The value is whole, and
        nothing is rounded. (F itself: 1/n for replaced rows, as in the paper.)
        """
        return 2

    def score(self, table: NDArray[np.int64]) -> int:
        """Return minus the smallest (n - 2 k0)+ + (n - 2 k1)+ over all splits, exactly.

        One combination of the parents after the other, it keeps for every k0 that can be reached
        the largest k1 that goes with it; no k0 above half of the records is told from another.
        Takes time n/2 for each combination that has a choice.

        Raises:
            ValueError: if the child has more than two codes.
        """
        if table.shape[0] > 2:
            raise ValueError("The F score needs binary columns; for others use the R score.")
        n = int(table.sum())
        zeros = table[0]
        ones = table[1] if table.shape[0] == 2 else np.zeros_like(zeros)
        # A combination with one kind of records only stands for it in a best split.
        start, least_ones = int(zeros[ones == 0].sum()), int(ones[zeros == 0].sum())
        half = (n + 1) // 2
        best = np.full(half + 1, -2 * n - 1, dtype=np.int64)
        best[min(start, half)] = least_ones
        for column in np.flatnonzero((zeros > 0) & (ones > 0)):
            zero, one = int(zeros[column]), int(ones[column])
            as_one = best + one
            if zero < half:
                np.maximum(as_one[zero:half], best[: half - zero], out=as_one[zero:half])
            # Whatever reaches half of the records, or more, is held at half of them.
            as_one[half] = max(as_one[half], best[max(half - zero, 0) :].max())
            best = as_one
        reached = np.flatnonzero(best >= 0)
        missing = np.maximum(n - 2 * reached, 0) + np.maximum(n - 2 * best[reached], 0)
        return -int(missing.min())
