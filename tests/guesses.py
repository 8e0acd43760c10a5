"""What correct guesses of canaries' coins show: how many a claim allows, how many a fault causes.

No data and no draws. `tests/canaries.py` has the audit that makes the guesses.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import fft, stats

from dp_core.kernel.extensions.thresholds import StabilityEvent
from dp_core.kernel.mechanisms.additive_noise import GaussianEvent, LaplaceEvent
from dp_core.kernel.mechanisms.event import Event
from dp_core.kernel.privacy import Noise

ROUNDING = 1e-7
"""Scores that differ by no more than this are equal."""
WIDE = 3.0
"""Scale from which discrete Gaussian noise is treated as continuous."""
STEP, STEPS = 0.5, 18
"""Difference of two scores of noise, in units of the likelihood's exponent; largest score."""
_JOINED = 201  # move that stands for several: odd, so that no score is 0


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


@dataclass(frozen=True)
class Moves:
    """How one canary changes the entries of one published vector, and the noise of the vector.

    Attributes:
        noise: Kind of noise.
        scale: Parameter of the noise, in units of the entries.
        sizes: Size of the change of each entry that changes, in the same units.
    """

    noise: Noise
    scale: float
    sizes: tuple[float, ...]

    def at_most(self, event: Event) -> Moves:
        """Return these moves, shortened to the sensitivity that an event was charged for."""
        part = min(1.0, 1 / self.reach(event))
        return replace(self, sizes=tuple(part * size for size in self.sizes))

    def reach(self, event: Event) -> float:
        """Return the length of the change over the sensitivity that an event was charged for."""
        kind, sensitivity = kind_of(event)
        if kind == "laplace":
            return sum(self.sizes) / sensitivity
        return float((sum(size**2 for size in self.sizes) / sensitivity) ** 0.5)


def largest_moves(event: Event) -> Moves:
    """Return the moves of a canary that changes as many entries by 1 as were charged for."""
    kind, sensitivity = kind_of(event)
    return Moves(kind, float(event.scale), (1.0,) * sensitivity)


@lru_cache(maxsize=256)
def best_accuracy(moves: tuple[Moves, ...]) -> float:
    """Return the largest probability of a correct guess: (1 + TV) / 2.

    TV is the total variation distance of the noise, all vectors together, with the canary and
    without it: delta at an epsilon of 0.
    """
    claimed = law(moves)
    # A sum over whole numbers in place of an integral: the trapezoidal rule is off by at most
    # h^2/6 times the largest slope of the density, .242 over the scale squared, of the TV.
    wide = (each.scale for each in moves if each.noise == "gaussian" and each.scale >= WIDE)
    off = sum(0.0202 / scale**2 for scale in wide)
    return float(off + (1 + claimed.masses @ np.maximum(-np.expm1(-claimed.scores), 0)) / 2)


def law(moves: Sequence[Moves], *, factor: float = 1.0, moved: float = 1.0) -> Law:
    """Return the law of a canary's score.

    Args:
        moves: What the auditor computed that the canary changes, and the noise that was charged.
        factor: Factor of the scale with which noise is drawn; 1 without a fault.
        moved: Factor of the moves of the counted file; 1 without a fault.
    """
    start = Law(np.zeros(1), np.ones(1))
    present = absent = start
    for kind, scale, size in _single(moves):
        z, masses = noise_masses(kind, factor * scale)
        with_it = log_ratio(kind, scale, z + moved * size, size)
        without = -log_ratio(kind, scale, z.astype(float), size)
        present = present.plus(Law.of(with_it, masses))
        absent = absent.plus(Law.of(without, masses))
    return present.or_else(absent)


def _single(moves: Sequence[Moves]) -> Iterator[tuple[Noise, float, float]]:
    """Yield noise, scale and size of single moves; those in wide Gaussian noise are joined.

    Moves in continuous Gaussian noise tell as much as one move by the root of their sum of squares,
    in noise of one scale.
    """
    joined = 0.0
    for each in moves:
        if each.noise == "gaussian" and each.scale >= WIDE:
            joined += sum((size / each.scale) ** 2 for size in each.sizes)
        else:
            yield from ((each.noise, each.scale, size) for size in each.sizes)
    if joined:
        yield "gaussian", _JOINED / joined**0.5, _JOINED


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


