"""Regressions with survey weights: weighted estimates and their sandwich variances.

The estimate solves the weighted score equations (pseudo maximum likelihood; for a linear model,
weighted least squares), so it does not change if all weights are multiplied by one number. Its
variance is the sandwich A^-1 B A^-1 with the weighted information A and

    B = n / (n - 1) sum_i w_i^2 s_i s_i'

over the n rows with their scores s_i: linearization for a sample drawn with replacement, with rows
as primary units and one stratum, because a synthetic set has no design variables.

Binder, D. A. (1983). On the variances of asymptotically normal estimators from complex surveys.
International Statistical Review 51(3), 279-292.
"""

from __future__ import annotations

import numpy as np

from dp_core.analysis.regression.design import Design, Floats
from dp_core.errors import BadInput

ROUNDS = 100
_LEAST_INFORMATION = 1e-8
_STEP = 1e-10


def weighted_fit(
    design: Design, y: Floats, x: Floats, weights: Floats, where: str
) -> tuple[Floats, Floats]:
    """Return coefficients and their covariance, shapes (p,) and (p, p).

    For a multinomial, all coefficients of the second level come first, then those of the third.

    Args:
        design: Outcome and design.
        y: Outcome, or the index of its level, shape (rows,).
        x: Design matrix, shape (rows, columns).
        weights: Weights of at least 0, shape (rows,).
        where: Name of the set, for messages.

    Raises:
        BadInput: if there is no solution: the terms separate the outcomes, or no row has a weight.
    """
    used = weights > 0
    y, x, weights = y[used], x[used], weights[used]
    if len(y) <= x.shape[1]:
        raise BadInput(
            f"In {where} only {len(y)} rows have a weight above 0, too few for this formula."
        )
    weights = weights / weights.mean()
    basis, triangle = np.linalg.qr(x * np.sqrt(weights)[:, None])
    if np.abs(np.diag(triangle)).min() <= 1e-9 * np.abs(np.diag(triangle)).max():
        raise BadInput(f"With these weights the terms are collinear in {where}; leave one out.")
    # Columns that are orthonormal under the weights avoid problems of scale and collinearity.
    basis = x @ np.linalg.inv(triangle) * np.sqrt(len(y))
    family = design.outcome.family
    if family == "linear":
        beta = basis.T @ (weights * y) / len(y)
        residuals = y - basis @ beta
        if float(weights @ residuals**2) <= 1e-18 * float(weights @ y**2):
            raise BadInput(
                f"The terms predict {design.outcome.name} without error in {where}; one of them is"
                " the outcome in another form. Leave it out."
            )
        information, scores = basis.T @ (basis * weights[:, None]), basis * residuals[:, None]
    else:
        beta, information, scores = _search(design, y, basis, weights, where)
    inner = (scores * weights[:, None]).T @ (scores * weights[:, None])
    inner *= len(y) / (len(y) - 1)
    bread = np.linalg.inv(information)
    blocks = beta.size // x.shape[1]
    back = np.kron(np.eye(blocks), np.linalg.inv(triangle) * np.sqrt(len(y)))
    covariance = back @ bread @ inner @ bread @ back.T
    return back @ beta, (covariance + covariance.T) / 2


def _search(
    design: Design, y: Floats, basis: Floats, weights: Floats, where: str
) -> tuple[Floats, Floats, Floats]:
    """Maximise the weighted likelihood by Newton's method with step halving.

    Returns:
        Coefficients, information and the score of each row at them.
    """
    levels = max(len(design.outcome.levels) - 1, 1)
    count = design.outcome.family == "poisson"
    beta = np.zeros(levels * basis.shape[1])
    if count:
        beta = basis.T @ (weights * np.log(y + 0.5)) / len(y)
    value = _likelihood(beta, y, basis, weights, levels, count=count)
    most = float(weights @ y) / len(y) if count else 1.0
    for _ in range(ROUNDS):
        scores, information = _derivatives(beta, y, basis, weights, levels, count=count)
        sizes = np.linalg.eigvalsh(information)
        if not np.isfinite(sizes).all() or sizes[0] <= _LEAST_INFORMATION * most * len(y):
            break
        step = np.linalg.solve(information, weights @ scores)
        for _ in range(60):
            moved = _likelihood(beta + step, y, basis, weights, levels, count=count)
            if moved >= value - 1e-12 * abs(value):
                break
            step = step / 2
        beta, value = beta + step, moved
        if np.abs(step).max() <= _STEP:
            scores, information = _derivatives(beta, y, basis, weights, levels, count=count)
            return beta, information, scores
    raise BadInput(
        f"In {where} the terms separate the values of {design.outcome.name} perfectly under these"
        " weights, so an estimate is infinite; leave a term out or merge rare levels."
    )


def _means(beta: Floats, basis: Floats, levels: int, *, count: bool) -> Floats:
    """Return the expected outcome of each row, by level, shape (rows, levels)."""
    linear = basis @ beta.reshape(levels, -1).T
    if count:
        expected: Floats = np.exp(np.minimum(linear, 700))
        return expected
    top = np.maximum(linear.max(axis=1, keepdims=True), 0)
    odds = np.exp(linear - top)
    shares: Floats = odds / (np.exp(-top) + odds.sum(axis=1, keepdims=True))
    return shares


def _likelihood(
    beta: Floats, y: Floats, basis: Floats, weights: Floats, levels: int, *, count: bool
) -> float:
    linear = basis @ beta.reshape(levels, -1).T
    if count:
        with np.errstate(over="ignore"):
            return float(weights @ (y * linear[:, 0] - np.exp(linear[:, 0])))
    whole = np.column_stack([np.zeros(len(y)), linear])
    top = whole.max(axis=1)
    total = top + np.log(np.exp(whole - top[:, None]).sum(axis=1))
    return float(weights @ (whole[np.arange(len(y)), y.astype(int)] - total))


def _derivatives(
    beta: Floats, y: Floats, basis: Floats, weights: Floats, levels: int, *, count: bool
) -> tuple[Floats, Floats]:
    """Return the score of each row without its weight, shape (rows, p), and the information."""
    means = _means(beta, basis, levels, count=count)
    hit = y[:, None] if count else (y[:, None] == np.arange(1, levels + 1)).astype(float)
    scores = np.hstack([basis * (hit - means)[:, [level]] for level in range(levels)])
    width = basis.shape[1]
    information = np.empty((levels * width, levels * width))
    for one in range(levels):
        for other in range(levels):
            part = -means[:, one] * means[:, other] * (not count)
            if one == other:
                part = part + means[:, one]
            block = basis.T @ (basis * (weights * part)[:, None])
            information[one * width : (one + 1) * width, other * width : (other + 1) * width] = (
                block
            )
    return scores, information
