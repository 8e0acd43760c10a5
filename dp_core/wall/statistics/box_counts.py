"""Counts of records in disjoint public boxes of codes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.codes import Codes
from dp_core.wall.statistics.descriptions import names, wholes
from dp_core.wall.statistics.statistic import DisjointCounts
from dp_core.wall.statistics.whole_numbers import MOST_CODES

MOST_BOXES = 4096
"""Largest number of boxes; they are compared pair by pair."""
_PART = 256  # boxes that are compared with all others at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxCounts(DisjointCounts):
    """Numbers of records in boxes of codes, no two of which overlap. Unit: records.

    A record is in a box if each of its codes is in the box's range of that column. A record in no
    box is not counted.

    Attributes:
        columns: Columns of the boxes.
        sizes: Number of codes of each column.
        boxes: For each box the first code and the end (one more than the last code) of its range in
            each column, in the order of the columns: two numbers for each column.
    """

    NAME: ClassVar[str] = "box-counts"

    boxes: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        if not self.columns or len({*self.columns}) != len(self.columns):
            raise ValueError("Boxes need columns, all different.")
        if len(self.columns) != len(self.sizes):
            raise ValueError("Every column of the boxes needs a size.")
        if any(not 1 <= size <= MOST_CODES for size in self.sizes):
            raise ValueError(f"A column has 1 to {MOST_CODES:,} codes.")
        if not 1 <= len(self.boxes) <= MOST_BOXES:
            raise ValueError(f"There are 1 to {MOST_BOXES:,} boxes.")
        if any(len(box) != 2 * len(self.columns) for box in self.boxes):
            raise ValueError("A box has two numbers for each column.")
        for box in self.boxes:
            ranges = zip(box[::2], box[1::2], self.sizes, strict=True)
            if any(not 0 <= low < high <= size for low, high, size in ranges):
                raise ValueError("A box's ranges are not empty, and within the column's codes.")
        # privacy: a record is in at most one box.
        if _overlap(np.array(self.boxes, dtype=np.int64)):
            raise ValueError("Two boxes overlap.")

    @property
    def length(self) -> int:
        return len(self.boxes)

    def total(self, cells: Codes, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        codes = np.ascontiguousarray(cells.T, dtype=np.int64)
        found = np.zeros(self.length, dtype=np.int64)
        for number, box in enumerate(self.boxes):
            inside = np.arange(codes.shape[1])
            for column, low, high in zip(codes, box[::2], box[1::2], strict=True):
                there = column[inside]
                inside = inside[(there >= low) & (there < high)]
            found[number] = counts[inside].sum()
        return found

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.NAME,
            "columns": list(self.columns),
            "sizes": list(self.sizes),
            "boxes": [list(box) for box in self.boxes],
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        boxes = document["boxes"]
        if not isinstance(boxes, list):
            raise ValueError("Boxes must be a list.")
        return cls(
            columns=names(document["columns"]),
            sizes=wholes(document["sizes"]),
            boxes=tuple(wholes(box) for box in boxes),
        )


def _overlap(boxes: NDArray[np.int64]) -> bool:
    """Return whether two boxes have a combination of codes in common, exactly."""
    lows, highs = boxes[:, ::2], boxes[:, 1::2]
    for first in range(0, len(boxes), _PART):
        some = slice(first, first + _PART)
        both = np.ones((len(boxes[some]), len(boxes)), dtype=bool)
        for low, high in zip(lows.T, highs.T, strict=True):
            both &= (low[some, None] < high) & (low < high[some, None])
        # Every box overlaps with itself, and with no other.
        if both.sum() != len(both):
            return True
    return False
