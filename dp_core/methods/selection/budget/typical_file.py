"""The typical file, of which errors are forecast before any data are read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

DEPENDENCES = (1 / 3, 2.0)
"""Mean dependence of pairs at both ends of a forecast, relative to `dependence.usual`."""


def typical_columns(sizes: Sequence[int], rows: float) -> list[NDArray[np.float64]]:
    """Return one-way tables of a typical file, in records: few frequent codes and many rare ones.

    Args:
        sizes: Number of codes of each column.
        rows: Number of records.

    >>> [column.tolist() for column in typical_columns((2, 1), 300)]
    [[200.0, 100.0], [300.0]]
    """
    shapes = [1 / np.arange(1, size + 1) for size in sizes]
    return [shape * (rows / shape.sum()) for shape in shapes]
