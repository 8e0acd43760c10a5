"""The minimum of a logistic loss with a penalty, within a stated distance on every file.

The sensitivity of a computed minimiser (`ClassMinimiser`) is that of the exact one plus twice its
error. So the solver must reach the stated accuracy on every file. It first works in floating point
with a bound on its rounding errors. If the bound does not suffice, it continues in decimals.
"""

from __future__ import annotations

import decimal
import math
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

_BLOCK = 1024  # cells summed in floating point, before their sums are added exactly
_ROUNDS = 60  # Newton steps in floating point before it continues in decimals
_DIGITS = 60
_UNIT = 2.0**-53  # rounding error of one operation


def minimise(
    features: NDArray[np.float64],
    labels: NDArray[np.int64],
    counts: NDArray[np.int64],
    *,
    classes: int,
    ridge: int,
    gradient: float,
    bits: int,
) -> NDArray[np.int64]:
    """Return the point at which the gradient is small enough, in units of 2^-bits, rounded.

    Args:
        features: Features of each cell, shape (cells, features). Confidential, as the following.
        labels: Class of each cell, shape (cells,).
        counts: Number of records in each cell, shape (cells,).
        classes: Number of classes; the first has coefficients 0.
        ridge: Weight of half the squared norm of the coefficients, positive.
        gradient: Largest L2 norm of the gradient at the point before it is rounded.
        bits: Number of binary digits after the point.

    Returns:
        Shape ((classes - 1) features,), by classes from the second.

    Privacy:
        There is no file on which it fails, or stops with a larger gradient. Rounding errors in
        floating point are bounded by `_error`, and a point is taken only if the computed gradient
        and that bound together are small enough. Otherwise the same function is minimised in
        decimals of 60 digits, by steps along directions that are never near to orthogonal to the
        gradient, backtracked by Armijo's rule: that converges on every strongly convex function
        with a Lipschitz gradient (Bertsekas 1999, Proposition 1.2.1).
    """
    loss = _Loss(features, labels, counts, classes, ridge)
    with np.errstate(all="ignore"):
        point, found = _in_floats(loss, gradient)
    if found:
        return np.rint(np.ldexp(point.reshape(-1), bits)).astype(np.int64)
    return _in_decimals(loss, point, gradient, bits)


def _in_floats(loss: _Loss, gradient: float) -> tuple[NDArray[np.float64], bool]:
    """Return a point and whether its gradient is surely small enough."""
    point = np.zeros(loss.shape)
    value = loss.value(point)
    for _ in range(_ROUNDS):
        slope, chances = loss.slope(point)
        length = float(np.linalg.norm(slope))
        # privacy: the stopping rule; a comparison with anything that is no number is false.
        if length + loss.error(point) <= gradient:
            return point, True
        step = _solve(loss.curvature(chances), slope)
        size = 1.0
        while size > _UNIT:
            trial = point - size * step
            found = loss.value(trial)
            if found <= value - 1e-4 * size * float(np.sum(slope * step)):
                break
            size /= 2
        else:
            trial = point - step  # no difference is seen any more; the last step may still help
            found = loss.value(trial)
        if not np.isfinite(trial).all():
            break
        point, value = trial, found
    return point, False


