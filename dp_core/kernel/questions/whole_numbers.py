"""Whole-number arithmetic that no file can make overflow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.errors import BadInput

MOST = 2**62
"""Largest absolute value of an entry; it leaves room for noise in 64 bits."""

MOST_CELLS = 2**26
"""Largest number of cells of a table; its counts need half a gigabyte, its noise ten minutes."""

MOST_WORK = 2**24
"""Largest number of numbers from which a sensitivity is computed, beside a question's own."""

MOST_CODES = 2**32
"""Largest number of codes of a column, because codes have 32 bits."""

MOST_POSITIONS = 2**16
"""Largest number of positions of a number, so that products of two numbers fit in 64 bits."""


def check_work(numbers: int) -> None:
    """Refuse a question if its sensitivity would cost too much, also whoever verifies a receipt.

    Args:
        numbers: How many numbers the sensitivity is computed from.

    Raises:
        ValueError: if there are more than `MOST_WORK`.
    """
    if numbers > MOST_WORK:
        raise ValueError(
            f"A sensitivity is computed from at most {MOST_WORK:,} numbers, not {numbers:,}: ask"
            " about fewer columns, bins or boxes."
        )


def saturated(values: Iterable[int]) -> NDArray[np.int64]:
    """Return whole numbers of any size as 64-bit ones, cut to [-MOST, MOST]."""
    # privacy: a cut never increases a difference; an overflow or an error would reveal the data.
    return np.array([min(max(int(value), -MOST), MOST) for value in values], dtype=np.int64)


def frozen(values: NDArray[Any]) -> NDArray[Any]:
    """Return an array after making it read-only, so that who shares it cannot change it."""
    values.setflags(write=False)
    return values


def cut(values: NDArray[Any]) -> NDArray[np.int64]:
    """Return an array of whole numbers as 64-bit ones, cut to [-MOST, MOST]."""
    # privacy: a cut never increases the difference of two values.
    return np.asarray(np.clip(values, -MOST, MOST), dtype=np.int64)


def times(values: NDArray[np.int64], factor: int) -> NDArray[np.int64]:
    """Return public whole numbers times a factor of at least 1.

    Raises:
        BadInput: if a product does not fit in 64 bits.
    """
    largest = max(int(values.max(initial=0)), -int(values.min(initial=0)))
    if largest * factor >= 2**63:
        raise BadInput(
            f"A public number to compare with counts is too large in units of 1/{factor}: use a"
            " coarser grid."
        )
    return values * factor


def cell_numbers(
    codes: Iterable[NDArray[np.int64]], sizes: Sequence[int], cells: int
) -> NDArray[np.int64]:
    """Return the row-by-row number of each cell, shape (cells,), from its codes in each column."""
    found = np.zeros(cells, dtype=np.int64)
    for own, size in zip(codes, sizes, strict=True):
        found = found * size + own
    return found


def exact_sums(
    where: NDArray[np.int64],
    values: NDArray[np.int64],
    counts: NDArray[np.int64],
    length: int,
) -> NDArray[Any]:
    """Return the sum of values times counts by entry, exactly: whole numbers of any size."""
    largest = int(np.abs(values).max(initial=0)) * int(counts.sum())
    # The check makes an overflow impossible: larger sums use Python's integers, which are slower.
    kind = np.dtype(np.int64) if largest < MOST else np.dtype(object)
    sums = np.zeros(length, dtype=kind)
    np.add.at(sums, where, values.astype(kind) * counts.astype(kind))
    return sums
