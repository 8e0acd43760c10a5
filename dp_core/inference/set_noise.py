"""What sets have of the noise of a table.

Counts in a set are never negative, so the error of a cell with r records is at most about r. Its
standard deviation is taken as s min(1, r/s), with s that of the noise. Where r < s, the errors of
cells have the same sign, because sets have records in cells that are empty in the file.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats: TypeAlias = NDArray[np.float64]


def passed_part(records: Floats, deviations: ArrayLike) -> Floats:
    """Return the fraction of the noise that counts of sets can have, shape (...).

    Args:
        records: Records of each cell in the sets, shape (...).
        deviations: Standard deviation of its noise in the table, same shape or ().
    """
    deviations = np.asarray(deviations, dtype=np.float64)
    known = deviations > 0
    return np.where(known, np.minimum(1.0, records / np.where(known, deviations, 1.0)), 1.0)


def few_records(records: Floats, deviations: ArrayLike) -> Floats:
    """Return the records of the cells that have fewer than the standard deviation of the noise."""
    return np.asarray(records * (records < np.asarray(deviations)))
