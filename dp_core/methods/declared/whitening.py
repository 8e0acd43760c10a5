"""Scales of features: public linear transforms that give them unit second moments.

The same length limit holds in every direction, and so does the noise. Features with unit second
moments lose the least precision by this.
"""

from __future__ import annotations

import numpy as np

from dp_core.kernel.questions.regressions.gradients import COEFFICIENT, LARGEST_COEFFICIENT
from dp_core.methods.declared.declared_regression import Floats

_LEAST = 0.02  # smallest eigenvalue of second moments, relative to the expected one


def whitening(moments: Floats, records: float) -> Floats:
    """Return T, shape (features, features), such that x'T has about unit second moments.

    Args:
        moments: Mean of x x', shape (features, features).
        records: Number of records behind this mean. Half a record is added in each direction, so
            that a level without records has a finite scale.
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
    """Return the matrix from which `whole` made the numbers, with this number of rows."""
    return np.asarray(np.array(numbers, dtype=np.float64).reshape(rows, -1) / COEFFICIENT)


def positive(moments: Floats) -> Floats:
    """Return symmetric moments whose eigenvalues are at least 0.02; they should be about 1."""
    values, vectors = np.linalg.eigh((moments + moments.T) / 2)
    return np.asarray((vectors * np.maximum(values, _LEAST)) @ vectors.T)
