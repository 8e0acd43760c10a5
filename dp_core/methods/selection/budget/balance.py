"""Weights of pairs and columns in the measuring budget that minimise the expected error.

DenseMarg takes a pair or leaves it, and counts the noise of every cell. But most cells of a large
table are nearly empty, and a reconstruction that knows its noise will not believe them: such a
table costs less error than its size says. Here the error that is left of each pair is written as a
function of its share of the budget, smooth and falling, and the shares are chosen that make the
sum over all pairs least. Pairs whose share vanishes are not measured; what they leave goes where
it helps most, to other pairs or once more to single columns.

With zCDP costs the sum is convex in the shares. All of it is arithmetic on public numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.methods.selection.budget.binning import BINS, binned
from dp_core.methods.selection.budget.chance import HALF_NORMAL
from dp_core.methods.selection.budget.dependence import exponential_under_noise

_POWER = 0.3  # a cell of expected count E is taken to differ from it in proportion to E ** _POWER
_PAIRS_WEIGHT = 1.4  # a pair that is measured also tells about the pairs of its columns
_COLUMNS_WEIGHT = 0.7  # errors of a pair's columns partly cancel against the pair's own
_WORTH = 0.03  # part of the error that measuring pairs must save; less than that is within noise
_STEPS = 300


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Problem:
    """What is to be balanced.

    Attributes:
        columns: Estimated one-way tables, records, one for each column.
        precision: Precision of each column's cells before measuring, 1 / records squared.
        pairs: Positions of each pair's columns, shape (pairs, 2).
        dependence: Expected distance of each pair from independence, records, positive.
        whole: Precision of a cell of a table that gets the whole measuring budget.
        exponent: Precision goes as the share to this power: 1 for zCDP, 2 for pure epsilon.
    """

    columns: Sequence[NDArray[np.float64]]
    precision: NDArray[np.float64]
    pairs: NDArray[np.int64]
    dependence: NDArray[np.float64]
    whole: float
    exponent: float


def balance(problem: Problem) -> NDArray[np.float64]:
    """Return the share of each pair, then of each column; they sum to 1, many are 0.

    Multiplicative steps towards equal gain of all that have a share; then the smallest shares are
    dropped, and the rest is balanced once more. With pure epsilon the sum is not convex, since a
    little budget buys next to nothing: there the steps are taken from starts with fewer and fewer
    pairs, and the best end is kept. Where pairs save next to nothing, columns get everything.
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
    """Return the expected dependence of pairs given noisy ones: positive, and smaller on average.

    The prior is exponential; without it every pair that got much noise would look dependent. Its
    mean is that of the noisy values (which noise does not move, as they are not clipped), as far
    as their number tells it apart from noise, and otherwise what is usual.

    Args:
        noisy: Records; may be negative.
        stddev: Standard deviation of the noise of each, records.
        usual: Mean dependence of pairs in files at large, records, positive.
    """
    average = np.array([noisy.mean()])
    mean = float(_posterior(average, stddev / math.sqrt(noisy.size), usual)[0])
    return _posterior(noisy, stddev, mean)


def _posterior(noisy: NDArray[np.float64], stddev: float, mean: float) -> NDArray[np.float64]:
    """Return what noisy values stand for if the true ones are exponential with that mean."""
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
            self.counts[index], self.widths[index] = binned(
                [problem.columns[one], problem.columns[two]], total, _POWER
            )
        # What a cell adds to its columns' tables is the smaller part of its noise in a small table:
        # of 2 x 2 cells a quarter.
        one, two = problem.pairs[:, 0], problem.pairs[:, 1]
        free = (1 - 1 / self.sizes[one]) * (1 - 1 / self.sizes[two])
        self.inner = 1 / np.maximum(free, 0.25)
        spread = HALF_NORMAL * (self.counts * self.widths).sum(axis=1)
        self.widths *= (_PAIRS_WEIGHT * problem.dependence / spread)[:, None]
        self.column_weight = _COLUMNS_WEIGHT * max(len(problem.columns) - 1, 1)

    def descend(self, share: NDArray[np.float64], steps: int) -> NDArray[np.float64]:
        """Return better shares; those that are 0 stay 0."""
        share = share / share.sum()
        for count in (steps, steps // 3):
            for _ in range(count):
                share *= np.sqrt(self.gain(share))
                share /= share.sum()
            share[share < 0.2 / share.size] = 0.0
            share /= share.sum()
        return share

    def value(self, share: NDArray[np.float64]) -> float:
        """Return the summed error, records."""
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
        """Return how fast the summed error falls with each share, all positive."""
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
