"""The privacy loss of one event, as a discrete distribution that dominates the true one.

Let P be the output on one of two neighbouring files, Q on the other. The privacy loss of an output
z is log P(z)/Q(z); its distribution under P decides every guarantee: delta(epsilon) is the mean of
1 - exp(epsilon - loss) where positive. As a function of Q/P = exp(-loss) that is convex and falls.
So a distribution may be replaced by one in which some loss was moved up, or was split between two
values such that the mean of exp(-loss) stays (Jensen): delta only grows, also in any composition.
Everything here rests on this one fact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dp_core.accounting.events import Event, GaussianEvent, LaplaceEvent
from dp_core.accounting.sensitivity import count_l1
from dp_core.privacy import Neighbours

LENT = 3
"""Variance lent to the smoothing argument of `_continuous_atoms`, records squared."""

CONTINUOUS_FROM = 256.0
"""Standard deviation from which the Gaussian is treated as continuous; LENT is 5e-5 of it there."""

CONTINUOUS_SLACK = 1e-25
"""Bounds the epsilon that smoothing costs per event: log((1 + t)/(1 - t)), t = 2 e^(-6 pi^2)."""

LARGEST_LOSS = 500.0
"""Loss of one event from which on no statement is of use."""

_STEPS = 2048
"""Parts of one to which `coarser` rounds a mantissa: by less than 0.1 %."""

_PER_STDDEV = 256
"""Atoms per standard deviation of a Gaussian that is treated as continuous."""


@dataclass(frozen=True, slots=True)
class Atoms:
    """Losses `offset + relative` with logarithms of their probabilities.

    Attributes:
        offset: A loss that occurs, of ordinary size; keeps `relative` exact on a lattice.
        relative: The losses minus the offset, shape (atoms,). Each is good to 4 units of rounding.
        log_mass: Natural logarithms, shape (atoms,); good to 1e-12.
        log_beyond: Logarithm of a bound on the probability of a loss above all of these.
    """

    offset: float
    relative: NDArray[np.float64]
    log_mass: NDArray[np.float64]
    log_beyond: float


class Loss(Protocol):
    """The privacy loss of one use of one mechanism."""

    @property
    def spacing(self) -> float:
        """Distance between neighbouring losses."""

    @property
    def coarse(self) -> bool:
        """Whether single jumps of that distance matter."""

    @property
    def slack(self) -> float:
        """Epsilon to add for each use of it."""

    def span(self, reach: float) -> float:
        """Return how far an atom may lie from the offset."""

    def coarser(self) -> Loss:
        """Return a loss that dominates this one, the same for events that are nearly alike."""

    def atoms(self, reach: float) -> Atoms:
        """Return the distribution.

        Args:
            reach: Leave out at most e^-reach above the atoms.
        """

    def cumulants(self, tilt: float) -> tuple[float, float, float]:
        """Return log E e^(tilt loss), and mean and variance of the loss tilted by that factor.

        Approximate: they choose where to compute, no bound rests on them.
        """


@dataclass(frozen=True, slots=True)
class Response:
    """Randomised response: loss `epsilon` or -`epsilon`.

    It dominates every mechanism that is epsilon-private (Kairouz, Oh & Viswanath 2015, Theorem 2),
    and it is the discrete Laplace mechanism where a count moves by 1: its loss is 1/scale at or
    below the lower count, -1/scale above, with these very probabilities.

    Attributes:
        epsilon: Positive, rounded up.
    """

    epsilon: float

    @property
    def spacing(self) -> float:
        return 2 * self.epsilon

    @property
    def coarse(self) -> bool:
        return True

    @property
    def slack(self) -> float:
        return 0.0

    def span(self, reach: float) -> float:  # noqa: ARG002
        return 2 * self.epsilon

    def coarser(self) -> Response:
        mantissa, exponent = math.frexp(self.epsilon)
        return Response(math.ldexp(math.ceil(mantissa * _STEPS) / _STEPS, exponent))

    def atoms(self, reach: float) -> Atoms:  # noqa: ARG002
        high = -math.log1p(math.exp(-self.epsilon))
        return Atoms(
            offset=self.epsilon,
            relative=np.array([0.0, -2 * self.epsilon]),
            log_mass=np.array([high, high - self.epsilon]),
            log_beyond=-math.inf,
        )

    def cumulants(self, tilt: float) -> tuple[float, float, float]:
        gap = (1 + 2 * tilt) * self.epsilon
        low = math.exp(-gap) / (1 + math.exp(-gap))
        log_moment = (
            tilt * self.epsilon + math.log1p(math.exp(-gap)) - math.log1p(math.exp(-self.epsilon))
        )
        return log_moment, self.epsilon * (1 - 2 * low), 4 * self.epsilon**2 * low * (1 - low)


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Discrete Gaussian noise where a count moves by 1: loss (1 - 2z) / (2 scale^2) for noise z.

    Attributes:
        scale: Sampler's parameter, records.
    """

    scale: float

    @property
    def spacing(self) -> float:
        return 1 / self.scale**2

    @property
    def coarse(self) -> bool:
        return self.scale < 2

    @property
    def slack(self) -> float:
        return CONTINUOUS_SLACK if self.scale >= CONTINUOUS_FROM else 0.0

    def span(self, reach: float) -> float:
        return (math.sqrt(2 * reach) + 1 / self.scale) / self.scale

    def coarser(self) -> Gaussian:
        # A continuous Gaussian with less noise dominates one with more; of discrete ones that is
        # not proved. The bound is a power of two: rounding down does not cross it.
        if self.scale < CONTINUOUS_FROM:
            return self
        mantissa, exponent = math.frexp(self.scale)
        return Gaussian(math.ldexp(math.floor(mantissa * _STEPS) / _STEPS, exponent))

    def atoms(self, reach: float) -> Atoms:
        if self.scale >= CONTINUOUS_FROM:
            return _continuous_atoms(self.scale, reach)
        return _discrete_atoms(self.scale, reach)

    def cumulants(self, tilt: float) -> tuple[float, float, float]:
        rate = 1 / self.scale**2
        if self.scale >= 2:  # the discrete Gaussian's differ by less than 1e-30 of them
            return tilt * (tilt + 1) * rate / 2, (2 * tilt + 1) * rate / 2, rate
        z = np.arange(-24, 25) - round(tilt)
        losses = (1 - 2 * z) * rate / 2
        logs = -(z**2) * rate / 2 + tilt * losses
        top = float(logs.max())
        weights = np.exp(logs - top)
        total = float(weights.sum())
        norm = float(np.exp(-(np.arange(-24, 25) ** 2) * rate / 2).sum())
        mean = float(weights @ losses) / total
        variance = float(weights @ (losses - mean) ** 2) / total
        return top + math.log(total / norm), mean, variance


