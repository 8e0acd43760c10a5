"""Weights of pairs and columns in the measuring budget that minimise the expected error.

DenseMarg either measures a pair or not, and counts the noise of every cell in full. But most cells
of a large table are nearly empty, and a reconstruction shrinks them, so that such a table has less
error than its size suggests. Here the remaining error of each pair is a smooth, decreasing function
of its share of the budget, and the shares minimise the sum over all pairs. Pairs with a share of 0
are not measured; their budget goes to other pairs or to single columns.

With zCDP costs the sum is convex in the shares. All inputs are public.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.methods.selection.budget.binning import BINS, bin_widths
from dp_core.methods.selection.budget.chance import HALF_NORMAL
from dp_core.methods.selection.budget.dependence import exponential_under_noise

_POWER = 0.3  # assumed deviation of a cell from its expected count E is proportional to E ** _POWER
_PAIRS_WEIGHT = 1.4  # above 1 because a measured pair also improves other pairs of its columns
_COLUMNS_WEIGHT = 0.7  # below 1 because errors of columns partly cancel with the pair's own
_WORTH = 0.03  # smallest relative reduction of the error for which pairs are measured
_STEPS = 300


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Problem:
    """The inputs of the division of the budget.

    Attributes:
        columns: Estimated one-way tables, in records, one per column.
        precision: Precision of each column's cells before measuring, in 1 / records squared.
        pairs: Positions of each pair's columns, shape (pairs, 2).
        dependence: Expected L1 distance of each pair from independence, in records, positive.
        whole: Precision of a cell of a table that gets the whole measuring budget.
        exponent: Exponent of the share in the precision: 1 for zCDP, 2 for pure epsilon.
    """

    columns: Sequence[NDArray[np.float64]]
    precision: NDArray[np.float64]
    pairs: NDArray[np.int64]
    dependence: NDArray[np.float64]
    whole: float
    exponent: float


def balance(problem: Problem) -> NDArray[np.float64]:
    """Return the share of each pair, then of each column; they sum to 1, and many are 0.

    Multiplicative steps equalise the gain of all positive shares. Then the smallest shares are set
    to 0, and the rest is balanced again. With pure epsilon the sum is not convex, because a very
    small share has almost no effect. There the steps start from fewer and fewer pairs, and the best
    result is used. If pairs reduce the error very little, columns get the whole budget.
    """
    error = _Error(problem)
    pairs, columns = len(problem.pairs), len(problem.columns)
    even = np.concatenate([np.full(pairs, 0.8 / max(pairs, 1)), np.full(columns, 0.2 / columns)])
    best = error.descend(even, _STEPS)
    if problem.exponent > 1:
        order = np.argsort(-best[:pairs], kind="stable")
        for part in (0.7, 0.5, 0.35, 0.25, 0.15, 0.07):
            start = even.copy()
            start[order[round(part * pairs) :]] = 0.0
            other = error.descend(start, _STEPS // 2)
            if error.value(other) < error.value(best):
                best = other
    alone = even.copy()
    alone[:pairs] = 0.0
    alone = error.descend(alone, _STEPS // 2)
    if error.value(best) > (1 - _WORTH) * error.value(alone):
        return alone
    return best


def posterior_mean(
    noisy: NDArray[np.float64], stddev: float, *, usual: float
) -> NDArray[np.float64]:
    """Return the posterior mean of each pair's dependence given the noisy ones; all are positive.

    The prior is exponential; without it every pair with much noise would look dependent. The mean
    of the prior is estimated by the mean of the noisy values (which is unbiased, because they are
    not clipped), combined with the typical value according to its precision.

    Args:
        noisy: Noisy dependences, in records; may be negative.
        stddev: Standard deviation of the noise of each, in records.
        usual: Mean dependence of pairs in typical files, in records, positive.
    """
    average = np.array([noisy.mean()])
    mean = float(_posterior(average, stddev / math.sqrt(noisy.size), usual)[0])
    return _posterior(noisy, stddev, mean)


def _posterior(noisy: NDArray[np.float64], stddev: float, mean: float) -> NDArray[np.float64]:
    """Return the posterior means if the true values are exponential with that mean."""
    if stddev <= 0:
        return np.maximum(noisy, 1e-9)
    return np.asarray(exponential_under_noise(noisy, stddev, np.asarray(mean))[1])


class _Error:
    """Expected L1 error summed over all pairs, as a function of the shares."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.sizes = np.array([column.size for column in problem.columns], dtype=np.float64)
        self.counts = np.zeros((len(problem.pairs), BINS))
        self.widths = np.zeros((len(problem.pairs), BINS))
        total = max(float(np.mean([column.sum() for column in problem.columns])), 1.0)
        for index, (one, two) in enumerate(problem.pairs):
            self.counts[index], self.widths[index] = bin_widths(
                [problem.columns[one], problem.columns[two]], total, _POWER
            )
        # In a small table only a part of a cell's noise is beyond the columns' tables: with 2 x 2
        # cells a quarter.
        one, two = problem.pairs[:, 0], problem.pairs[:, 1]
        free = (1 - 1 / self.sizes[one]) * (1 - 1 / self.sizes[two])
        self.inner = 1 / np.maximum(free, 0.25)
        spread = HALF_NORMAL * (self.counts * self.widths).sum(axis=1)
        self.widths *= (_PAIRS_WEIGHT * problem.dependence / spread)[:, None]
        self.column_weight = _COLUMNS_WEIGHT * max(len(problem.columns) - 1, 1)

    def descend(self, share: NDArray[np.float64], steps: int) -> NDArray[np.float64]:
        """Return improved shares; shares of 0 stay 0."""
        share = share / share.sum()
        for count in (steps, steps // 3):
            for _ in range(count):
                share *= np.sqrt(self.gain(share))
                share /= share.sum()
            share[share < 0.2 / share.size] = 0.0
            share /= share.sum()
        return share

    def value(self, share: NDArray[np.float64]) -> float:
        """Return the summed error, in records."""
        precision, known = self._precisions(share)
        left = HALF_NORMAL * self.counts * self.widths
        inner = (precision * self.inner)[:, None]
        total = float((left / np.sqrt(1 + inner * self.widths**2)).sum())
        for cells, at in zip(self.problem.columns, known, strict=True):
            column = float((cells / np.sqrt(1 + at * cells**2)).sum())
            total += self.column_weight * HALF_NORMAL * column
        return total

    def _precisions(
        self, share: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the precision of a cell of each pair and, from all tables, of each column."""
        problem = self.problem
        pairs = len(problem.pairs)
        one, two = problem.pairs[:, 0], problem.pairs[:, 1]
        precision = problem.whole * share[:pairs] ** problem.exponent
        known = problem.precision + problem.whole * share[pairs:] ** problem.exponent
        np.add.at(known, one, precision / self.sizes[two])
        np.add.at(known, two, precision / self.sizes[one])
        return precision, known

    def gain(self, share: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the negative derivative of the summed error in each share, all positive."""
        problem = self.problem
        one, two = problem.pairs[:, 0], problem.pairs[:, 1]
        precision, known = self._precisions(share)
        # d/dx of  w / sqrt(1 + p w^2)  is  -w^3 (1 + p w^2)^(-3/2) / 2  times dp/dx.
        slope = problem.whole * problem.exponent * share ** (problem.exponent - 1)
        fall = 0.5 * HALF_NORMAL * self.counts * self.widths**3
        inner = (precision * self.inner)[:, None]
        by_pair = self.inner * (fall * (1 + inner * self.widths**2) ** -1.5).sum(axis=1)
        by_column = np.array(
            [
                0.5 * HALF_NORMAL * float((cells**3 * (1 + at * cells**2) ** -1.5).sum())
                for cells, at in zip(problem.columns, known, strict=True)
            ]
        )
        by_column *= self.column_weight
        by_pair += by_column[one] / self.sizes[two] + by_column[two] / self.sizes[one]
        slopes: NDArray[np.float64] = np.concatenate([by_pair, by_column]) * slope
        return np.maximum(slopes, 1e-300)
