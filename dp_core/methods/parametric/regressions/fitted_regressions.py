"""Regressions fitted to noisy gradients, with model records as predictors. Public.

A released gradient determines the sum of [y = k] x over the file, given the distribution of the
predictors x, which the model of the earlier columns supplies. So the fit minimises a loss that has
the released gradient at coefficients 0, and the curvature of the model records. That is a moment
fit: the model records get the released sums.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, optimize

from dp_core.kernel.questions.regressions.features import ONE
from dp_core.kernel.questions.regressions.gradients import (
    PROBABILITY,
    ClassGradient,
    NumberGradient,
    probabilities,
)

_NEWTON = 60
_MOST_NEWTON = 200  # coefficients; with more the curvature is not computed at every step
_JOINT = 400  # coefficients that are drawn together; with more, class by class


@dataclass(frozen=True, slots=True, eq=False)
class ClassFit:
    """A multinomial logistic regression with the public precision of its coefficients.

    Attributes:
        coefficients: Coefficients of the classes from the second on, shape (classes - 1, features).
        precision: Lower Cholesky factors of the precision matrix, one of all coefficients together
            or one per class.
    """

    coefficients: NDArray[np.float64]
    precision: tuple[NDArray[np.float64], ...]

    def drawn(self, rng: np.random.Generator) -> NDArray[np.float64]:
        """Return coefficients drawn around the estimate."""
        parts = [
            linalg.solve_triangular(factor, rng.standard_normal(len(factor)), lower=True, trans="T")
            for factor in self.precision
        ]
        return np.asarray(
            self.coefficients + np.concatenate(parts).reshape(self.coefficients.shape)
        )


@dataclass(frozen=True, slots=True, eq=False)
class NumberFit:
    """A linear regression of a number scaled to [-1, 1].

    Attributes:
        coefficients: Coefficients, shape (features,).
        variance: Variance of the residuals.
        precision: Lower Cholesky factor of the precision of the coefficients times the variance.
        freedom: Degrees of freedom of the residuals, at least 1.
    """

    coefficients: NDArray[np.float64]
    variance: float
    precision: NDArray[np.float64]
    freedom: float

    def drawn(self, rng: np.random.Generator) -> tuple[NDArray[np.float64], float]:
        """Return coefficients and residual variance drawn from their posterior."""
        variance = self.variance * self.freedom / rng.chisquare(self.freedom)
        normal = rng.standard_normal(len(self.coefficients))
        move = linalg.solve_triangular(self.precision, normal, lower=True, trans="T")
        return self.coefficients + np.sqrt(variance) * move, float(variance)


def chances(matrix: NDArray[np.float64], coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probabilities of all classes, shape (rows, classes)."""
    own, _ = _chances(matrix, coefficients)
    return np.asarray(np.vstack([1 - own.sum(axis=0), own]).clip(0, 1).T)