def loss_of(event: Event, neighbours: Neighbours) -> tuple[Loss, int]:
    """Return a loss and how many independent copies of it dominate an event, in both directions.

    Both directions (a row more, a row less) have one distribution: the noise is symmetric, so
    reflecting the outputs exchanges the two files.

    - Laplace noise on a table of counts: one copy per cell that moves, by 1 each.
    - Any other event of pure epsilon: randomised response at that epsilon.
    - Gaussian noise on whole numbers with squared L2 sensitivity below 4: no number can move by 2,
      so at most that many move, by 1 each.

    Raises:
        ValueError: if no dominating distribution is known, or the noise is too small to matter.
    """
    if isinstance(event, GaussianEvent):
        copies = event.l2_sensitivity_squared
        if copies > 3:
            raise ValueError(
                "No privacy loss distribution is proved for Gaussian noise on a statistic whose"
                f" squared L2 sensitivity is {copies}; use the release's own currency."
            )
        # Less noise than there is, where it is treated as continuous, is the safe side.
        scale = float(min(event.scale, Fraction(10**100)))
        if scale == 0 or 1 / scale > math.sqrt(LARGEST_LOSS):
            raise ValueError("Gaussian noise this small has no useful privacy loss.")
        return Gaussian(scale), copies
    # privacy: only a table of counts has a table's L1 sensitivity (the scores have 4 or more), so
    # two counts move by 1 each under replace-one; one that moved by 2 would be worse.
    table = isinstance(event, LaplaceEvent) and event.l1_sensitivity == count_l1(neighbours)
    copies = count_l1(neighbours) if table else 1
    epsilon = event.epsilon()
    if epsilon is None or event.own_delta() != 0:
        raise ValueError(f"No privacy loss distribution is known for {type(event).__name__}.")
    if epsilon / copies > LARGEST_LOSS:
        raise ValueError("Noise this small has no useful privacy loss.")
    return Response(_up(epsilon / copies)), copies


