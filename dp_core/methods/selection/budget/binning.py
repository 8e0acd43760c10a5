"""Cells of a product table, grouped into a few bins by expected deviation (width)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

BINS = 32
"""Number of bins."""
_MOST_LEVELS = 1 << 10
"""Levels of a column that are looked at one by one; of more, levels of like counts are together."""
_GROUPS = 1 << 9


def bin_widths(
    tables: Sequence[NDArray[np.float64]], rows: float, power: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the number of cells in each bin of widths, and their mean width.

    Args:
        tables: One-way tables of the columns, in records; expected counts are their product.
        rows: Number of records.
        power: A cell of expected count E has width E ** power; nearly empty cells are left out.

    Returns:
        Two arrays of shape (`BINS`,).
    """
    expected = np.asarray(rows)
    cells: NDArray[np.float64] = np.asarray(1.0)
    for table in tables:
        means, levels = _mean_by_group(table / rows)
        expected = np.multiply.outer(expected, means)
        cells = np.multiply.outer(cells, levels)
    seen = expected > 1e-6
    width, cells = expected[seen] ** power, cells[seen]
    if width.size == 0:
        width = cells = np.ones(1)
    logs = np.log(width)
    low, high = float(logs.min()), float(logs.max())
    bins = np.minimum(((logs - low) * (BINS / max(high - low, 1e-9))).astype(np.int64), BINS - 1)
    counts = np.bincount(bins, weights=cells, minlength=BINS).astype(np.float64)
    sums = np.bincount(bins, weights=cells * width, minlength=BINS)
    return counts, np.divide(sums, counts, out=np.zeros(BINS), where=counts > 0)


def _mean_by_group(shares: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean share of each group of levels, and the number of levels in it.

    A group is one level, or in columns of very many levels those whose shares differ by little:
    by 10 % if the largest share is 10^22 times the smallest.
    """
    if shares.size <= _MOST_LEVELS:
        return shares, np.ones(shares.size)
    positive = np.maximum(shares, 1e-300)
    logs = np.log(positive)
    low, high = float(logs.min()), float(logs.max())
    groups = ((logs - low) * ((_GROUPS - 1) / max(high - low, 1e-9))).astype(np.int64)
    levels = np.bincount(groups, minlength=_GROUPS).astype(np.float64)
    sums = np.bincount(groups, weights=shares, minlength=_GROUPS)
    some = levels > 0
    return sums[some] / levels[some], levels[some]
