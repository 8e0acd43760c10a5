"""Fits of one regression, by statsmodels, with what goes wrong in them told."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg

from dp_core.analysis.regression.design import Design, Floats
from dp_core.analysis.regression.weighted import weighted_fit
from dp_core.errors import BadInput

_LEAST_INFORMATION = 1e-8
"""Least information in any direction, as a part of what all rows could give, that is no limit."""
_LARGEST_STEP = 1e-4
"""Newton's next step, in standard deviations of the linear predictor, that a finished fit has."""


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """A fitted regression.

    Attributes:
        coefficients: Shape (p,); of a multinomial, all those of the second level first.
        covariance: Shape (p, p).
        residual_df: Rows less coefficients of a linear model; None: the normal distribution.
        rows: That were fitted.
    """

    coefficients: Floats
    covariance: Floats
    residual_df: float | None
    rows: int


def coefficient_names(design: Design) -> tuple[str, ...]:
    """Return the name of every coefficient, in the order of a fit."""
    if design.outcome.family != "multinomial":
        return design.names
    levels = design.outcome.levels[1:]
    return tuple(f"{level}: {name}" for level in levels for name in design.names)


def fit_sets(design: Design) -> tuple[Fit, ...]:
    """Return the fit of each set.

    Raises:
        BadInput: if one of them has none: separation, or a perfect fit.
    """
    weights = design.weights or (None,) * len(design.y)
    return tuple(
        _fit(design, y, x, own, f"set {number}")
        for number, (y, x, own) in enumerate(zip(design.y, design.x, weights, strict=True), start=1)
    )


def fit_stacked(design: Design) -> Fit:
    """Return the fit of all sets as if their rows were so many people: what not to do."""
    weights = np.concatenate(design.weights) if design.weights else None
    y, x = np.concatenate(design.y), np.concatenate(design.x)
    return _fit(design, y, x, weights, "all sets together")


def _fit(design: Design, y: Floats, x: Floats, weights: Floats | None, where: str) -> Fit:
    if weights is not None:
        coefficients, covariance = weighted_fit(design, y, x, weights, where)
        degrees = len(y) - x.shape[1] if design.outcome.family == "linear" else None
        return Fit(coefficients, covariance, degrees, len(y))
    # Importing them brings filters of their own, which must not come after ours.
    import statsmodels.discrete.discrete_model
    import statsmodels.regression.linear_model  # noqa: F401

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        # What they warn of is looked for below, in numbers.
        warnings.simplefilter("ignore")
        if design.outcome.family == "linear":
            return _linear(design, y, x, where)
        return _likelihood(design, y, x, where)


def _linear(design: Design, y: Floats, x: Floats, where: str) -> Fit:
    from statsmodels.regression.linear_model import OLS

    result = OLS(y, x).fit()
    if result.ssr <= 1e-18 * float(y @ y):
        raise BadInput(
            f"The terms give {design.outcome.name} without any error in {where}; one of them is the"
            " outcome itself in another form."
        )
    return Fit(
        np.asarray(result.params, dtype=float),
        np.asarray(result.cov_params(), dtype=float),
        float(result.df_resid),
        len(y),
    )


def _likelihood(design: Design, y: Floats, x: Floats, where: str) -> Fit:
    """Fit by maximum likelihood, in orthonormal columns: scales and near collinearity vanish.

    Where a combination of terms separates the outcomes there is no maximum: the likelihood rises
    for ever along it, the information in that direction goes to 0, and each Newton step is about as
    long as the one before. Either is looked for at the end (Albert and Anderson 1984).
    """
    basis, triangle = linalg.qr(x, mode="economic")
    basis = basis * np.sqrt(len(y))
    model, start = _model(design, y, basis)
    found, information = _search(model, start)
    if found is None:
        raise BadInput(_separated(design, where, ""))
    most = float(y.mean()) if design.outcome.family == "poisson" else 1.0
    sizes, directions = np.linalg.eigh(information)
    back = np.kron(np.eye(found.size // x.shape[1]), linalg.inv(triangle) * np.sqrt(len(y)))
    weak = sizes[0] <= _LEAST_INFORMATION * most * len(y)
    if not weak:
        step = np.linalg.solve(information, np.asarray(model.score(found), dtype=float).ravel())
        weak = bool(np.abs(step).max() > _LARGEST_STEP)
        found = found + step
    if weak:
        raise BadInput(_separated(design, where, _culprit(design, back @ directions[:, 0], x)))
    covariance = back @ np.linalg.inv(information) @ back.T
    return Fit(back @ found, (covariance + covariance.T) / 2, None, len(y))


def _search(model: Any, start: Floats | None) -> tuple[Floats | None, Floats]:
    """Return coefficients and the information at them; none if no search comes to any.

    Where Newton's method fails, a slower one goes far enough to see which way they run.
    """
    from statsmodels.tools.sm_exceptions import PerfectSeparationError

    for method, options in (
        ("newton", {"maxiter": 100}),
        ("bfgs", {"maxiter": 50, "skip_hessian": True}),
    ):
        try:
            result = model.fit(method=method, disp=0, start_params=start, **options)
        except (PerfectSeparationError, np.linalg.LinAlgError, ValueError, OverflowError):
            continue
        # statsmodels gives the coefficients of a multinomial as a matrix, a column for each level.
        found = np.asarray(result.params, dtype=float).reshape(-1, order="F")
        information = -np.asarray(model.hessian(found), dtype=float)
        if np.isfinite(found).all() and np.isfinite(information).all():
            return found, information
    return None, np.empty(0)


def _model(design: Design, y: Floats, basis: Floats) -> tuple[Any, Floats | None]:
    """Return statsmodels' model and where its search begins."""
    from statsmodels.discrete.discrete_model import Logit, MNLogit, Poisson

    if design.outcome.family == "logistic":
        return Logit(y, basis), None
    if design.outcome.family == "multinomial":
        return MNLogit(y, basis), None
    # Newton's first steps from far away overshoot; least squares of the log are near.
    start = np.asarray(np.linalg.lstsq(basis, np.log(y + 0.5), rcond=None)[0], dtype=np.float64)
    return Poisson(y, basis), start


def _separated(design: Design, where: str, culprit: str) -> str:
    what = f"{culprit} separates" if culprit else "the terms separate"
    return (
        f"In {where} {what} the values of {design.outcome.name} perfectly, so the estimate is"
        f" infinite: leave {culprit or 'a term'} out, or merge levels that are rare."
    )


def _culprit(design: Design, direction: Floats, x: Floats) -> str:
    """Return the term along which the likelihood rises most."""
    size = np.abs(direction.reshape(-1, x.shape[1])).max(axis=0) * x.std(axis=0)
    return design.names[int(size.argmax())] if size.max() > 0 else ""


def check_enough(fits: Sequence[Fit]) -> str:
    """Return a warning where sets of different length are combined as if they were alike."""
    rows = [fit.rows for fit in fits]
    if max(rows) <= 1.1 * min(rows):
        return ""
    return (
        f"The sets have between {min(rows):,} and {max(rows):,} complete rows; the rule takes them"
        " as alike, so its interval is one for about the mean of these sizes."
    )
