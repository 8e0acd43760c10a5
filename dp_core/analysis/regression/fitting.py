"""Fits a regression to every set: one solver for all families, with and without survey weights.

The estimate solves the score equations with the gradient of Jeffreys' prior (Firth 1993). The prior
moves an estimate by a small part of its standard error, and keeps it finite where maximum
likelihood has no solution: if the terms separate the outcomes, or a set lacks a level of the
outcome. It does not change a linear model, whose estimate is that of least squares.

With weights, the scores and the information are weighted. So the estimate does not change if all
weights are multiplied by one number. Its variance is the sandwich A^-1 B A^-1 with the weighted
information A and

    B = n / (n - 1) sum_i (w_i s_i - m) (w_i s_i - m)'

over the n rows with their scores s_i and the mean m of w_i s_i: linearization for a sample drawn
with replacement, with rows as primary units and one stratum (Binder 1983). With a sample design, B
follows from the clusters or the replicates. Without weights, the variance is that of the model.

Firth, D. (1993). Bias reduction of maximum likelihood estimates. Biometrika 80(1), 27-38.
Binder, D. A. (1983). On the variances of asymptotically normal estimators from complex surveys.
International Statistical Review 51(3), 279-292.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from dp_core.analysis.regression.design import Design, Family, Floats
from dp_core.analysis.regression.survey_sample import Sample
from dp_core.errors import BadInput
from dp_core.inference.formulas.formula import Formula

_ROUNDS = 200
_STEP = 1e-9
_LEFT = 1e-10
"""Twice the height of the penalised likelihood still to be gained, at which the search ends."""
_LONGEST = 5.0
"""Longest step of a coordinate, in standard deviations of the predictor."""
_LEAST_PART = 0.01
"""Least information of a replicate in any direction, as a part of the full information."""
_CHUNK = 1 << 11
_DEPENDENT = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """A fitted regression.

    Attributes:
        coefficients: Shape (p,); for a multinomial, those of the second level come first.
        covariance: Shape (p, p).
        bread: Inverse of the information, shape (p, p); of a linear model for variance 1.
        residual_df: Rows minus coefficients for a linear model, without rows of weight 0; None for
            the other families, whose reference is the normal distribution. By the sample design:
            its degrees of freedom, for every family.
        rows: Number of rows, those of weight 0 included.
        simple: By the sample design: covariance if the rows were a simple random sample of the
            population, shape (p, p), the denominator of a design effect (Kish 1965); else None.
        clustered: Whether the rows lie in clusters of the survey.
        fixed_df: Whether `residual_df` does not depend on the size of the set.
    """

    coefficients: Floats
    covariance: Floats
    bread: Floats
    residual_df: float | None
    rows: int
    simple: Floats | None = None
    clustered: bool = False
    fixed_df: bool = False


def coefficient_names(design: Design) -> tuple[str, ...]:
    """Return the name of every coefficient, in the order of a fit."""
    if design.outcome.family != "multinomial":
        return design.names
    levels = design.outcome.levels[1:]
    return tuple(f"{level}: {name}" for level in levels for name in design.names)


def coefficient_columns(formula: Formula, design: Design) -> dict[str, tuple[str, ...]]:
    """Return the columns of each coefficient's term by its name; none for the intercept."""
    width = len(design.names)
    return {
        name: formula.terms[design.terms[place % width]]
        for place, name in enumerate(coefficient_names(design))
    }


def fit_sets(design: Design) -> tuple[Fit, ...]:
    """Return the fit of each set.

    Raises:
        BadInput: if a set has no solution: the terms predict a number without error, too few rows
            have a weight, the terms are collinear with the weights, or the search does not end.
    """
    sets = len(design.y)
    parts = zip(
        *(design.y, design.x, design.also or (None,) * sets),
        *(design.weights or (None,) * sets, design.samples or (None,) * sets),
        strict=True,
    )
    return tuple(
        _fit(design, *each, where=f"set {number}") for number, each in enumerate(parts, start=1)
    )


def fitted_means(design: Design, x: Floats, coefficients: Floats) -> Floats:
    """Return the mean outcome of rows by some coefficients, shape (rows, levels - 1) or (rows, 1).

    Args:
        design: A design with the outcome.
        x: Rows of the design, shape (rows, k).
        coefficients: As those of a fit, shape (p,).
    """
    model = _Model(design.outcome.family, max(len(design.outcome.levels) - 1, 1))
    return model.means(coefficients, x)


