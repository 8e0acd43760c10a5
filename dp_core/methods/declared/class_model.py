"""Multinomial logistic regression from moments: coefficients whose expected x y is a given mean."""

from __future__ import annotations

import numpy as np

from dp_core.methods.declared.declared_regression import Floats

_STEPS = 50


def chances_of(x: Floats, coefficients: Floats) -> Floats:
    """Return the probabilities of the levels from the second on, shape (records, residuals).

    Args:
        x: Features, shape (records, features).
        coefficients: Shape (residuals, features); those of the first level are 0.
    """
    logits = x @ coefficients.T
    top = np.maximum(logits.max(axis=1, keepdims=True), 0)
    odds = np.exp(logits - top)
    return np.asarray(odds / (odds.sum(axis=1, keepdims=True) + np.exp(-top)))


def information(x: Floats, chances: Floats, factors: Floats | None = None) -> Floats:
    """Return the mean information of the coefficients, level by level, shape (k, k).

    Args:
        x: Features, shape (records, features).
        chances: Probabilities, shape (records, residuals).
        factors: Factor of each record, shape (records,); 1 by default.
    """
    residuals, width = chances.shape[1], x.shape[1]
    weight = np.ones(len(x)) if factors is None else factors
    found = np.empty((residuals, width, residuals, width))
    for one in range(residuals):
        for other in range(residuals):
            own = weight * chances[:, one] * ((one == other) - chances[:, other])
            found[one, :, other, :] = (x * own[:, None]).T @ x / len(x)
    return found.reshape(residuals * width, -1)


def fitted_classes(x: Floats, target: Floats, moments: Floats, *, prior: float) -> Floats:
    """Return the coefficients at which the mean of x p is a given one, shape (residuals, features).

    Args:
        x: Features of model records, shape (records, features).
        target: The given mean of x [y = level], shape (residuals, features).
        moments: Mean of x x' in the file, shape (features, features). A linear regression on x
            adjusts the model records' mean of x p to these moments.
        prior: Weight of a penalty that keeps the coefficients finite if a level is separated,
            relative to the mean curvature of a record of the file.
    """
    moved = np.linalg.solve(x.T @ x / len(x) + np.eye(x.shape[1]) * 1e-9, moments)
    penalty = prior * np.kron(np.eye(len(target)), moments)
    found = np.zeros_like(target)
    for _ in range(_STEPS):
        chances = chances_of(x, found)
        slope = (
            (chances.T @ x / len(x)) @ moved
            - target
            + (penalty @ found.ravel()).reshape(target.shape)
        )
        curvature = information(x, chances)
        curvature = curvature @ np.kron(np.eye(len(target)), moved) + penalty
        step = np.linalg.lstsq(curvature, slope.ravel(), rcond=1e-9)[0].reshape(target.shape)
        # A step of more than 2 in a logit goes beyond where the curvature holds.
        reach = float(np.abs(x @ step.T).max(initial=0.0))
        found = found - step * min(1.0, 2.0 / max(reach, 1e-300))
        if reach < 1e-7:
            break
    return found
