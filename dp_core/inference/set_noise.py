"""What sets have of the noise of a table, and what else their counts err by.

*Few records.* Counts in a set are never negative, so the error of a cell with r records is at most
about r. Its standard deviation is taken as s min(1, r/s), with s that of the noise. Where r < s,
the errors of cells have the same sign, because sets have records in cells that are empty in the
file.

*The prior.* If noise gives an estimate a standard error of t usual effects, a prior with a standard
deviation of one usual effect shrinks it by the fraction t^2 / (1 + t^2).
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats: TypeAlias = NDArray[np.float64]
CHANCE = 2.0
"""Standard deviations of the noise by which sets may differ from a noisy table."""


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


def taken_part(errors: ArrayLike) -> Floats:
    """Return the part of an effect that the prior takes, by the standard error in usual effects."""
    return np.asarray(1 - 1 / (1 + np.square(np.minimum(errors, 1e9))))
