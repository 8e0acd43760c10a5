"""Adjusts tables to given margins and sums by weighted least squares.

The weights are inverse variances, so uncertain cells change most. Truncation at zero adds records
to the tails of a pair, which changes the covariance of two numbers. So the sum of their products is
restored to its value before truncation. Columns keep the sums that were measured apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from dp_core.methods.reconstruction.estimates.raking import rake
from dp_core.methods.replicates.posterior.truncation import Floats

KeptSum: TypeAlias = tuple[Floats, float]
"""Coefficients of the cells, and the sum that the table keeps, in records times their unit."""

_MOST_WORK = 10**8  # operations of one Newton step; larger tables keep only their margins
_SLACK = 1e-6  # relative slack of the sums, because some may contradict each other
_LEAST_VARIANCE = 1e-6  # records squared
_ROUNDS = 8  # of least squares and of setting negative cells to zero
_RAKING_ROUNDS = 20  # of the proportional steps that remove the remaining difference
_CLOSE = 1e-3  # accepted difference from a margin, records
_NEWTON_ROUNDS = 60  # four to fifteen are usual
_SUFFICIENT = 1e-4  # part of the predicted descent that a step must achieve (Armijo)
_SMALLEST = 1e-8  # step length below which rounding errors dominate
_CLEAR = 8.0
"""Smallest number of records in the levels at an end of a column whose values count as they are, in
standard deviations of its noise."""


def clear_scores(scores: Floats, counts: Floats, variances: Floats) -> Floats | None:
    """Return the values of levels, cut to the range of levels whose records stand out from noise.

    The sum of two numbers' products is kept because truncation changes it. At the end of a long
    tail, a few records of noise change it more than truncation does. To keep it, thousands of
    records would have to move elsewhere. So the levels at each end, up to the level with which they
    have clearly more records than noise, all get the value of that level.

    Args:
        scores: Value of each level, shape (levels,).
        counts: Estimated counts, same shape, in records.
        variances: Variances of their errors, records squared, same shape.

    Returns:
        The values; None if they do not differ, so that there is no sum to keep.
    """
    order = np.argsort(scores, kind="stable")
    found = scores
    for outwards in (order[::-1], order):
        inside = np.cumsum(counts[outwards]) > _CLEAR * np.sqrt(np.cumsum(variances[outwards]))
        if not inside.any():
            return None
        end = scores[outwards[np.argmax(inside)]]
        found = np.minimum(found, end) if outwards is not order else np.maximum(found, end)
    return found if np.ptp(found) > 0 else None


def with_total(
    values: Floats, variances: Floats, total: float, kept: Sequence[KeptSum] = ()
) -> Floats:
    """Return the nonnegative counts with a given total that are nearest to `values`.

    Distance is the sum of squared changes over variances.

    Args:
        values: Nonnegative counts, shape (cells,), in records.
        variances: Their variances, same shape; cells of variance 0 do not change.
        total: Sum of the result, in records, not negative.
        kept: Further sums to keep, each with coefficients of shape (cells,); none by default.
    """
    if not values.any() and not variances.any():
        return np.full(values.shape, total / values.size)
    found = _nearest(values, variances, [(np.ones(values.size), total), *kept])
    left = float(found.sum())
    return found * (total / left) if left > 0 else np.full(values.shape, total / values.size)


def with_margins(
    values: Floats,
    variances: Floats,
    rows: Floats,
    columns: Floats,
    kept: KeptSum | None = None,
) -> Floats:
    """Return a nonnegative table near `values` that has the given margins.

    The sum of squared changes over variances is least. So a cell that is known well keeps its
    value, and records that truncation at zero added are taken from the cells that are known least.
    Proportional changes would take them from the largest cells instead.

    Args:
        values: Nonnegative table, shape (p, q), in records.
        variances: Variances of the cells, same shape; cells of variance 0 and value 0 stay 0.
        rows: Sums of the rows, shape (p,).
        columns: Sums of the columns, shape (q,); they add up to those of the rows.
        kept: A further sum to keep, with coefficients of shape (p, q); None by default. A table
            with very many cells keeps its margins only.
    """
    p, q = values.shape
    if kept is not None and values.size * (p + q + 1) ** 2 <= _MOST_WORK:
        wanted = [
            *((np.repeat(unit, q), float(one)) for unit, one in zip(np.eye(p), rows, strict=True)),
            *((np.tile(unit, p), float(one)) for unit, one in zip(np.eye(q), columns, strict=True)),
            (kept[0].ravel(), kept[1]),
        ]
        values = _nearest(values.ravel(), variances.ravel(), wanted).reshape(p, q)
    fixed = (variances <= 0) & (values <= 0)
    weights = np.where(fixed, 0.0, np.maximum(variances, _LEAST_VARIANCE))
    found = values
    for _ in range(_ROUNDS):
        by_row, by_column = rows - found.sum(axis=1), columns - found.sum(axis=0)
        if max(float(np.abs(by_row).max()), float(np.abs(by_column).max())) < _CLOSE:
            break
        found = np.maximum(found + weights * _multipliers(weights, by_row, by_column), 0.0)
    margins = [(("row",), rows), (("column",), columns)]
    return rake(found, ("row", "column"), margins, rounds=_RAKING_ROUNDS, tolerance=_CLOSE)


def _nearest(values: Floats, variances: Floats, wanted: Sequence[KeptSum]) -> Floats:
    """Return the nonnegative counts with given sums that are nearest to `values`."""
    free = variances > 0
    spread = np.maximum(variances[free], _LEAST_VARIANCE)
    equations = np.array([coefficients[free] for coefficients, _ in wanted])
    sums = np.array(
        [target - coefficients[~free] @ values[~free] for coefficients, target in wanted]
    )

    def primal(shift: Floats) -> tuple[Floats, float, Floats]:
        moved = np.maximum(values[free] + spread * shift, 0.0)
        return moved, 0.5 * float((moved**2 / spread).sum()), spread * (moved > 0)

    slack = _SLACK * (equations**2 @ spread)
    scale = max(1.0, float(np.abs(sums).max(initial=0.0)))
    found = values.copy()
    found[free] = _with_sums(equations, sums, slack, primal, tolerance=1e-7 * scale)
    return found


def _with_sums(
    equations: Floats,
    sums: Floats,
    slack: Floats,
    primal: Callable[[Floats], tuple[Floats, float, Floats]],
    *,
    tolerance: float,
) -> Floats:
    """Return the nearest numbers to start values that (nearly) have given sums.

    Newton's method on the dual problem, which is convex, has one unknown per sum and a known second
    derivative. Without slack, sums that contradict each other or cannot be met would make the
    unknowns diverge.

    Args:
        equations: Coefficients of the sums, shape (equations, numbers); rows of zeros are ignored.
        sums: Required values, shape (equations,).
        slack: Slack of each sum, positive, in squared units of the sums, shape (equations,). A
            larger slack makes missing the sum cheaper.
        primal: Function of `equations' u`, shape (numbers,), that returns the numbers for this
            dual point, their term of the dual, and the derivative of each number.
        tolerance: Largest error of a sum, with equations scaled to length 1.

    Returns:
        The numbers, shape (numbers,).
    """
    length = np.sqrt(np.einsum("ij,ij->i", equations, equations))
    kept = length > 0
    a, b = equations[kept] / length[kept, None], sums[kept] / length[kept]
    ease = slack[kept] / length[kept] ** 2
    u = np.zeros(b.size)

    def value(u: Floats) -> tuple[float, Floats, Floats]:
        found, height, growth = primal(u @ a)
        return height - float(b @ u) + 0.5 * float(ease @ u**2), found, growth

    height, found, growth = value(u)
    for _ in range(_NEWTON_ROUNDS):
        slope = a @ found - b + ease * u
        if float(np.abs(slope).max(initial=0.0)) < tolerance:
            break
        curve = (a * growth) @ a.T
        # Twice the slack makes steps shorter if equations are redundant.
        curve[np.diag_indices_from(curve)] += 2 * ease
        step = -np.linalg.solve(curve, slope)
        size, gain = 1.0, float(slope @ step)
        while True:
            lower, *rest = value(u + size * step)
            if lower <= height + _SUFFICIENT * size * gain or size < _SMALLEST:
                break
            size /= 2
        u, height, (found, growth) = u + size * step, lower, rest
    return found


def _multipliers(weights: Floats, by_row: Floats, by_column: Floats) -> Floats:
    """Return u + v such that `weights (u + v)` has the given margins, shape of the weights."""
    if weights.shape[0] > weights.shape[1]:  # the equations of the shorter side are solved
        return _multipliers(weights.T, by_column, by_row).T
    across, down = weights.sum(axis=1), np.maximum(weights.sum(axis=0), 1e-12)
    normal = np.diag(across) - (weights / down) @ weights.T
    # The margins share their total, so one equation is redundant.
    normal[np.diag_indices_from(normal)] += 1e-9 * float(across.max()) + 1e-12
    u = np.linalg.solve(normal, by_row - weights @ (by_column / down))
    v = (by_column - weights.T @ u) / down
    return np.asarray(u[:, None] + v[None, :])