def unequal_sizes_warning(fits: Sequence[Fit]) -> str:
    """Return a warning if the sets differ in their numbers of complete rows; else empty."""
    rows = [fit.rows for fit in fits]
    if max(rows) <= 1.1 * min(rows):
        return ""
    return (
        f"The sets have between {min(rows):,} and {max(rows):,} complete rows. The combining"
        " rule assumes equal sizes, so the interval corresponds to about their mean."
    )


def _fit(
    design: Design,
    y: Floats,
    x: Floats,
    also: Floats | None,
    weights: Floats | None,
    sample: Sample | None,
    *,
    where: str,
) -> Fit:
    """Return the fit of one set.

    With a rule for replicates, each replicate's estimate is one Newton step from the estimate with
    full weights. For a linear model the step is exact; for other families it differs from a
    complete search by less than the replicates differ from one another. If the terms are collinear
    in a replicate, its step uses the full information.
    """
    found = _solve(design, y, _with_extra_columns(x, also), weights, where)
    degrees = float(found.rows - found.basis.shape[1]) if found.model.linear else None
    simple: Floats | None = None
    if weights is None:
        # The model's variance; of a linear model, by its residuals.
        unit = float(found.residuals @ found.residuals) / degrees if degrees else 1.0
        covariance = unit * found.covariance(found.information)
    elif sample is None:
        # The prior has a slope, so the scores do not quite add up to 0.
        away = found.weighted - found.weighted.mean(axis=0)
        inner = away.T @ away
        covariance = found.covariance(inner * (found.rows / (found.rows - 1)))
    else:
        inner = (found.scores * found.weights[:, None]).T @ found.scores
        simple = found.covariance(inner * (found.rows / (found.rows - 1)))
        covariance = found.covariance(_by_design(found, sample))
        degrees = sample.degrees
    width = len(design.names)
    kept = np.flatnonzero(np.arange(found.beta.size) % found.basis.shape[1] < width)
    square = np.ix_(kept, kept)
    return Fit(
        *(found.coefficients[kept], covariance[square], found.bread[square], degrees, len(y)),
        simple=None if simple is None else simple[square],
        clustered=sample is not None and sample.clustered,
        fixed_df=sample is not None and sample.fixed,
    )


def _with_extra_columns(x: Floats, also: Floats | None) -> Floats:
    """Return the design with those of the other columns that it does not determine already."""
    if also is None:
        return x
    basis = linalg.qr(x, mode="economic")[0]
    length = np.maximum(np.sqrt((also**2).sum(axis=0)), 1e-300)
    left = (also - basis @ (basis.T @ also)) / length
    _, triangle, order = linalg.qr(left, mode="economic", pivoting=True)
    rank = int((np.abs(np.diag(triangle)) > _DEPENDENT).sum())
    return np.hstack([x, also[:, np.sort(order[:rank])]])


