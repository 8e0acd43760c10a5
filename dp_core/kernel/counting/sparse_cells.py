"""Keys of the non-empty cells of a domain of any size, and their noisy counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.codes import Codes

WORD_CELLS = 2**62
"""Number of cells that one packed word can distinguish."""


def words(sizes: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Return which columns each packed word holds, as pairs (first, last + 1).

    Args:
        sizes: Numbers of codes of the columns.

    >>> words([2**20, 2**20, 2**20, 2**20])
    ((0, 3), (3, 4))
    """
    found: list[tuple[int, int]] = []
    start, cells = 0, 1
    for column, size in enumerate(sizes):
        if cells * size > WORD_CELLS and column > start:
            found.append((start, column))
            start, cells = column, 1
        cells *= size
    return (*found, (start, len(sizes)))


def pack(
    codes: Sequence[NDArray[Any]] | Codes,
    sizes: Sequence[int],
    cells: int | None = None,
) -> NDArray[np.int64]:
    """Return the packed key of each cell, shape (cells, words); keys have the order of the codes.

    Args:
        codes: One array of codes for each column.
        sizes: Numbers of codes of the columns.
        cells: Number of cells, required if there may be no column; by default that of `codes`.
    """
    parts = words(sizes)
    keys = np.zeros((np.shape(codes)[1] if cells is None else cells, len(parts)), dtype=np.int64)
    for word, (first, last) in enumerate(parts):
        key = np.zeros(len(keys), dtype=np.int64)
        for column in range(first, last):
            key *= sizes[column]
            key += codes[column]
        keys[:, word] = key
    return keys


def sparse_result(
    cells: Codes, values: NDArray[np.int64], sizes: Sequence[int], capacity: int
) -> NDArray[np.int64]:
    """Return kept cells and their noisy counts as an array to store.

    The shape is fixed before noise is drawn, and unused rows are -1, so that the size of the file
    does not reveal the number of kept cells.

    Args:
        cells: Codes of the cells, shape (cells, columns), ascending, at most `capacity`.
        values: Noisy counts, shape (cells,).
        sizes: Numbers of codes of the columns.
        capacity: Number of rows of the result.

    Returns:
        Packed keys and noisy counts, shape (capacity, words + 1).
    """
    result = np.full((capacity, len(words(sizes)) + 1), -1, dtype=np.int64)
    result[: len(values), :-1] = pack(cells.T, sizes, len(cells))
    result[: len(values), -1] = values
    return result
