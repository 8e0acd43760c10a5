"""Cells of a product table, grouped into a few bins by expected deviation (width)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

BINS = 32
"""Number of bins."""


def binned(
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
    for table in tables:
        expected = np.multiply.outer(expected, table / rows)
    width = expected[expected > 1e-6] ** power
    if width.size == 0:
        width = np.ones(1)
    logs = np.log(width)
    low, high = float(logs.min()), float(logs.max())
    bins = np.minimum(((logs - low) * (BINS / max(high - low, 1e-9))).astype(np.int64), BINS - 1)
    counts = np.bincount(bins, minlength=BINS).astype(np.float64)
    sums = np.bincount(bins, weights=width, minlength=BINS)
    return counts, np.divide(sums, counts, out=np.zeros(BINS), where=counts > 0)