def _chances(
    matrix: NDArray[np.float64], coefficients: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the probabilities of the classes from the second on, and the log of the sum of odds.

    Shapes (classes - 1, rows) and (rows,); with rows last, memory access is fast.
    """
    logits = coefficients @ matrix.T
    top = np.maximum(logits.max(axis=0), 0)
    weights = np.exp(logits - top)
    sums = weights.sum(axis=0) + np.exp(-top)
    weights /= sums
    return weights, np.log(sums) + top


def fit_classes(
    matrix: NDArray[np.int64],
    mass: NDArray[np.float64],
    of: ClassGradient,
    gradient: NDArray[np.float64],
    noise: float,
    *,
    prior: float,
) -> ClassFit:
    """Return the regression that a noisy gradient implies.

    Args:
        matrix: Features of the model records, shape (records, features), in units of 1/`ONE`.
        mass: Number of records of the file that each model record represents.
        of: The question.
        gradient: Its noisy answer, in the question's unit.
        noise: Standard deviation of the answer's noise, in the same unit.
        prior: Prior standard deviation of the coefficients.
    """
    unit = PROBABILITY * ONE
    shape = (of.classes - 1, of.features.width)
    # Use the question's own integer probabilities, so that its rounding is not taken for signal.
    there = probabilities(matrix, of.at, of.classes)[:, 1:] / PROBABILITY
    features = matrix / ONE
    released = gradient.reshape(shape) / unit
    target = (there * mass[:, None]).T @ features - released
    even = (of.classes - 1) / of.classes**2
    penalty = _penalty(even * _products(features, mass), (noise / unit) ** 2, prior)
    coefficients = _minimum(features, mass, target, penalty)
    return ClassFit(coefficients, class_precision(features, mass, coefficients, prior=prior))


def class_precision(
    features: NDArray[np.float64],
    mass: NDArray[np.float64],
    coefficients: NDArray[np.float64],
    *,
    prior: float,
) -> tuple[NDArray[np.float64], ...]:
    """Return Cholesky factors of the Fisher information of the model records plus the prior's."""
    classes, width = coefficients.shape
    # Half a record in each class, as in Jeffreys' prior, so that coefficients of a rare class are
    # not drawn from the prior alone.
    records = float(mass.sum())
    smooth = (records * chances(features, coefficients) + 0.5) / (records + 0.5 * (classes + 1))
    weights = smooth[:, 1:].T
    if classes * width > _JOINT:
        alone = [
            _products(features, mass * weights[each] * (1 - weights[each]))
            for each in range(classes)
        ]
        return tuple(_root(each + np.eye(width) / prior**2) for each in alone)
    whole = _curvature(features, mass, weights) + np.eye(classes * width) / prior**2
    return (_root(whole),)


def fit_number(
    matrix: NDArray[np.int64],
    mass: NDArray[np.float64],
    of: NumberGradient,
    gradient: NDArray[np.float64],
    noise: float,
    *,
    prior: float,
) -> NumberFit:
    """Return the linear regression that a noisy gradient implies; see `fit_classes`."""
    unit, squared = ONE**2, (noise / ONE**2) ** 2
    features, records = matrix / ONE, max(1.0, float(mass.sum()))
    products = _products(features, mass)
    slope, size = gradient[:-1] / unit, (gradient[-1] / unit + records) / 2
    inverse = np.linalg.inv(products + _penalty(products, squared, prior))
    coefficients = -(inverse @ slope)
    # Noise in the coefficients biases the residual variance downwards.
    apparent = squared * (2 * np.trace(inverse) - np.trace(inverse @ products @ inverse))
    residual = size + 2 * coefficients @ slope + coefficients @ products @ coefficients + apparent
    return number_fit(features, mass, of, coefficients, residual / records, prior=prior)


def number_fit(
    features: NDArray[np.float64],
    mass: NDArray[np.float64],
    of: NumberGradient,
    coefficients: NDArray[np.float64],
    variance: float,
    *,
    prior: float,
) -> NumberFit:
    """Return a linear regression with the precision that the model records give.

    Args:
        features: Features of the model records, shape (records, features).
        mass: Number of records of the file that each model record represents.
        of: The question.
        coefficients: Estimated coefficients.
        variance: Estimated residual variance; cut to what is possible.
        prior: Prior standard deviation of the coefficients.
    """
    products, records = _products(features, mass), max(1.0, float(mass.sum()))
    # At least the variance of rounding to the grid, at most that of the range.
    least = (2 / of.target.positions) ** 2 / 12
    return NumberFit(
        coefficients,
        float(np.clip(variance, least, 1.0)),
        _root(products + np.eye(len(products)) / prior**2),
        max(1.0, records - len(coefficients)),
    )


def _root(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.linalg.cholesky(matrix), dtype=np.float64)


def _products(features: NDArray[np.float64], mass: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray((features * mass[:, None]).T @ features)


def _penalty(curvature: NDArray[np.float64], noise: float, prior: float) -> NDArray[np.float64]:
    """Return the penalty matrix that shrinks coefficients according to the noise and the prior.

    With curvature H, an answer T with noise variance s^2, and prior variance v of the coefficients
    b, minimising |H b - T|^2/(2 s^2) + |b|^2/(2 v) means solving (H + (s^2/v) H^-1) b = T. The
    additional term 1/v is the prior's weight relative to the likelihood of the file itself.
    """
    own = np.eye(len(curvature)) / prior**2
    penalty = own + noise / prior**2 * np.linalg.inv(curvature + own)
    return np.asarray((penalty + penalty.T) / 2)


def _curvature(
    features: NDArray[np.float64], mass: NDArray[np.float64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the Hessian for class probabilities (second class on) of shape (classes, rows)."""
    classes, width = len(weights), features.shape[1]
    found = np.empty((classes, width, classes, width))
    for one in range(classes):
        for other in range(one, classes):
            part = mass * weights[one] * ((one == other) - weights[other])
            found[one, :, other, :] = _products(features, part)
            found[other, :, one, :] = found[one, :, other, :].T
    return found.reshape(classes * width, classes * width)


def _minimum(
    features: NDArray[np.float64],
    mass: NDArray[np.float64],
    target: NDArray[np.float64],
    penalty: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the b that minimises mass log sum exp(x'b) - target b + b'penalty b/2."""

    def value(point: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        coefficients = point.reshape(target.shape)
        own, odds = _chances(features, coefficients)
        drawn = coefficients @ penalty
        loss = mass @ odds + np.sum(coefficients * (drawn / 2 - target))
        slope = (own * mass) @ features - target + drawn
        return float(loss), slope.reshape(-1)

    point = np.zeros(target.size)
    if point.size > _MOST_NEWTON:
        found = optimize.minimize(value, point, jac=True, method="L-BFGS-B")
        return np.asarray(found.x).reshape(target.shape)
    # A gradient below 1e-7 of the records is far below any noise.
    within = 1e-7 * max(1.0, float(mass.sum()))
    whole = np.kron(np.eye(target.shape[0]), penalty)
    loss, slope = value(point)
    for _ in range(_NEWTON):
        own, _ = _chances(features, point.reshape(target.shape))
        step = np.linalg.solve(_curvature(features, mass, own) + whole, slope)
        size = 1.0
        while size > 1e-9:
            trial = point - size * step
            found_loss, found_slope = value(trial)
            if found_loss <= loss - 1e-4 * size * float(slope @ step):
                break
            size /= 2
        else:
            break
        point, loss, slope = trial, found_loss, found_slope
        if float(np.abs(slope).max()) < within:
            break
    return point.reshape(target.shape)
