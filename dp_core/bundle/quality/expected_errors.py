"""Expected errors of a coefficient: the sets compared with the noisy table that determines it.

Public. The noise of a table has mean 0, so its slope, with negative counts included, is unbiased. A
set has no negative counts, and its method may shrink tables or make them agree with others. So the
slope in the sets less that in the noisy table is their bias, up to the noise of the table.

A coefficient is taken as that of a simple regression: an outcome on one predictor, or the
difference between a level and the reference level.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ExpectedErrors:
    """Errors of an estimate, as far as public numbers determine them.

    Attributes:
        bias: Estimate from the sets less that from the noisy table.
        noise: Standard error of the estimate from the noisy table, due to noise.
        sampling: Standard error of the file's own estimate.
    """

    bias: float
    noise: float
    sampling: float


def slope_errors(
    counts: Floats, standard_error: float, sets: Floats, x: Floats, y: Floats
) -> ExpectedErrors | None:
    """Return the errors of the slope of one column on another; None if the sets have no slope.

    The bias is the slope in the sets less that in the noisy table. It includes every cause of a
    difference: no negative counts, shrinkage, agreement with other tables, and also noise that the
    method rightly removed.

    Args:
        counts: Noisy counts, shape (values of x, values of y); NaN in impossible cells.
        standard_error: Standard error of a count due to noise, records.
        sets: Mean counts of the sets, same shape.
        x: Values of the predictor; NaN for those that the coefficient does not compare.
        y: Values of the outcome; NaN for missing.
    """
    used = np.ix_(~np.isnan(x), ~np.isnan(y))
    u, v = x[~np.isnan(x)], y[~np.isnan(y)]
    raw, found = _slope(np.nan_to_num(counts)[used], u, v), _slope(sets[used], u, v)
    if found is None:
        return None
    slope, influence = found
    scale = max(float(np.nansum(counts)), 1.0) / float(sets.sum())
    # Influence is per record of the sets.
    noise = standard_error * float(np.sqrt(np.square(influence).sum())) / scale
    # If the noisy table has no slope, the bias is unknown and taken to be as large as the noise.
    bias = slope - raw[0] if raw is not None else noise
    sampling = float(np.sqrt((sets[used] * np.square(influence)).sum() / scale))
    return ExpectedErrors(bias, noise, sampling)


def _slope(counts: Floats, x: Floats, y: Floats) -> tuple[float, Floats] | None:
    """Return a slope, and its change by one more record in each cell; None without a slope."""
    total = float(counts.sum())
    if not total > 0:
        return None
    rows = counts.sum(axis=1)
    away = x - float(rows @ x) / total
    spread = float(rows @ np.square(away))
    if not spread > 1e-9 * total * max(float(np.square(away).max()), 1e-300):
        return None
    centred = y - float(counts.sum(axis=0) @ y) / total
    slope = float(away @ counts @ centred) / spread
    return slope, away[:, None] * (centred[None, :] - slope * away[:, None]) / spread