@dataclass(frozen=True, slots=True)
class _Model:
    """The family of a regression, on columns that are orthonormal under the weights.

    Attributes:
        family: Name of the family.
        levels: Number of linear predictors: of a multinomial the levels but the first, else 1.
    """

    family: Family
    levels: int

    @property
    def linear(self) -> bool:
        """Whether the outcome is a number."""
        return self.family == "linear"

    @property
    def count(self) -> bool:
        """Whether the outcome is a count, of a Poisson regression."""
        return self.family == "poisson"

    def start(self, y: Floats, basis: Floats, weights: Floats) -> Floats:
        """Return coefficients from which Newton's steps lead to the estimate, shape (p,)."""
        if self.linear:
            return np.asarray(basis.T @ (weights * y) / weights.sum())
        if self.count:
            return np.asarray(basis.T @ (weights * np.log(y + 0.5)) / weights.sum())
        return np.zeros(self.levels * basis.shape[1])

    def means(self, beta: Floats, basis: Floats) -> Floats:
        """Return the expected outcome of each row, by level, shape (rows, levels)."""
        linear = basis @ beta.reshape(self.levels, -1).T
        if self.linear:
            return np.asarray(linear)
        if self.count:
            return np.asarray(np.exp(np.minimum(linear, 700)))
        assert self.family in ("logistic", "multinomial")
        top = np.maximum(linear.max(axis=1, keepdims=True), 0)
        odds = np.exp(linear - top)
        return np.asarray(odds / (np.exp(-top) + odds.sum(axis=1, keepdims=True)))

    def scores(self, y: Floats, basis: Floats, means: Floats) -> Floats:
        """Return the score of each row without its weight, shape (rows, p)."""
        hit = y[:, None] == np.arange(1, self.levels + 1)
        away = (y[:, None] if self.linear or self.count else hit) - means
        return np.hstack([basis * away[:, [level]] for level in range(self.levels)])

    def information(self, basis: Floats, weights: Floats, means: Floats) -> Floats:
        """Return the weighted information, shape (p, p); of a linear model for variance 1."""
        width = basis.shape[1]
        found = np.empty((self.levels, width, self.levels, width))
        for one in range(self.levels):
            for other in range(one + 1):
                part = means[:, one] if one == other else np.zeros(len(means))
                if self.linear:
                    part = np.ones(len(means))
                elif not self.count:
                    part = part - means[:, one] * means[:, other]
                block = basis.T @ (basis * (weights * part)[:, None])
                found[one, :, other, :], found[other, :, one, :] = block, block.T
        return found.reshape(self.levels * width, -1)

    def likelihood(self, beta: Floats, y: Floats, basis: Floats, weights: Floats) -> float:
        """Return the weighted logarithm of the likelihood; not of a linear model."""
        linear = basis @ beta.reshape(self.levels, -1).T
        if self.count:
            with np.errstate(over="ignore"):
                return float(weights @ (y * linear[:, 0] - np.exp(linear[:, 0])))
        whole = np.column_stack([np.zeros(len(y)), linear])
        top = whole.max(axis=1)
        total = top + np.log(np.exp(whole - top[:, None]).sum(axis=1))
        return float(weights @ (whole[np.arange(len(y)), y.astype(int)] - total))

    def prior_slope(
        self, basis: Floats, weights: Floats, means: Floats, information: Floats
    ) -> Floats:
        """Return the gradient of half the logarithm of the information's determinant, shape (p,).

        With the information's inverse V, whose blocks are V_jl, a row with predictors x and means p
        adds w x s_k / 2 to the slope of level k. For Poisson, s = p x'Vx. Otherwise

            s_k = p_k (m_k - sum_j p_j m_j),   m_j = x'V_jj x - 2 sum_l p_l x'V_jl x.
        """
        root = linalg.solve_triangular(
            np.linalg.cholesky(information), np.eye(len(information)), lower=True
        ).T.reshape(self.levels, basis.shape[1], -1)
        slope = np.zeros((self.levels, basis.shape[1]))
        for start in range(0, len(basis), _CHUNK):
            part = slice(start, start + _CHUNK)
            p, own = means[part], weights[part, None]
            u = np.einsum("ia,kab->ikb", basis[part], root, optimize=True)
            m = np.einsum("ikb,ikb->ik", u, u)
            if not self.count:
                m = m - 2 * np.einsum("ikb,ib->ik", u, np.einsum("ik,ikb->ib", p, u))
                m = m - (p * m).sum(axis=1, keepdims=True)
            slope += (own * p * m).T @ basis[part] / 2
        return slope.ravel()


@dataclass(frozen=True, slots=True, eq=False)
class _Solution:
    """A fit in columns that are orthonormal under the weights.

    Without weights, and but for linear models, a row stands for all that are equal, and its weight
    is their number.

    Attributes:
        model: The family.
        beta: Coefficients of the orthonormal columns.
        information: Weighted information.
        scores: Score of each fitted row without its weight, shape (rows, p).
        weights: Weights of the fitted rows, with mean 1, or their numbers.
        used: Which rows were fitted: those with a weight above 0.
        scale: Mean of the weights before they were divided by it.
        basis: Orthonormal columns, shape (rows, columns).
        residuals: Outcome of each fitted row minus its mean, of a linear model.
        means: Expected outcome of each fitted row, by level.
        back: Matrix that turns `beta` into the coefficients.
    """

    model: _Model
    beta: Floats
    information: Floats
    scores: Floats
    weights: Floats
    used: NDArray[np.bool_]
    scale: float
    basis: Floats
    residuals: Floats
    means: Floats
    back: Floats

    @property
    def rows(self) -> int:
        return len(self.scores)

    @property
    def weighted(self) -> Floats:
        """Weighted score of each row."""
        found: Floats = self.scores * self.weights[:, None]
        return found

    @property
    def coefficients(self) -> Floats:
        found: Floats = self.back @ self.beta
        return found

    @property
    def bread(self) -> Floats:
        """Inverse of the information, for the coefficients."""
        found: Floats = self.back @ np.linalg.inv(self.information) @ self.back.T
        return found

    def covariance(self, inner: Floats) -> Floats:
        """Return the sandwich with a covariance of the sum of weighted scores."""
        bread = np.linalg.inv(self.information)
        found: Floats = self.back @ bread @ inner @ bread @ self.back.T
        return (found + found.T) / 2


