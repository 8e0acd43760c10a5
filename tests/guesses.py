"""What correct guesses of canaries' coins show: how many a claim allows, how many a fault causes.

No data and no draws. `tests/canaries.py` has the audit that makes the guesses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from dp_core.schema.privacy import Noise
from dp_core.wall.accounting.events import Event, GaussianEvent, LaplaceEvent, StabilityEvent

ROUNDING = 1e-7
"""Scores that differ by no more than this are equal."""


def any_mechanism(canaries: int, guesses: int, correct: int, epsilon: float, delta: float) -> float:
    """Return a bound on the probability of so many correct guesses, by (epsilon, delta) alone.

    Steinke, Nasr & Jagielski (2023), Theorem 2.1.

    Args:
        canaries: Number of coins.
        guesses: Largest number of guesses.
        correct: Number of correct guesses.
        epsilon: Epsilon of the guarantee.
        delta: Delta of the guarantee.
    """
    right = 1 / (1 + np.exp(-epsilon))
    more = stats.binom.sf(correct - 1, guesses, right)
    if delta == 0 or correct == 0:
        return float(min(more, 1.0))
    # P(correct - i <= Binomial < correct) / i, the largest over i
    below = np.cumsum(stats.binom.pmf(np.arange(correct - 1, -1, -1), guesses, right))
    slope = (below / np.arange(1, correct + 1)).max()
    return float(min(more + 2 * canaries * delta * slope, 1.0))


@lru_cache(maxsize=256)
def best_accuracy(events: tuple[Event, ...]) -> float:
    """Return the largest probability of a correct guess that charges allow: (1 + TV) / 2.

    TV is the total variation distance of the noise, all tables together, around counts that differ
    by 1: delta at an epsilon of 0.
    """
    claimed = law(events)
    return float((1 + claimed.masses @ np.maximum(-np.expm1(-claimed.scores), 0)) / 2)


def law(
    events: Sequence[Event], *, factor: float = 1.0, moved: int = 1, cells: int | None = None
) -> Law:
    """Return the law of a canary's score, by the charges of the tables with its cells.

    Args:
        events: Noise of the tables.
        factor: What the scale that is drawn with is multiplied by; 1 without a fault.
        moved: How far a record moves the count of its cell; 1 without a fault.
        cells: Number of cells that move; None for the event's sensitivity, in which no count moves
            by more than 1.
    """
    start = Law(np.zeros(1), np.ones(1))
    present = absent = start
    for event in events:
        kind, number = kind_of(event)
        scale = float(event.scale)
        z, masses = noise_masses(kind, factor * scale)
        for _ in range(number if cells is None else cells):
            present = present.plus(Law.of(log_ratio(kind, scale, z + float(moved)), masses))
            absent = absent.plus(Law.of(-log_ratio(kind, scale, z.astype(float)), masses))
    return present.or_else(absent)


@dataclass(frozen=True)
class Law:
    """Distribution of a canary's score times the sign of its coin: positive where a guess is right.

    Attributes:
        scores: Ascending, shape (n,).
        masses: Their probabilities, shape (n,).
    """

    scores: NDArray[np.float64]
    masses: NDArray[np.float64]

    @staticmethod
    def of(scores: NDArray[np.float64], masses: NDArray[np.float64]) -> Law:
        """Return the law of scores, of which equal ones are joined."""
        order = np.argsort(scores, axis=None)
        ascending = scores.ravel()[order]
        starts = np.flatnonzero(np.diff(ascending, prepend=-np.inf) > ROUNDING)
        return Law(ascending[starts], np.add.reduceat(masses.ravel()[order], starts))

    def plus(self, other: Law) -> Law:
        """Return the law of the sum of two independent scores."""
        return Law.of(
            np.add.outer(self.scores, other.scores), np.multiply.outer(self.masses, other.masses)
        )

    def or_else(self, other: Law) -> Law:
        """Return the law of either, by the toss of a coin."""
        scores = np.concatenate([self.scores, other.scores])
        return Law.of(scores, np.concatenate([self.masses, other.masses]) / 2)

    @property
    def accuracy(self) -> float:
        """Probability that a guess by the sign is right; a score of 0 is a toss."""
        positive = self.masses[self.scores > ROUNDING].sum()
        return float(positive + self.masses[np.abs(self.scores) <= ROUNDING].sum() / 2)

    @property
    def largest(self) -> tuple[float, float]:
        """Probability of a score of the largest size, and that a guess by it is right."""
        right, wrong = float(self.masses[-1]), float(self.masses[0])
        return min(right + wrong, 1.0), right / (right + wrong)


def fit(scores: NDArray[np.float64], expected: Law) -> float:
    """Return the p-value of the chi-square test of scores against a law.

    Args:
        scores: Independent scores times the signs of the coins, shape (canaries,).
        expected: Their law. Neighbouring scores are joined until 100 or more are expected of each
            group, and there are at most 50 groups.
    """
    edges = _edges(expected, len(scores))
    seen = np.bincount(_group(scores, edges), minlength=len(edges))
    return float(stats.chisquare(seen, _in_groups(expected, edges) * len(scores)).pvalue)


def fit_power(expected: Law, faulty: Law, canaries: int, level: float) -> float:
    """Return the probability that `fit` is at most `level` for scores with another law.

    By the noncentral chi-square distribution.
    """
    edges = _edges(expected, canaries)
    wanted, found = (_in_groups(each, edges) for each in (expected, faulty))
    apart = canaries * float(((found - wanted) ** 2 / wanted).sum())
    freedom = len(edges) - 1
    return float(stats.ncx2.sf(stats.chi2.isf(level, freedom), freedom, apart))


def _edges(expected: Law, canaries: int) -> NDArray[np.float64]:
    """Return the lowest score of each group, ascending."""
    wanted = expected.masses * canaries
    left = np.cumsum(wanted[::-1])[::-1]
    starts, held = [0], 0.0
    for position, number in enumerate(wanted):
        if held >= max(100, canaries / 50) and left[position] >= 100:
            starts.append(position)
            held = 0.0
        held += number
    return expected.scores[starts]


def _group(scores: NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.searchsorted(edges[1:], scores + 10 * ROUNDING, side="right")


def _in_groups(scores: Law, edges: NDArray[np.float64]) -> NDArray[np.float64]:
    found = np.bincount(_group(scores.scores, edges), scores.masses, len(edges))
    return found / found.sum()


def noise_masses(kind: Noise, scale: float) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return values and probabilities of discrete noise, but for a tail below 1e-30."""
    far = int(np.ceil(scale * (75 if kind == "laplace" else 12))) + 2
    z = np.arange(-far, far + 1)
    weights = np.exp(-np.abs(z) / scale if kind == "laplace" else -(z**2) / (2 * scale**2))
    return z, weights / weights.sum()


def log_ratio(noise: Noise, scale: float, counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the logarithm of the likelihood ratio of one record against none, as published."""
    if noise == "laplace":
        return np.sign(counts - 0.5) / scale
    return (2 * counts - 1) / (2 * scale**2)


def kind_of(event: Event) -> tuple[Noise, int]:
    """Return the kind of noise of a table, and the number of its cells that move by 1."""
    match event:
        case LaplaceEvent() | StabilityEvent():
            return "laplace", event.l1_sensitivity
        case GaussianEvent():
            return "gaussian", event.l2_sensitivity_squared
        case _:
            raise TypeError(f"{type(event).__name__} is no table.")
