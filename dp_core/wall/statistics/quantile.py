"""How near a cut of a numeric column is to a quantile of the records of a range."""

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
from dp_core.wall.statistics.descriptions import whole
from dp_core.wall.statistics.statistic import TableStatistic, alike
from dp_core.wall.statistics.whole_numbers import MOST, saturated


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantile(TableStatistic):
    """Minus the distance of each cut of a range from a quantile, in 1/of records.

    A cut at position c has the records at positions low to c - 1 below it, and those at c to high -
    1 above. With B below and A above, the entry of c is -|(of - part) B - part A|, a whole number:
    0 where B is the part part/of of the range's records. What is outside the range, as every
    missing number is, counts for neither. Chosen by, it is the exponential mechanism for quantiles
    (Smith 2011), which Kaplan, Schnapp & Stemmer (2022) use range by range.

    Attributes:
        column: Of positions on a grid.
        low, high: The range: positions low to high - 1, of which there are at least two. Its
            entries are the cuts low + 1 to high - 1.
        part, of: The quantile as a fraction, 0 < part < of.
    """

    NAME: ClassVar[str] = "quantile"

    column: str
    low: int
    high: int
    part: int
    of: int

    def __post_init__(self) -> None:
        if not 0 <= self.low < self.high - 1:
            raise ValueError("A range that is cut has two positions or more.")
        if not 0 < self.part < self.of:
            raise ValueError("A quantile is a fraction between 0 and 1.")

    @property
    def length(self) -> int:
        return self.high - self.low - 1

    @property
    def cliques(self) -> tuple[Clique, ...]:
        return ((self.column,),)

    def largest_change(self, neighbours: Neighbours) -> int:
        """The larger of part and of - part under add-remove, `of` under replace-one.

        The range and the cuts are public, the same for both files. For one cut write g = (of -
        part) B - part A. A row added raises B by 1, so that g rises by of - part, or A by 1, so
        that g falls by part, or neither: by at most the larger of both. A row replaced is one that
        goes and one that comes. If both are in the range, g moves by 0, or by (of - part) + part =
        of where one was below and the other is above; otherwise as if one row came or went, by less
        than that. And ||x| - |y|| <= |x - y|. All is whole, and nothing is rounded.
        """
        if neighbours == "add-remove":
            return max(self.part, self.of - self.part)
        return self.of

    def compute(self, counts: Mapping[Clique, Marginal]) -> NDArray[np.int64]:
        inside = counts[self.column,].counts[self.low : self.high]
        # privacy: whole numbers of any size; no float and no overflow.
        if self.of * int(inside.sum()) >= MOST:
            inside = inside.astype(object)
        below = np.cumsum(inside)
        above = below[-1] - below
        distance = np.abs((self.of - self.part) * below[:-1] - self.part * above[:-1])
        return saturated(-distance) if distance.dtype == object else -distance

    def to_json(self) -> dict[str, object]:
        return {
            "name": self.NAME,
            "column": self.column,
            "low": self.low,
            "length": self.length,
            "part": self.part,
            "of": self.of,
        }

    @classmethod
    def required(cls, document: Mapping[str, Any], neighbours: Neighbours) -> Bounds:
        part, of = whole(document, "part", least=1), whole(document, "of", least=2)
        if part >= of:
            raise ValueError("A quantile is a fraction between 0 and 1.")
        change = cls(column="", low=0, high=2, part=part, of=of).largest_change(neighbours)
        return alike(change, document)