def _solve(design: Design, y: Floats, x: Floats, weights: Floats | None, where: str) -> _Solution:
    model = _Model(design.outcome.family, max(len(design.outcome.levels) - 1, 1))
    counted = weights is None and not model.linear
    used = np.ones(len(y), dtype=bool) if weights is None else weights > 0
    if counted:
        x, y, weights = _counted(x, y)
    else:
        weights = np.ones(len(y)) if weights is None else weights[used]
        y, x = y[used], x[used]
    rows = float(weights.sum()) if counted else len(y)
    if rows <= x.shape[1]:
        raise BadInput(
            f"In {where} only {rows:g} row{'s have' if rows != 1 else ' has'} a weight above 0,"
            " too few for this formula."
        )
    scale = 1.0 if counted else float(weights.mean())
    weights = weights / scale
    triangle = np.linalg.qr(x * np.sqrt(weights)[:, None], mode="r")
    length = np.linalg.norm(triangle, axis=0)
    if (np.abs(np.diag(triangle)) <= _DEPENDENT * length).any():
        raise BadInput(f"With these weights the terms are collinear in {where}; leave one out.")
    # Columns that are orthonormal under the weights avoid problems of scale and collinearity.
    inverse = np.linalg.inv(triangle) * np.sqrt(rows)
    basis = x @ inverse
    beta = model.start(y, basis, weights)
    if not model.linear:
        beta = _search(model, beta, y, basis, weights, where)
    means = model.means(beta, basis)
    residuals = y - means[:, 0]
    if model.linear and float(weights @ residuals**2) <= 1e-18 * float(weights @ y**2):
        raise BadInput(
            f"The terms predict {design.outcome.name} without error in {where}; one of them is the"
            " outcome in another form. Leave it out."
        )
    return _Solution(
        model=model,
        beta=beta,
        information=model.information(basis, weights, means),
        scores=model.scores(y, basis, means),
        weights=weights,
        used=used,
        scale=scale,
        basis=basis,
        residuals=residuals,
        means=means,
        back=np.kron(np.eye(model.levels), inverse),
    )


def _counted(x: Floats, y: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the different rows of a design and its outcome, and how often each occurs.

    The likelihood depends on nothing else, and predictors that are levels or bins have few rows.
    """
    rows, counts = np.unique(np.column_stack([x, y]), axis=0, return_counts=True)
    return rows[:, :-1], rows[:, -1], counts.astype(np.float64)


def _search(
    model: _Model, beta: Floats, y: Floats, basis: Floats, weights: Floats, where: str
) -> Floats:
    """Return the coefficients at the maximum, by scoring with step halving (Firth 1993)."""

    def height(at: Floats) -> float:
        information = model.information(basis, weights, model.means(at, basis))
        sign, size = np.linalg.slogdet(information)
        return model.likelihood(at, y, basis, weights) + size / 2 if sign > 0 else -np.inf

    value = height(beta)
    for _ in range(_ROUNDS):
        means = model.means(beta, basis)
        information = model.information(basis, weights, means)
        try:
            slope = weights @ model.scores(y, basis, means)
            slope = slope + model.prior_slope(basis, weights, means, information)
            step = np.linalg.solve(information, slope)
            left = float(slope @ step)
        except np.linalg.LinAlgError:
            break
        step = step * min(1.0, _LONGEST / max(float(np.abs(step).max()), 1e-300))
        for _ in range(60):
            moved = height(beta + step)
            if moved >= value - 1e-12 * abs(value):
                break
            step = step / 2
        beta, value = beta + step, moved
        # The height still to be gained is half of `left`.
        if np.abs(step).max() <= _STEP or left <= _LEFT:
            return beta
    raise BadInput(f"The regression has no solution in {where}; leave a term out.")


def _by_design(found: _Solution, sample: Sample) -> Floats:
    """Return the covariance of the sum of weighted scores by the sample design."""
    if sample.rule is None:
        return np.asarray(sample.variance(found.weighted, found.used))
    steps = []
    for part, own in sample.replicates():
        weights = own[found.used] / found.scale
        information = found.model.information(found.basis, weights, found.means)
        # The prior has the same slope for every replicate.
        scores = (weights - found.weights) @ found.scores
        step = _replicate_step(information, found.information, scores)
        # In terms of scores, so that all variances take the same way back.
        steps.append(np.sqrt(part) * (found.information @ step))
    return np.asarray(np.array(steps).T @ np.array(steps))


def _replicate_step(information: Floats, full: Floats, scores: Floats) -> Floats:
    """Return a Newton step; by the full information if that of the replicate is too small."""
    least = float(linalg.eigh(information, full, eigvals_only=True, subset_by_index=[0, 0])[0])
    chosen = information if least > _LEAST_PART else full
    return np.asarray(np.linalg.solve(chosen, scores), dtype=np.float64)
