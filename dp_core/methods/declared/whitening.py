"""Scales of features: public linear transforms that give them unit second moments.

A record's vector is cut to one length, so the noise is the same in every direction. Features with
unit second moments lose the least by that.
"""

from __future__ import annotations

import numpy as np

from dp_core.methods.declared.declared_regression import Floats
from dp_core.wall.statistics.regressions.gradients import COEFFICIENT, LARGEST_COEFFICIENT

_LEAST = 0.02  # smallest eigenvalue of second moments in units of what was expected


def whitening(moments: Floats, records: float) -> Floats:
    """Return T, shape (features, features), for which x'T has about unit second moments.

    Args:
        moments: Mean of x x', shape (features, features).
        records: Number of records that it is the mean of; half a record is added in each
            direction, so that a level without records has a finite scale.
    """
    steady = moments + np.eye(len(moments)) * 0.5 / max(records, 1.0)
    return np.asarray(np.linalg.cholesky(np.linalg.inv(steady)))


def whole(matrix: Floats) -> tuple[int, ...]:
    """Return a transform or coefficients as whole numbers in units of 1/`COEFFICIENT`."""
    units = np.clip(
        np.rint(matrix.ravel() * COEFFICIENT), -LARGEST_COEFFICIENT, LARGEST_COEFFICIENT
    )
    return tuple(int(each) for each in units)


def from_whole(numbers: tuple[int, ...], rows: int) -> Floats:
    """Return the matrix of `whole`, with that number of rows."""
    return np.asarray(np.array(numbers, dtype=np.float64).reshape(rows, -1) / COEFFICIENT)


def positive(moments: Floats) -> Floats:
    """Return symmetric moments, about 1 in every direction, with no eigenvalue below .02."""
    values, vectors = np.linalg.eigh((moments + moments.T) / 2)
    return np.asarray((vectors * np.maximum(values, _LEAST)) @ vectors.T)
