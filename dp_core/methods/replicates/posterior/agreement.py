"""Tables that are moved to given margins by least squares, cells with much uncertainty the most."""

from __future__ import annotations

import numpy as np

from dp_core.methods.replicates.posterior.truncation import Floats

_LEAST_VARIANCE = 1e-6  # records squared
_ROUNDS = 8  # of least squares and of setting negative cells to zero
_RAKING_ROUNDS = 20  # of the proportional steps that remove what is left
_CLOSE = 1e-3  # records


def with_total(values: Floats, variances: Floats, total: float) -> Floats:
    """Return the nonnegative numbers nearest to `values`, in squares over variances, with a total.

    Args:
        values: Nonnegative counts, shape (cells,), in records.
        variances: Their variances, same shape; cells of variance 0 do not change.
        total: Sum of the result, in records, not negative.
    """
    found = values.copy()
    for _ in range(values.size + 1):
        gap = total - float(found.sum())
        weights = variances * ((found > 0) | (gap > 0))
        whole = float(weights.sum())
        if abs(gap) < _CLOSE or whole <= 0:
            break
        found = np.maximum(found + gap / whole * weights, 0.0)
    left = float(found.sum())
    return found * (total / left) if left > 0 else np.full(values.shape, total / values.size)


def with_margins(values: Floats, variances: Floats, rows: Floats, columns: Floats) -> Floats:
    """Return a nonnegative table near `values` that has the given margins.

    The change is the smallest in squares over variances. So a cell that is known well keeps its
    value, and mass that truncation at zero added is taken from the cells that are known least.
    Proportional changes would instead take it from the largest cells.

    Args:
        values: Nonnegative table, shape (p, q), in records.
        variances: Variances of the cells, same shape; cells of variance 0 and value 0 stay 0.
        rows: Sums of the rows, shape (p,).
        columns: Sums of the columns, shape (q,); they add up to those of the rows.
    """
    fixed = (variances <= 0) & (values <= 0)
    weights = np.where(fixed, 0.0, np.maximum(variances, _LEAST_VARIANCE))
    found = values
    for _ in range(_ROUNDS):
        by_row, by_column = rows - found.sum(axis=1), columns - found.sum(axis=0)
        if max(float(np.abs(by_row).max()), float(np.abs(by_column).max())) < _CLOSE:
            break
        found = np.maximum(found + weights * _multipliers(weights, by_row, by_column), 0.0)
    return _raked(found, rows, columns)


def _multipliers(weights: Floats, by_row: Floats, by_column: Floats) -> Floats:
    """Return u + v such that `weights (u + v)` has the given margins, shape of the weights."""
    across, down = weights.sum(axis=1), np.maximum(weights.sum(axis=0), 1e-12)
    normal = np.diag(across) - (weights / down) @ weights.T
    # The margins share their total, so one equation is redundant.
    normal[np.diag_indices_from(normal)] += 1e-9 * float(across.max()) + 1e-12
    u = np.linalg.solve(normal, by_row - weights @ (by_column / down))
    v = (by_column - weights.T @ u) / down
    return np.asarray(u[:, None] + v[None, :])


def _raked(values: Floats, rows: Floats, columns: Floats) -> Floats:
    """Return the table scaled to its margins; rows and columns without mass stay empty."""
    found = values
    for _ in range(_RAKING_ROUNDS):
        across = found.sum(axis=1)
        found = found * np.divide(rows, across, out=np.zeros_like(rows), where=across > 0)[:, None]
        down = found.sum(axis=0)
        found = found * np.divide(columns, down, out=np.zeros_like(columns), where=down > 0)
        if float(np.abs(found.sum(axis=1) - rows).max()) < _CLOSE:
            break
    return found
