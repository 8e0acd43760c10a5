"""Scores of cuts of a numeric column by their distance from a quantile of the records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.domain import Clique
from dp_core.kernel.counting.marginal import Marginal
from dp_core.kernel.privacy import Neighbours
from dp_core.kernel.questions.descriptions import whole
from dp_core.kernel.questions.statistic import TableScores
from dp_core.kernel.questions.whole_numbers import MOST, cut


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantile(TableScores):
    """Negative distance of each cut of a range from a quantile, in units of 1/`of` record.

    A cut at position c has B records at positions low to c - 1 below it and A records at positions
    c to high - 1 above it. Its entry is the whole number -|(of - part) B - part A|, which is 0 if B
    is the fraction part/of of the range's records. Records outside the range, including all missing
    numbers, do not count. A choice by these scores is the exponential mechanism for quantiles
    (Smith 2011), which Kaplan, Schnapp & Stemmer (2022) apply to one range after another.

    Attributes:
        column: Name of a column of positions on a grid.
        low, high: The range: positions low to high - 1, at least two. The entries are the cuts
            low + 1 to high - 1.
        part, of: The quantile as a fraction, 0 < part < of.
    """

    NAME: ClassVar[str] = "quantile"
    IN_SHARES: ClassVar[bool] = True
    STATED: ClassVar[tuple[str, ...]] = ("column", "low", "length", "part", "of")

    column: str
    low: int
    high: int
    part: int
    of: int

    def __post_init__(self) -> None:
        if not 0 <= self.low < self.high - 1:
            raise ValueError("A range must have at least two positions.")
        if not 0 < self.part < self.of:
            raise ValueError("A quantile must be a fraction between 0 and 1.")

    @property
    def length(self) -> int:
        return self.high - self.low - 1

    @property
    def cliques(self) -> tuple[Clique, ...]:
        return ((self.column,),)

    @classmethod
    def change(cls, stated: Mapping[str, Any], neighbours: Neighbours) -> int:
        """The larger of part and of - part under add-remove, `of` under replace-one.

        The range and the cuts are public and equal for both files. For one cut let g = (of - part)
        B - part A. An added row raises B by 1, so that g rises by of - part; or raises A by 1, so
        that g falls by part; or changes neither. So g changes by at most the larger of both. A
        replaced row is one removed and one added. If both are in the range, g changes by 0, or by
        (of - part) + part = of if one is below the cut and the other above it. Otherwise g changes
        as for at most one added or removed row, which is less. Taking absolute values does not
        increase a difference: ||x| - |y|| <= |x - y|. All values are whole, and nothing is rounded.
        """
        part, of = whole(stated, "part", least=1), whole(stated, "of", least=2)
        if part >= of:
            raise ValueError("A quantile is a fraction between 0 and 1.")
        return max(part, of - part) if neighbours == "add-remove" else of

    def compute(self, counts: Mapping[Clique, Marginal]) -> NDArray[np.int64]:
        inside = counts[self.column,].counts[self.low : self.high]
        # privacy: integers of any size, so that there is no rounding and no overflow.
        if self.of * int(inside.sum()) >= MOST:
            inside = inside.astype(object)
        below = np.cumsum(inside)
        above = below[-1] - below
        return cut(-np.abs((self.of - self.part) * below[:-1] - self.part * above[:-1]))
