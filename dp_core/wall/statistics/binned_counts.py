"""Counts of the cells of a table in which numeric columns are cut into public bins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dp_core.tables.codes import Codes
from dp_core.wall.statistics.descriptions import names, wholes
from dp_core.wall.statistics.statistic import DisjointCounts
from dp_core.wall.statistics.whole_numbers import MOST_CODES, cell_numbers

MOST_CELLS = 2**26
"""Largest number of cells of a table; its counts need half a gigabyte, its noise ten minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BinnedCounts(DisjointCounts):
    """Numbers of records by levels of some columns and bins of others. Unit: records.

    The entries are a table with an axis for each column, flattened row by row.

    Attributes:
        columns: Columns of the table.
        sizes: Number of codes of each column.
        edges: For each column, the first code of every bin, from 0, and then the number of codes;
            None for a column without bins, whose codes are separate levels.
    """

    NAME: ClassVar[str] = "binned-counts"

    edges: tuple[tuple[int, ...] | None, ...]

    def __post_init__(self) -> None:
        if len({*self.columns}) != len(self.columns):
            raise ValueError("The columns of a table must be different.")
        if not len(self.columns) == len(self.sizes) == len(self.edges):
            raise ValueError("Every column of a table needs a size, and edges or None.")
        for size, each in zip(self.sizes, self.edges, strict=True):
            if not 1 <= size <= MOST_CODES:
                raise ValueError(f"A column has 1 to {MOST_CODES:,} codes.")
            # privacy: every code is in exactly one bin, so every record is in exactly one cell.
            if each is not None and not (
                len(each) > 1
                and each[0] == 0
                and each[-1] == size
                and all(one < other for one, other in pairwise(each))
            ):
                raise ValueError("Edges must ascend from 0 to the number of codes.")
        if self.length > MOST_CELLS:
            raise ValueError(f"A table has at most {MOST_CELLS} cells.")

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of levels or bins of each column."""
        return tuple(
            size if each is None else len(each) - 1
            for size, each in zip(self.sizes, self.edges, strict=True)
        )

    @property
    def length(self) -> int:
        return prod(self.shape)

    def total(self, cells: Codes, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        codes = cells.astype(np.int64)
        for axis, each in enumerate(self.edges):
            if each is not None:
                codes[:, axis] = np.searchsorted(each, codes[:, axis], side="right") - 1
        found = np.zeros(self.length, dtype=np.int64)
        np.add.at(found, cell_numbers(codes, self.shape), counts)
        return found

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.NAME,
            "columns": list(self.columns),
            "sizes": list(self.sizes),
            "edges": [None if each is None else list(each) for each in self.edges],
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        edges = document["edges"]
        if not isinstance(edges, list):
            raise ValueError("Edges must be a list with one entry for each column.")
        return cls(
            columns=names(document["columns"]),
            sizes=wholes(document["sizes"]),
            edges=tuple(None if each is None else wholes(each) for each in edges),
        )