class _Loss:
    """J(b) = sum of counts times losses + (ridge/2) |b|^2."""

    def __init__(
        self,
        features: NDArray[np.float64],
        labels: NDArray[np.int64],
        counts: NDArray[np.int64],
        classes: int,
        ridge: int,
    ) -> None:
        self.features, self.labels, self.counts = features, labels, counts
        self.classes, self.ridge = classes, ridge
        self.shape = (classes - 1, features.shape[1])
        self.is_label = labels[:, None] == np.arange(1, classes)
        self.longest = math.sqrt(float((features**2).sum(axis=1).max(initial=0.0)))
        self.rows = int(counts.sum())

    def logits(self, point: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.column_stack([np.zeros(len(self.features)), self.features @ point.T])

    def value(self, point: NDArray[np.float64]) -> float:
        logits = self.logits(point)
        top = logits.max(axis=1, keepdims=True)
        own = np.take_along_axis(logits - top, self.labels[:, None], axis=1)[:, 0]
        losses = np.log(np.exp(logits - top).sum(axis=1)) - own
        return float(self.counts @ losses + self.ridge / 2 * np.sum(point**2))

    def slope(self, point: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the gradient, shape `shape`, and the probabilities of the classes."""
        logits = self.logits(point)
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        chances = (weights / weights.sum(axis=1, keepdims=True))[:, 1:]
        residual = (chances - self.is_label) * self.counts[:, None]
        blocks = [
            residual[start : start + _BLOCK].T @ self.features[start : start + _BLOCK]
            for start in range(0, len(self.features), _BLOCK)
        ]
        stacked = np.array(blocks).reshape(-1, residual.shape[1] * self.shape[1])
        sums = [math.fsum(column) for column in stacked.T] if blocks else [0.0] * stacked.shape[1]
        slope = np.array(sums).reshape(self.shape) + self.ridge * point
        return slope, chances

    def curvature(self, chances: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the Hessian at probabilities of the classes from the second on."""
        classes, width = self.shape
        found = np.zeros((classes, width, classes, width))
        weighted = self.counts[:, None] * chances
        for one in range(classes):
            for other in range(one, classes):
                weight = weighted[:, one] * ((one == other) - chances[:, other])
                part = (self.features * weight[:, None]).T @ self.features
                found[one, :, other, :] = part
                found[other, :, one, :] = part.T
        flat = found.reshape(classes * width, classes * width)
        return np.asarray(flat + self.ridge * np.eye(len(flat)))

    def error(self, point: NDArray[np.float64]) -> float:
        """Return a bound on the rounding error of the computed gradient, by the L2 norm.

        With u = 2^-53, R the longest features and B the norm of the coefficients: a logit of D
        products is off by (D + 1) u R B at most, so a probability by a part of 4 (D + 1) u R B and
        of (K + 16) u for the exponentials, their sum of K, and the division; residuals have L1
        norm 2 at most. A sum over a block is off by the part 1024 u of what is added. Doubled.
        """
        classes, width = self.shape
        size = float(np.linalg.norm(point))
        parts = 4 * (width + 1) * (1 + self.longest * size) + classes + 16 + _BLOCK + width
        return float(4 * _UNIT * parts * (self.rows * self.longest + self.ridge * size))


def _solve(curvature: NDArray[np.float64], slope: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the Newton step; where it is not to be had, a step along the gradient."""
    try:
        step = np.linalg.solve(curvature, slope.reshape(-1)).reshape(slope.shape)
        if np.isfinite(step).all() and np.sum(step * slope) > 0:
            return np.asarray(step)
    except np.linalg.LinAlgError:
        pass
    return np.asarray(slope / np.trace(curvature))


def _in_decimals(
    loss: _Loss, start: NDArray[np.float64], gradient: float, bits: int
) -> NDArray[np.int64]:
    """Return the same by decimals of many digits, however many steps it takes."""
    context = decimal.Context(prec=_DIGITS, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX, traps=[])
    with decimal.localcontext(context):
        features = _decimals(loss.features)
        counts = [Decimal(int(count)) for count in loss.counts]
        point = _decimals(start)
        value, slope, chances = _exactly(loss, features, counts, point)
        # The trace of the Hessian bounds its largest eigenvalue.
        steepest = Decimal(loss.rows) * Decimal(loss.longest) ** 2 * 2 + loss.ridge
        while True:
            length = sum(entry**2 for entry in slope.flat).sqrt()
            # privacy: the stopping rule, with room for what 60 digits leave out.
            if length <= Decimal(gradient) * (1 - Decimal("1e-9")):
                scaled = [(entry * 2**bits).to_integral_value() for entry in point.flat]
                return np.array([int(entry) for entry in scaled], dtype=np.int64)
            floats = np.array(slope, dtype=np.float64)
            step = _decimals(_solve(loss.curvature(chances), floats))
            along = sum((step * slope).flat)
            norm = sum(entry**2 for entry in step.flat).sqrt()
            if along < Decimal("1e-6") * norm * length or norm * steepest < length / 4:
                step, along = slope / steepest, length**2 / steepest
            size = Decimal(1)
            while True:
                trial = point - size * step
                found, new_slope, new_chances = _exactly(loss, features, counts, trial)
                if found <= value - Decimal("1e-4") * size * along:
                    break
                size /= 2
            point, value, slope, chances = trial, found, new_slope, new_chances


def _exactly(
    loss: _Loss, features: NDArray[Any], counts: list[Decimal], point: NDArray[Any]
) -> tuple[Decimal, NDArray[Any], NDArray[np.float64]]:
    """Return J, its gradient, and the probabilities of the classes from the second on."""
    value = Decimal(loss.ridge) / 2 * sum(entry**2 for entry in point.flat)
    slope = point * Decimal(loss.ridge)
    chances = np.zeros((len(counts), loss.classes - 1))
    for cell, (row, count) in enumerate(zip(features, counts, strict=True)):
        logits = [Decimal(0), *(sum(row * each) for each in point)]
        top = max(logits)
        weights = [(logit - top).exp() for logit in logits]
        total, label = sum(weights), int(loss.labels[cell])
        value += count * (Decimal(total).ln() + top - logits[label])
        for number in range(1, loss.classes):
            chance = weights[number] / total
            chances[cell, number - 1] = float(chance)
            slope[number - 1] = slope[number - 1] + row * (count * (chance - (label == number)))
    return value, slope, chances


def _decimals(values: NDArray[np.float64]) -> NDArray[Any]:
    """Return numbers as the decimals they are exactly."""
    flat = [Decimal(float(value)) for value in values.flat]
    found = np.empty(len(flat), dtype=object)
    found[:] = flat
    return found.reshape(values.shape)
