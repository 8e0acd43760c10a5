"""Regressions with survey weights: weighted estimates and their sandwich variances.

The estimate solves the weighted score equations (pseudo maximum likelihood; for a linear model,
weighted least squares), so it does not change if all weights are multiplied by one number. Its
variance is the sandwich A^-1 B A^-1 with the weighted information A and

    B = n / (n - 1) sum_i w_i^2 s_i s_i'

over the n rows with their scores s_i: linearization for a sample drawn with replacement, with rows
as primary units and one stratum. `design_fit` uses the sample design that the schema states.

Binder, D. A. (1983). On the variances of asymptotically normal estimators from complex surveys.
International Statistical Review 51(3), 279-292.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.analysis.regression.design import Design, Floats
from dp_core.analysis.regression.survey_sample import Sample
from dp_core.errors import BadInput, Separated

ROUNDS = 100
_LEAST_INFORMATION = 1e-8
_STEP = 1e-10
_LEAST_PART = 0.01
"""Least information of a replicate in any direction, as a part of the full information."""


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
    found = _solve(design, y, x, weights, where)
    inner = found.weighted.T @ found.weighted
    inner *= found.rows / (found.rows - 1)
    return found.coefficients, found.covariance(inner)


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """A fitted regression.

    Attributes:
        coefficients: Shape (p,); for a multinomial, those of the second level come first.
        covariance: Shape (p, p).
        residual_df: Rows minus coefficients for a linear model, without rows of weight 0; None for
            the other families, whose reference is the normal distribution. By the sample design:
            its degrees of freedom, for every family.
        rows: Number of fitted rows.
        simple: By the sample design: covariance if the rows were a simple random sample of the
            population, shape (p, p), the denominator of a design effect (Kish 1965); else None.
        clustered: Whether the rows lie in clusters of the survey.
        fixed_df: Whether `residual_df` does not depend on the size of the set.
    """

    coefficients: Floats
    covariance: Floats
    residual_df: float | None
    rows: int
    simple: Floats | None = None
    clustered: bool = False
    fixed_df: bool = False


def design_fit(
    design: Design, y: Floats, x: Floats, weights: Floats, sample: Sample, where: str
) -> Fit:
    """Return the weighted fit of `weighted_fit` with its variance by the sample design.

    Without a rule for replicates, the matrix B is that of the clusters' weighted totals of scores
    (`dp_core.inference.design_variance`). With a rule, each replicate's estimate is one Newton step
    from the estimate with full weights. For a linear model the step is exact; for other families it
    differs from a complete search by less than the replicates differ from one another. If the terms
    are collinear or separate the outcomes in a replicate, its step uses the full information.

    Args:
        design: Outcome and design.
        y: Outcome, or the index of its level, shape (rows,).
        x: Design matrix, shape (rows, columns).
        weights: Weights of at least 0, shape (rows,).
        sample: Sample design of the set.
        where: Name of the set, for messages.

    Raises:
        BadInput: as for `weighted_fit`.
    """
    found = _solve(design, y, x, weights, where)
    simple: Floats = (found.scores * found.weights[:, None]).T @ found.scores
    simple = simple * (found.rows / (found.rows - 1))
    if sample.rule is None:
        inner = sample.variance(found.weighted, found.used)
    else:
        steps = []
        for part, own in sample.replicates():
            weights_r = own[found.used] / found.scale
            information = _information(design, found, weights_r)
            step = _step(information, found.information, weights_r @ found.scores)
            # In terms of scores, so that all variances take the same way back.
            steps.append(np.sqrt(part) * (found.information @ step))
        inner = np.array(steps).T @ np.array(steps)
    return Fit(
        *(found.coefficients, found.covariance(inner), sample.degrees, len(y)),
        simple=found.covariance(simple),
        clustered=sample.clustered,
        fixed_df=sample.fixed,
    )


def _step(information: Floats, full: Floats, scores: Floats) -> Floats:
    """Return a Newton step; by the full information if that of the replicate is too small."""
    from scipy.linalg import eigh

    least = float(eigh(information, full, eigvals_only=True, subset_by_index=[0, 0])[0])
    chosen = information if least > _LEAST_PART else full
    return np.asarray(np.linalg.solve(chosen, scores), dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class _Solution:
    """A weighted fit in columns that are orthonormal under the weights.

    Attributes:
        beta: Coefficients of the orthonormal columns.
        information: Weighted information.
        scores: Score of each fitted row without its weight, shape (rows, p).
        weights: Weights of the fitted rows, with mean 1.
        used: Which rows were fitted: those with a weight above 0.
        scale: Mean of the weights before they were divided by it.
        basis: Orthonormal columns, shape (rows, columns).
        y: Outcome of the fitted rows.
        back: Matrix that turns `beta` into the coefficients.
    """

    beta: Floats
    information: Floats
    scores: Floats
    weights: Floats
    used: NDArray[np.bool_]
    scale: float
    basis: Floats
    y: Floats
    back: Floats

    @property
    def rows(self) -> int:
        return len(self.y)

    @property
    def weighted(self) -> Floats:
        """Weighted score of each row."""
        found: Floats = self.scores * self.weights[:, None]
        return found

    @property
    def coefficients(self) -> Floats:
        found: Floats = self.back @ self.beta
        return found

    def covariance(self, inner: Floats) -> Floats:
        """Return the sandwich with a covariance of the sum of weighted scores."""
        bread = np.linalg.inv(self.information)
        found: Floats = self.back @ bread @ inner @ bread @ self.back.T
        return (found + found.T) / 2


def _solve(design: Design, y: Floats, x: Floats, weights: Floats, where: str) -> _Solution:
    used = weights > 0
    y, x, weights = y[used], x[used], weights[used]
    if len(y) <= x.shape[1]:
        raise BadInput(
            f"In {where} only {len(y)} row{'s have' if len(y) != 1 else ' has'} a weight above 0,"
            " too few for this formula."
        )
    scale = float(weights.mean())
    weights = weights / scale
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
    blocks = beta.size // x.shape[1]
    back = np.kron(np.eye(blocks), np.linalg.inv(triangle) * np.sqrt(len(y)))
    return _Solution(beta, information, scores, weights, used, scale, basis, y, back)


def _information(design: Design, found: _Solution, weights: Floats) -> Floats:
    """Return the information at the solution under other weights."""
    if design.outcome.family == "linear":
        return found.basis.T @ (found.basis * weights[:, None])
    levels = found.beta.size // found.basis.shape[1]
    count = design.outcome.family == "poisson"
    return _derivatives(found.beta, found.y, found.basis, weights, levels, count=count)[1]


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
    weighted = bool(np.ptp(weights))  # unit weights are those of a design without weights
    raise separated(
        f"{where}, under these weights," if weighted else where, design.outcome.name, "", None
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


def separated(where: str, outcome: str, name: str, column: int | None) -> Separated:
    """Return the error for one set.

    Args:
        where: Name of the set.
        outcome: Left side of the formula.
        name: Name of the column of the design that separates most; empty if it is unknown.
        column: Its position; None if it is unknown.
    """
    what = f"{name} separates" if name else "the terms separate"
    error = Separated(
        f"In {where} {what} the values of {outcome} perfectly, so the estimate is infinite."
    )
    error.column = column
    return error
