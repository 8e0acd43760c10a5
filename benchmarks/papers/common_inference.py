"""Logistic regression on several synthetic files, and the SSS assessment of what it says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from dp_core.inference.combine import Rule
from dp_core.inference.combine import combine as combined
from dp_core.lab.measures.inference_agreement import Outcome, outcome


def logistic(
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    *,
    firth: bool = True,
    counts: NDArray[np.float64] | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the coefficients of a logistic regression and their variances.

    Args:
        x: Shape (rows, coefficients).
        y: 0 or 1, shape (rows,).
        firth: Whether the likelihood is penalised as by Firth (Biometrika 1993); it then has a
            maximum even where a predictor separates the classes.
        counts: How often each row occurs, shape (rows,); None for once.
    """
    beta = np.zeros(x.shape[1])
    member = counts
    if member is None:
        cells, found = np.unique(np.column_stack([x, y]), axis=0, return_counts=True)
        x, y, member = cells[:, :-1], cells[:, -1], found.astype(np.float64)
    inverse = np.eye(x.shape[1])
    for _ in range(60):
        p = 1 / (1 + np.exp(-np.clip(x @ beta, -30, 30)))
        weight = member * p * (1 - p)
        information = (x * weight[:, None]).T @ x
        inverse = _pseudo_inverse(information)
        residual = member * (y - p)
        if firth:
            leverage = weight * ((x @ inverse) * x).sum(axis=1)
            residual = residual + leverage * (0.5 - p)
        step = inverse @ (x.T @ residual)
        step *= min(1.0, 2.0 / max(float(np.abs(step).max()), 1e-12))
        beta += step
        if np.abs(step).max() < 1e-6:
            break
    return beta, np.diag(inverse).copy()


def _pseudo_inverse(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the pseudo-inverse of a symmetric matrix; numpy's own takes four times as long."""
    values, vectors = np.linalg.eigh(matrix)
    kept = np.abs(values) > 1e-15 * np.abs(values).max()
    return np.asarray((vectors[:, kept] / values[kept]) @ vectors[:, kept].T)


def combine(
    estimates: Sequence[NDArray[np.float64]], variances: Sequence[NDArray[np.float64]]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return estimate, standard error and degrees of freedom from m independently noised sets."""
    matrices = np.array([np.diag(each) for each in variances])
    rule: Rule = "split" if len(matrices) > 1 else "shared"
    found = combined(np.array(estimates), matrices, rule)
    return found.estimate, found.standard_error, found.degrees_of_freedom


def significant(
    estimate: NDArray[np.float64], error: NDArray[np.float64], freedom: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Return which estimates differ from 0 at the level of 5 %."""
    ratio = np.divide(np.abs(estimate), error, out=np.zeros_like(error), where=error > 0)
    return np.asarray(2 * stats.t.sf(ratio, freedom) < 0.05)


def sss(
    before: NDArray[np.float64],
    clear_before: NDArray[np.bool_],
    after: NDArray[np.float64],
    clear_after: NDArray[np.bool_],
) -> Counter[Outcome]:
    """Return how many coefficients have each outcome of Table 1."""
    return Counter(
        outcome(b, a, significant_before=bool(cb), significant_after=bool(ca))
        for b, cb, a, ca in zip(before, clear_before, after, clear_after, strict=True)
    )
