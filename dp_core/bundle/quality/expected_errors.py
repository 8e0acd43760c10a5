"""Expected errors of a share or of a coefficient, from the noisy table that determines it.

Public. Noise with negative counts is unbiased; a set has none. So the expected estimate of a set is
that of the nonnegative table nearest to the noisy one, and its difference from the estimate of the
noisy table itself is the bias that an interval does not cover. In mode `noise-aware` the noise is
drawn again for every set, and the mean over such draws is taken.

A coefficient is that of a simple regression: an outcome on one predictor, or the difference between
a level and the reference level.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.methods.reconstruction.estimates.consistency import norm_sub

Floats = NDArray[np.float64]

DRAWS = 64
"""Draws of the noise for the mean of noise-aware sets; its error is an eighth of the noise."""


@dataclass(frozen=True, slots=True)
class ExpectedErrors:
    """Errors of an estimate that public numbers tell.

    Attributes:
        bias: Expected estimate of the sets less that of the noisy table, whose noise is unbiased.
        noise: Standard error due to noise.
        sampling: Standard error of the file's own estimate.
    """

    bias: float
    noise: float
    sampling: float


def in_sets(counts: Floats, standard_error: float, *, redrawn: bool) -> Floats:
    """Return the counts that sets have on average.

    Args:
        counts: Noisy counts, records, any shape; NaN in impossible cells.
        standard_error: Standard error of a count due to noise, records.
        redrawn: Whether every set has the noise drawn again (mode `noise-aware`).
    """
    possible = ~np.isnan(counts)
    given = np.where(possible, counts, 0.0)
    total = max(float(given.sum()), 0.0)
    if not redrawn:
        return norm_sub(given, total=total, possible=possible)
    rng = np.random.default_rng(7)
    noise = rng.normal(0, standard_error, (DRAWS // 2, *counts.shape))
    # Pairs of opposite draws, so that the mean of the noise is 0.
    drawn = [
        norm_sub(given + sign * each, total=total, possible=possible)
        for each in noise
        for sign in (1, -1)
    ]
    return np.asarray(np.mean(drawn, axis=0))


def share_errors(
    counts: Floats, standard_error: float, *, redrawn: bool
) -> tuple[ExpectedErrors, ...]:
    """Return the errors of the share of every level of a column.

    Args:
        counts: Noisy counts of the levels, shape (levels,); NaN for an impossible one.
        standard_error: Standard error of a count due to noise, records.
        redrawn: Whether every set has the noise drawn again.
    """
    expected = in_sets(counts, standard_error, redrawn=redrawn)
    total = max(float(np.nansum(counts)), 1.0)
    share = np.clip(expected / total, 0.0, 1.0)
    bias = np.where(np.isnan(counts), 0.0, (expected - np.nan_to_num(counts)) / total)
    sampling = np.sqrt(share * (1 - share) / total)
    noise = standard_error / total
    return tuple(
        ExpectedErrors(float(one), noise, float(own))
        for one, own in zip(bias, sampling, strict=True)
    )


def slope_errors(
    counts: Floats, standard_error: float, x: Floats, y: Floats, *, redrawn: bool
) -> ExpectedErrors | None:
    """Return the errors of the slope of one column on another; None if it cannot be told.

    Args:
        counts: Noisy counts, shape (values of x, values of y); NaN in impossible cells.
        standard_error: Standard error of a count due to noise, records.
        x: Values of the predictor; NaN for those that the coefficient does not compare.
        y: Values of the outcome; NaN for missing.
        redrawn: Whether every set has the noise drawn again.
    """
    used = np.ix_(~np.isnan(x), ~np.isnan(y))
    u, v = x[~np.isnan(x)], y[~np.isnan(y)]
    kept = in_sets(counts, standard_error, redrawn=redrawn)[used]
    plain = np.nan_to_num(counts)[used]
    found, raw = _slope(kept, u, v), _slope(plain, u, v)
    if found is None:
        return None
    slope, influence = found
    # A noisy table that determines nothing leaves the bias unknown: as large as the noise.
    noise = standard_error * float(np.sqrt(np.square(influence).sum()))
    bias = slope - raw[0] if raw is not None else noise
    sampling = float(np.sqrt((kept * np.square(influence)).sum()))
    return ExpectedErrors(bias, noise, sampling)


def _slope(counts: Floats, x: Floats, y: Floats) -> tuple[float, Floats] | None:
    """Return a slope and the change of it by one record more in each cell."""
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
