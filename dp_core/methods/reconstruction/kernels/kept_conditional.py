"""Draws of one column given others, from the kept cells of their table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.errors import BadInput
from dp_core.kernel.codes import Codes

DENSE_KEYS = 1 << 20
"""Largest number of combinations of the other columns for a dense look-up array."""

_MOST_KEYS = 2**62


@dataclass(frozen=True, slots=True, eq=False)
class KeptConditional:
    """Weights of a column's codes for each combination of the others that has a kept cell.

    Attributes:
        others: Rows of a record array that hold the other columns.
        sizes: Their numbers of codes.
        keys: Combinations of the others that have a kept cell, ascending, shape (groups,).
        dense: Group of every combination, -1 for none; empty if there are too many combinations.
        codes: Codes of the column in the kept cells, sorted by group, shape (cells,).
        ends: Cumulative weights including each cell, shape (cells,).
        first: Cumulative weight before each group, and the total, shape (groups + 1,).
        last: Index of the last cell of each group, shape (groups,).
    """

    others: tuple[int, ...]
    sizes: tuple[int, ...]
    keys: NDArray[np.int64]
    dense: NDArray[np.int32]
    codes: Codes
    ends: NDArray[np.float64]
    first: NDArray[np.float64]
    last: NDArray[np.int64]

    @classmethod
    def build(
        cls,
        cells: Codes,
        weights: NDArray[np.int64],
        others: tuple[int, ...],
        sizes: Sequence[int],
    ) -> KeptConditional:
        """Return the conditional distribution of the first column of `cells`.

        Args:
            cells: Codes of the column and of the others, shape (cells, columns), at least one cell.
            weights: Weights of the cells, positive, shape (cells,).
            others: Positions of the other columns in the record array.
            sizes: Numbers of codes of all columns of the cells.

        Raises:
            BadInput: if the others have more than 2^62 combinations.
        """
        combinations = math.prod(sizes[1:])
        if combinations > _MOST_KEYS:
            raise BadInput("A column is tied to too many others; lower `features`.")
        keys = _keys(list(cells[:, 1:].T), sizes[1:], len(cells))
        order = np.argsort(keys, kind="stable")
        found, counts = np.unique(keys, return_counts=True)
        ends = np.cumsum(weights[order], dtype=np.float64)
        last = np.cumsum(counts) - 1
        dense = np.empty(0, dtype=np.int32)
        if combinations <= DENSE_KEYS:
            dense = np.full(combinations, -1, dtype=np.int32)
            dense[found] = np.arange(len(found))
        return cls(
            others=tuple(others),
            sizes=tuple(sizes[1:]),
            keys=found,
            dense=dense,
            codes=cells[order, 0],
            ends=ends,
            first=np.concatenate(([0.0], ends[last])),
            last=last,
        )

    def group(self, records: Codes) -> NDArray[np.int64]:
        """Return the group of each record's other columns, -1 if no cell was kept for them.

        Args:
            records: Codes, shape (columns, rows).
        """
        keys = _keys([records[row] for row in self.others], self.sizes, records.shape[1])
        if len(self.dense):
            return self.dense[keys].astype(np.int64)
        places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[places] == keys, places, -1)

    def draw(self, groups: NDArray[np.int64], *, rng: np.random.Generator) -> Codes:
        """Return a code for each record, drawn by the weights of its group, which must exist."""
        low, high = self.first[groups], self.first[groups + 1]
        aim = low + rng.random(len(groups)) * (high - low)
        # Rounding may lead to the first cell of the next group.
        places = np.minimum(np.searchsorted(self.ends, aim, side="right"), self.last[groups])
        return self.codes[places]


def _keys(columns: Sequence[Codes], sizes: Sequence[int], rows: int) -> NDArray[np.int64]:
    keys = np.zeros(rows, dtype=np.int64)
    for codes, size in zip(columns, sizes, strict=True):
        keys *= size
        keys += codes
    return keys