@dataclass(frozen=True)
class Vector:
    """The number of entries of a published vector, and their noise as charged.

    The size of each entry's noise has a score: the step, 0 to `STEPS`, of the logarithm of the
    likelihood ratio of noise with a smaller scale against the noise as charged. So the sum of the
    scores is nearly the best test of the scale, and its distribution is known.
    """

    noise: Noise
    scale: float
    entries: int

    @cached_property
    def _ends(self) -> NDArray[np.float64]:
        """Largest size of noise of each score but the last, ascending."""
        # The logarithm is linear in the size of Laplace noise, and in the square of Gaussian noise.
        ends = np.arange(1, STEPS + 1) * STEP
        return np.asarray(np.floor(self.scale * (ends if self.noise == "laplace" else ends**0.5)))

    def score(self, noises: NDArray[np.float64]) -> int:
        """Return the sum of the scores of entries with this noise."""
        return int(np.searchsorted(self._ends, np.abs(noises)).sum())

    def chances(self, factor: float = 1.0) -> NDArray[np.float64]:
        """Return the probability of each score of an entry, shape (STEPS + 1,).

        Args:
            factor: Factor of the scale with which noise is drawn; 1 without a fault.
        """
        scale, ends = factor * self.scale, self._ends
        if self.noise == "laplace":
            alpha = np.exp(-1 / scale)
            within = 1 - 2 * alpha ** (ends + 1) / (1 + alpha)
        elif scale > 1000:
            # By the Euler-Maclaurin formula, the error is below 1e-9.
            within = 1 - 2 * stats.norm.sf((ends + 0.5) / scale)
        else:
            z, masses = noise_masses("gaussian", scale)
            sums = np.concatenate([[0.0], np.cumsum(masses)])
            within = sums[np.searchsorted(z, ends, "right")] - sums[np.searchsorted(z, -ends)]
        return np.diff(within, prepend=0.0, append=1.0)


def unlikely_noise(vectors: tuple[Vector, ...], score: int) -> float:
    """Return the p-value of the sum of the scores of all vectors; two-sided.

    Args:
        vectors: Noise as charged, independent in all entries.
        score: Sum of the scores of all entries: small for a scale that is too small.
    """
    masses = _sum_of_scores(vectors)
    tail = min(masses[: score + 1].sum(), masses[score:].sum())
    return float(min(1.0, max(0.0, 2 * tail)))


def unlikely_noise_power(vectors: tuple[Vector, ...], level: float, *, factor: float) -> float:
    """Return the probability that `unlikely_noise` is at most `level` for another scale."""
    expected, drawn = _sum_of_scores(vectors), _sum_of_scores(vectors, factor)
    below, above = np.cumsum(expected), np.cumsum(expected[::-1])[::-1]
    return min(1.0, float(drawn[2 * np.minimum(below, above) <= level].sum()))


@lru_cache(maxsize=16)
def _sum_of_scores(vectors: tuple[Vector, ...], factor: float = 1.0) -> NDArray[np.float64]:
    """Return the probability of each sum of the scores of all entries."""
    together: dict[tuple[float, ...], int] = defaultdict(int)
    for each in vectors:
        together[tuple(each.chances(factor))] += each.entries
    return masses_of_sum(together)


def masses_of_sum(numbers: Mapping[tuple[float, ...], int]) -> NDArray[np.float64]:
    """Return the probability of each sum of independent scores; a tail is off by 2e-11 at most.

    Args:
        numbers: How many scores have which probabilities, shape (STEPS + 1,) each.
    """
    length = STEPS * sum(numbers.values()) + 1
    padded, transformed = fft.next_fast_len(length, real=True), np.ones(1)
    for chances, number in numbers.items():
        transformed = transformed * fft.rfft(chances, padded) ** number
    return np.asarray(fft.irfft(transformed, padded)[:length])


def noise_masses(kind: Noise, scale: float) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return values and probabilities of discrete noise, but for a tail below 1e-30."""
    far = int(np.ceil(scale * (75 if kind == "laplace" else 12))) + 2
    z = np.arange(-far, far + 1)
    weights = np.exp(-np.abs(z) / scale if kind == "laplace" else -(z**2) / (2 * scale**2))
    return z, weights / weights.sum()


def log_ratio(
    noise: Noise, scale: float, values: NDArray[np.float64], size: float | NDArray[np.float64] = 1.0
) -> NDArray[np.float64]:
    """Return the logarithm of the likelihood ratio of values that moved against unmoved ones.

    Args:
        noise: Kind of noise, as published.
        scale: Its parameter, as published.
        values: Noisy values less the exact ones without the canary.
        size: How far the canary moves them.
    """
    if noise == "laplace":
        return (np.abs(values) - np.abs(values - size)) / scale
    return (2 * values * size - size**2) / (2 * scale**2)


def kind_of(event: Event) -> tuple[Noise, int]:
    """Return the kind of noise of a table, and the number of its cells that move by 1."""
    match event:
        case LaplaceEvent() | StabilityEvent():
            return "laplace", event.l1_sensitivity
        case GaussianEvent():
            return "gaussian", event.l2_sensitivity_squared
        case _:
            raise TypeError(f"{type(event).__name__} is no table.")
