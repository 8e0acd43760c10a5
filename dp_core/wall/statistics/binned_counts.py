"""Counts of the cells of a table in which numeric columns are cut into public bins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.codes import Codes
from dp_core.wall.statistics.descriptions import names, wholes
from dp_core.wall.statistics.statistic import DisjointCounts
from dp_core.wall.statistics.whole_numbers import MOST_CODES, cell_numbers

MOST_CELLS = 2**26
"""Largest number of cells of a table; its counts need half a gigabyte, its noise ten minutes."""


Edges = tuple[tuple[int, ...] | None, ...]
"""For each column, the first code of every bin, from 0, and then the number of codes; None for a
column without bins, whose codes are separate levels."""


def check_bins(sizes: Sequence[int], edges: Edges) -> None:
    """Raise ValueError unless the bins of every column partition its codes.

    Args:
        sizes: Number of codes of each column.
        edges: Bins of each column.
    """
    if len(sizes) != len(edges):
        raise ValueError("Every column needs a size, and edges or None.")
    for size, each in zip(sizes, edges, strict=True):
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


def binned_shape(sizes: Sequence[int], edges: Edges) -> tuple[int, ...]:
    """Return the number of levels or bins of each column."""
    return tuple(
        size if each is None else len(each) - 1 for size, each in zip(sizes, edges, strict=True)
    )


def binned(codes: NDArray[np.int64], edges: Edges) -> NDArray[np.int64]:
    """Return the level or bin of each code, same shape.

    Args:
        codes: Codes of records, shape (records, columns).
        edges: Bins of each column.
    """
    found = codes.copy()
    for axis, each in enumerate(edges):
        if each is not None:
            found[:, axis] = np.searchsorted(each, codes[:, axis], side="right") - 1
    return found


def read_edges(document: object) -> Edges:
    """Return the edges of a question's JSON.

    Raises:
        ValueError: if they are not a list.
    """
    if not isinstance(document, list):
        raise ValueError("Edges must be a list with one entry for each column.")
    return tuple(None if each is None else wholes(each) for each in document)


@dataclass(frozen=True, slots=True, kw_only=True)
class BinnedCounts(DisjointCounts):
    """Numbers of records by levels of some columns and bins of others. Unit: records.

    The entries are a table with an axis for each column, flattened row by row.

    Attributes:
        columns: Columns of the table.
        sizes: Number of codes of each column.
        edges: Bins of each column.
    """

    NAME: ClassVar[str] = "binned-counts"

    edges: Edges

    def __post_init__(self) -> None:
        if len({*self.columns}) != len(self.columns):
            raise ValueError("The columns of a table must be different.")
        if len(self.columns) != len(self.sizes):
            raise ValueError("Every column of a table needs a size, and edges or None.")
        check_bins(self.sizes, self.edges)
        if self.length > MOST_CELLS:
            raise ValueError(f"A table has at most {MOST_CELLS} cells.")

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of levels or bins of each column."""
        return binned_shape(self.sizes, self.edges)

    @property
    def length(self) -> int:
        return prod(self.shape)

    def total(self, cells: Codes, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        codes = binned(cells.astype(np.int64), self.edges)
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
        return cls(
            columns=names(document["columns"]),
            sizes=wholes(document["sizes"]),
            edges=read_edges(document["edges"]),
        )
