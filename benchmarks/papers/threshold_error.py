"""Cells that a thresholded histogram keeps, and its expected error. Public arithmetic.

Li, Karwa, Slavkovic & Steorts (2018), Proposition 2.1, corrected. As printed the exponent is
inverted, the case of counts above the threshold is missing, and noise is treated as independent of
survival. With Laplace noise of scale b and a = t - c for a count c:

    P(kept) = e^(-a/b) / 2                 if a >= 0,  else  1 - e^(a/b) / 2
    E[|noise|; kept] = P(kept) (a + b)     if a > 0,   else  b - (1 - P(kept)) (|a| + b)
    E L1 = sum over cells of  (1 - P(kept)) c + E[|noise|; kept]

The module also has the formulas for discrete noise, P(z) proportional to e^(-|z|/b) on the
integers, which releases use.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Noise = Literal["discrete", "continuous"]


def kept_probability(
    counts: ArrayLike, threshold: float, scale: float, noise: Noise = "discrete"
) -> NDArray[np.float64]:
    """Return the probability that each cell's noisy count reaches the threshold.

    Args:
        counts: Exact numbers of records of observed cells, any shape.
        threshold: Least noisy count that is kept; a whole number for discrete noise.
        scale: Scale of the noise, records.
        noise: Kind of noise; `discrete` by default.

    >>> [round(float(p), 7) for p in kept_probability([1, 40, 60], 40.61395, 4.0, "continuous")]
    [2.5e-05, 0.4288557, 0.9960721]
    """
    away = threshold - np.asarray(counts, dtype=np.float64)
    if noise == "continuous":
        tail = np.exp(-np.abs(away) / scale) / 2
        return np.where(away >= 0, tail, 1 - tail)
    alpha = math.exp(-1 / scale)
    above = np.where(away > 0, away, 1 - away)
    tail = alpha**above / (1 + alpha)
    return np.where(away > 0, tail, 1 - tail)


def expected_l1(
    counts: ArrayLike, threshold: float, scale: float, noise: Noise = "discrete"
) -> float:
    """Return the expected L1 distance of the kept noisy counts from the exact counts, records.

    Unobserved cells are in neither and add nothing.

    Args:
        counts: Exact numbers of records of observed cells.
        threshold: Least noisy count that is kept.
        scale: Scale of the noise, records.
        noise: Kind of noise; `discrete` by default.

    >>> round(expected_l1([1, 5, 40, 60], 40.61395, 4.0, "continuous"), 4)
    34.9717
    """
    counts = np.asarray(counts, dtype=np.float64)
    kept = kept_probability(counts, threshold, scale, noise)
    away = threshold - counts
    # By the memoryless property, the mean of noise given that it exceeds a point is the point plus
    # a constant.
    if noise == "continuous":
        beyond = np.where(away > 0, away, -away) + scale
        whole = scale
    else:
        alpha = math.exp(-1 / scale)
        beyond = np.where(away > 0, away, 1 - away) + alpha / (1 - alpha)
        whole = 2 * alpha / (1 - alpha**2)
    error = np.where(away > 0, kept * beyond, whole - (1 - kept) * beyond)
    return float(((1 - kept) * counts + error).sum())
