"""Cosine transform of a histogram: the norm of the coefficients that are left out.

A histogram x of n bins has the coefficients C_j = sum over bins b of x_b cos(pi j (2 b + 1)/(2 n)),
j = 0 to n - 1 (DCT-II). They are counted in units of 1/`GRID`: every cosine is first rounded to a
multiple of that unit, so a coefficient is a sum of integers over records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from math import isqrt
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.domain import Clique
from dp_core.kernel.counting.marginal import Marginal
from dp_core.kernel.privacy import Neighbours
from dp_core.kernel.questions.linear_questions import GRID, CosineSums, OfBins, check_edges, cosines
from dp_core.kernel.questions.statistic import TableScores
from dp_core.kernel.questions.whole_numbers import MOST, check_work, saturated

_BLOCK = 256


def coefficients(counts: NDArray[np.int64]) -> list[int]:
    """Return all C_j as whole numbers of 1/GRID, exactly, from the bins' counts. Confidential."""
    # privacy: integers of any size, so that there is no rounding and no overflow.
    exact = counts.astype(object) if int(counts.sum()) >= MOST // GRID else counts
    found: list[int] = []
    for start in range(0, counts.size, _BLOCK):
        some = np.arange(start, min(start + _BLOCK, counts.size))
        found += (cosines(counts.size, some) @ exact).tolist()
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class CosineTails(OfBins, TableScores):
    """Minus the norm of the coefficients that are lost if only k are kept, minus a price.

    Entry k - 1 is minus the integer part of the Euclidean norm of the orthonormal coefficients
    sqrt(2/n) C_j, j = k to n - 1, minus the price of k, in units of 1/GRID record. The enhanced
    Fourier perturbation algorithm chooses k by these scores (Acs, Castelluccia & Chen 2012), with
    the expected size of the noise as the price.

    Attributes:
        column: Name of the numeric column.
        edges: First code of each bin, from 0, and then the number of codes that are not missing.
        prices: Public price of each k from 1, in units of 1/GRID record.
    """

    NAME: ClassVar[str] = "cosine-tails"
    NOT_IN_SHARES: ClassVar[str] = CosineSums.NOT_IN_SHARES
    STATED: ClassVar[tuple[str, ...]] = ("column", "bins", "length")

    column: str
    edges: tuple[int, ...]
    prices: tuple[int, ...]

    def __post_init__(self) -> None:
        check_edges(self.edges, self.edges[-1])
        check_work(self.bins**2)
        if not 1 <= len(self.prices) <= self.bins:
            raise ValueError("A histogram of n bins needs 1 to n prices.")
        if any(not 0 <= price <= MOST for price in self.prices):
            raise ValueError("Prices are whole numbers from 0.")

    @property
    def length(self) -> int:
        return len(self.prices)

    @property
    def cliques(self) -> tuple[Clique, ...]:
        return ((self.column,),)

    @classmethod
    def change(cls, stated: Mapping[str, Any], neighbours: Neighbours) -> int:  # noqa: ARG003
        """GRID + 2 under add-remove; under replace-one the integer part of sqrt(2) GRID, plus 4.

        The n orthonormal cosines of one bin are a vector of length 1 (the transform is orthogonal),
        so those from k >= 1 on are no longer. Each is rounded: GRID cos is off by less than 1, with
        the factor sqrt(2/n), so the vector of at most n such errors is no longer than sqrt(2). An
        added record thus moves the vector of orthonormal coefficients by at most GRID + sqrt(2); a
        replaced one by the difference of two such vectors, of length at most sqrt(2) GRID plus
        2 sqrt(2): two bins' cosines are orthogonal, and taking some entries of their difference
        does not lengthen it. The norm moves by no more (triangle inequality). The whole parts of
        two numbers differ by at most their difference rounded up. Prices are public. A record
        whose value is missing, or none, changes nothing.
        """
        if neighbours == "add-remove":
            return GRID + 2
        return isqrt(2 * GRID**2) + 4

    def compute(self, counts: Mapping[Clique, Marginal]) -> NDArray[np.int64]:
        edges = np.asarray(self.edges)
        bins = np.add.reduceat(counts[self.column,].counts[: edges[-1]], edges[:-1])
        # Entry i is the sum of the squares of the last i coefficients.
        lost = [0, *accumulate(each**2 for each in reversed(coefficients(bins)))]
        # privacy: whole numbers of any size; the root is the exact whole part.
        return saturated(
            -isqrt(2 * lost[bins.size - kept] // bins.size) - price
            for kept, price in enumerate(self.prices, start=1)
        )
