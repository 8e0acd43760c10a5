"""Fits one regression to every set with statsmodels, and detects separation and perfect fits."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import linalg

from dp_core.analysis.regression.design import Design, Floats
from dp_core.analysis.regression.weighted import Fit, design_fit, separated, weighted_fit
from dp_core.errors import BadInput

_LEAST_INFORMATION = 1e-8
"""Smallest information in any direction, as a share of the largest possible, of a finite fit."""
_LARGEST_STEP = 1e-4
"""Largest next Newton step of a converged fit, in standard deviations of the predictor."""


def coefficient_names(design: Design) -> tuple[str, ...]:
    """Return the name of every coefficient, in the order of a fit."""
    if design.outcome.family != "multinomial":
        return design.names
    levels = design.outcome.levels[1:]
    return tuple(f"{level}: {name}" for level in levels for name in design.names)


def fit_sets(design: Design) -> tuple[Fit, ...]:
    """Return the fit of each set.

    Raises:
        BadInput: if a set has no solution, because of separation or a perfect fit.
    """
    if design.samples:
        each = zip(design.y, design.x, design.weights, design.samples, strict=True)
        return tuple(
            design_fit(design, y, x, own, sample, f"set {number}")
            for number, (y, x, own, sample) in enumerate(each, start=1)
        )
    weights = design.weights or (None,) * len(design.y)
    return tuple(
        _fit(design, y, x, own, f"set {number}")
        for number, (y, x, own) in enumerate(zip(design.y, design.x, weights, strict=True), start=1)
    )


def fit_stacked(design: Design) -> Fit:
    """Return the invalid fit that treats the rows of all sets as one file, for comparison."""
    weights = np.concatenate(design.weights) if design.weights else None
    y, x = np.concatenate(design.y), np.concatenate(design.x)
    return _fit(design, y, x, weights, "all sets together")


def _fit(design: Design, y: Floats, x: Floats, weights: Floats | None, where: str) -> Fit:
    if weights is not None:
        coefficients, covariance = weighted_fit(design, y, x, weights, where)
        used = int(np.count_nonzero(weights))
        degrees = used - x.shape[1] if design.outcome.family == "linear" else None
        return Fit(coefficients, covariance, degrees, len(y))
    # These imports install warning filters and must come before ours.
    import statsmodels.discrete.discrete_model
    import statsmodels.regression.linear_model  # noqa: F401

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        # The conditions behind their warnings are checked numerically below.
        warnings.simplefilter("ignore")
        if design.outcome.family == "linear":
            return _linear(design, y, x, where)
        return _likelihood(design, y, x, where)


def _linear(design: Design, y: Floats, x: Floats, where: str) -> Fit:
    from statsmodels.regression.linear_model import OLS

    result = OLS(y, x).fit()
    if result.ssr <= 1e-18 * float(y @ y):
        raise BadInput(
            f"The terms predict {design.outcome.name} without error in {where}; one of them is the"
            " outcome in another form. Leave it out."
        )
    return Fit(
        np.asarray(result.params, dtype=float),
        np.asarray(result.cov_params(), dtype=float),
        float(result.df_resid),
        len(y),
    )


def _likelihood(design: Design, y: Floats, x: Floats, where: str) -> Fit:
    """Return the maximum likelihood fit, computed in orthonormal columns.

    If a combination of terms separates the outcomes, there is no maximum: the likelihood increases
    without end along it, the information in that direction tends to 0, and Newton steps do not get
    shorter. Both signs are checked after the search (Albert and Anderson 1984).
    """
    basis, triangle = linalg.qr(x, mode="economic")
    basis = basis * np.sqrt(len(y))
    model, start = _model(design, y, basis)
    found, information = _search(model, start)
    if found is None:
        raise separated(where, design.outcome.name, "", None)
    most = float(y.mean()) if design.outcome.family == "poisson" else 1.0
    sizes, directions = np.linalg.eigh(information)
    back = np.kron(np.eye(found.size // x.shape[1]), linalg.inv(triangle) * np.sqrt(len(y)))
    weak = sizes[0] <= _LEAST_INFORMATION * most * len(y)
    if not weak:
        step = np.linalg.solve(information, np.asarray(model.score(found), dtype=float).ravel())
        weak = bool(np.abs(step).max() > _LARGEST_STEP)
        found = found + step
    if weak:
        column = _culprit(back @ directions[:, 0], x)
        name = "" if column is None else design.names[column]
        raise separated(where, design.outcome.name, name, column)
    covariance = back @ np.linalg.inv(information) @ back.T
    return Fit(back @ found, (covariance + covariance.T) / 2, None, len(y))


def _search(model: Any, start: Floats | None) -> tuple[Floats | None, Floats]:
    """Return coefficients and their information; None if no search finds any.

    If Newton's method fails, BFGS goes far enough to show the direction of separation.
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
        # statsmodels returns multinomial coefficients as a matrix with a column for each level.
        found = np.asarray(result.params, dtype=float).reshape(-1, order="F")
        information = -np.asarray(model.hessian(found), dtype=float)
        if np.isfinite(found).all() and np.isfinite(information).all():
            return found, information
    return None, np.empty(0)


def _model(design: Design, y: Floats, basis: Floats) -> tuple[Any, Floats | None]:
    """Return the statsmodels model and the start of its search."""
    from statsmodels.discrete.discrete_model import Logit, MNLogit, Poisson

    if design.outcome.family == "logistic":
        return Logit(y, basis), None
    if design.outcome.family == "multinomial":
        return MNLogit(y, basis), None
    # Newton's first steps overshoot from a distant start; least squares of the log is close.
    start = np.asarray(np.linalg.lstsq(basis, np.log(y + 0.5), rcond=None)[0], dtype=np.float64)
    return Poisson(y, basis), start


def _culprit(direction: Floats, x: Floats) -> int | None:
    """Return the column of x along which the likelihood increases most; None if none does."""
    size = np.abs(direction.reshape(-1, x.shape[1])).max(axis=0) * x.std(axis=0)
    return int(size.argmax()) if size.max() > 0 else None


def check_enough(fits: Sequence[Fit]) -> str:
    """Return a warning if the sets differ in their numbers of complete rows; else empty."""
    rows = [fit.rows for fit in fits]
    if max(rows) <= 1.1 * min(rows):
        return ""
    return (
        f"The sets have between {min(rows):,} and {max(rows):,} complete rows. The combining"
        " rule assumes equal sizes, so the interval corresponds to about their mean."
    )