def _discrete_atoms(scale: float, reach: float) -> Atoms:
    """Return the loss of every z up to a bound.

    P(z > m) <= e^(-m^2 / (2 scale^2)) for m >= 0 (Canonne, Kamath & Steinke 2020, Corollary 9).
    """
    furthest = math.ceil(scale * math.sqrt(2 * reach))
    z = np.arange(-furthest, furthest + 1, dtype=np.float64)
    halves = 2 * scale**2
    weights = -(z**2) / halves
    # A sum that ends early is a smaller norm and larger probabilities: the safe side.
    log_mass = weights - math.log(float(np.exp(weights).sum()))
    # Losses below the lowest atom are moved up to it.
    log_mass[-1] = np.logaddexp(log_mass[-1], -reach)
    return Atoms(1 / halves, -2 * z / halves, log_mass, -reach)


def _continuous_atoms(scale: float, reach: float) -> Atoms:
    """Return a distribution that dominates the loss of a wide discrete Gaussian.

    The discrete Gaussian of variance s^2 is, up to a factor within (1 +- t), t = 2 e^(-2 pi^2 c),
    a post-processing of the continuous one of variance s^2 - c (`gaussian_limit` tells why), here
    with c = `LENT`. The continuous line is cut into blocks; the mass at each noise x is split
    between the losses at the two ends of its block, which keeps the mean of exp(-loss). Integrals
    over a block are by Gauss-Legendre quadrature with 8 nodes, exact to rounding.
    """
    stddev = math.sqrt(scale**2 - LENT) * (1 - 1e-15)
    width = 1 / _PER_STDDEV  # of a block, in standard deviations
    furthest = math.ceil(math.sqrt(2 * reach) / width)
    edge = np.arange(-furthest, furthest + 1, dtype=np.float64) * width
    step = width / stddev  # in loss
    nodes, shares = np.polynomial.legendre.leggauss(8)
    total = np.zeros_like(edge)
    for node, share in zip((nodes + 1) / 2, shares / 2, strict=True):
        part = math.expm1(-(1 - node) * step) / math.expm1(-step)
        # To the upper end: noise just above the edge. Its mirror gives the rest to its lower end.
        above = np.exp(-(edge + node * width / 2) * node * width)
        below = np.exp((edge - node * width / 2) * node * width)
        rest = 1 - math.expm1(-node * step) / math.expm1(-step)
        total += share * width * (above * part + below * rest)
    log_mass: NDArray[np.float64] = np.log(total) - edge**2 / 2 - math.log(2 * math.pi) / 2
    log_mass[-1] = np.logaddexp(log_mass[-1], -reach)
    return Atoms(1 / (2 * stddev**2), -edge / stddev, log_mass, -reach)


def _up(value: Fraction) -> float:
    # Squares of it must not underflow; a larger epsilon is the safe side.
    return max(math.nextafter(float(value), math.inf), 1e-100)
