"""What correct guesses of canaries' coins show: how many a claim allows, how many a fault causes.

No data and no draws. `tests/canaries.py` has the audit that makes the guesses.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.signal import fftconvolve

from dp_core.kernel.extensions.thresholds import StabilityEvent
from dp_core.kernel.mechanisms.additive_noise import GaussianEvent, LaplaceEvent
from dp_core.kernel.mechanisms.event import Event
from dp_core.kernel.privacy import Noise

ROUNDING = 1e-7
"""Scores that differ by no more than this are equal."""
WIDE = 3.0
"""Scale from which discrete Gaussian noise is treated as continuous."""
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
    """The number of entries of a published vector, and their noise as charged."""

    noise: Noise
    scale: float
    entries: int

    @cached_property
    def near(self) -> int:
        """Largest size of noise that counts as small: errors of the scale change their number."""
        most = (1.6 if self.noise == "laplace" else 1.48) * self.scale
        if most > 100:
            return int(most)
        # Few sizes are possible, so take the one that shows noise of .9 of the scale best.
        sizes = np.arange(int(4 * self.scale) + 2)
        found = []
        for scale in (self.scale, 0.9 * self.scale):
            z, masses = noise_masses(self.noise, scale)
            found.append(np.array([masses[np.abs(z) <= size].sum() for size in sizes]))
        honest, faulty = found
        return int(np.argmax((faulty - honest) / np.sqrt(honest * (1 - honest) + 1e-9)))

    def chance(self, factor: float = 1.0) -> float:
        """Return the probability that the noise of an entry is small.

        Args:
            factor: Factor of the scale with which noise is drawn; 1 without a fault.
        """
        scale = factor * self.scale
        if self.noise == "laplace":
            alpha = np.exp(-1 / scale)
            return float(1 - 2 * alpha ** (self.near + 1) / (1 + alpha))
        if scale > 1000:
            # By the Euler-Maclaurin formula, the error is below 1e-9.
            return float(1 - 2 * stats.norm.sf((self.near + 0.5) / scale))
        z, masses = noise_masses("gaussian", scale)
        return float(masses[np.abs(z) <= self.near].sum())


def small_noise(vectors: Sequence[Vector], small: int) -> float:
    """Return the p-value of the number of entries with small noise, of all vectors; two-sided.

    Args:
        vectors: Noise as charged, independent in all entries.
        small: Number of entries whose noise is at most `near`.
    """
    masses = _number_of_small(vectors)
    return float(min(1.0, 2 * min(masses[: small + 1].sum(), masses[small:].sum())))


def small_noise_power(vectors: Sequence[Vector], level: float, *, factor: float) -> float:
    """Return the probability that `small_noise` is at most `level` for noise of another scale."""
    expected, drawn = _number_of_small(vectors), _number_of_small(vectors, factor)
    below, above = np.cumsum(expected), np.cumsum(expected[::-1])[::-1]
    return float(drawn[2 * np.minimum(below, above) <= level].sum())


def _number_of_small(vectors: Sequence[Vector], factor: float = 1.0) -> NDArray[np.float64]:
    """Return the probability of each number of entries with small noise: a sum of binomials."""
    together: dict[float, int] = defaultdict(int)
    for each in vectors:
        # Wide noise has nearly the same probability at every scale.
        together[round(each.chance(factor), 9)] += each.entries
    masses = np.ones(1)
    for chance, entries in together.items():
        own = stats.binom.pmf(np.arange(entries + 1), entries, chance)
        masses = np.maximum(fftconvolve(masses, own), 0.0)
    return masses / masses.sum()


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
