"""The privacy loss of a noisy table of counts, as a discrete distribution that dominates it.

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

from dp_core.schema.privacy import Neighbours, Relation
from dp_core.wall.accounting.events import Event, GaussianEvent, LaplaceEvent
from dp_core.wall.accounting.sensitivity import count_l1, count_l2_squared

CONTINUOUS_FROM = 256.0
"""Scale from which the Gaussian is treated as continuous; `LENT` is 5e-5 of its variance there."""

LENT = 3
"""Variance lent to the smoothing argument of `_continuous_atoms`, records squared."""

SMOOTHING_COST = 1e-25
"""Bounds what smoothing costs per cell, in epsilon and as a factor of delta: 2 x 2 e^(-6 pi^2)."""

SMALLEST_SCALE = Fraction(1, 2)
"""Gaussian noise smaller than this protects nobody, and is not accounted for here."""

LARGEST_LOSS = 30
"""Nor is Laplace noise with a loss larger than this."""

_BLOCK = 1 / 256
"""Distance of the atoms of a Gaussian that is treated as continuous, in standard deviations."""


@dataclass(frozen=True, slots=True)
class Atoms:
    """Losses `offset + relative` with logarithms of their probabilities.

    Attributes:
        offset: A loss of ordinary size; keeps `relative` exact where the losses are a lattice.
        relative: The losses minus the offset, shape (atoms,). Each is good to 4 units of rounding.
        log_mass: Natural logarithms, shape (atoms,); good to 1e-12.
        log_beyond: Logarithm of a bound on the probability of a loss above all of these.
    """

    offset: float
    relative: NDArray[np.float64]
    log_mass: NDArray[np.float64]
    log_beyond: float


class Loss(Protocol):
    """The privacy loss of one cell that moves by 1."""

    @property
    def spacing(self) -> float:
        """Distance between neighbouring losses."""

    def span(self, reach: float) -> float:
        """Return how far an atom may lie from the offset."""

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
    """Discrete Laplace noise: loss 1/scale at or below the lower count, -1/scale above.

    That is the loss of randomised response, with these very probabilities. It dominates every
    mechanism that is epsilon-private (Kairouz, Oh & Viswanath 2015, Theorem 2), so `epsilon` may be
    rounded up.

    Attributes:
        epsilon: Reciprocal of the scale.
    """

    epsilon: float

    @property
    def spacing(self) -> float:
        return 2 * self.epsilon

    def span(self, reach: float) -> float:  # noqa: ARG002
        return 2 * self.epsilon

    def atoms(self, reach: float) -> Atoms:  # noqa: ARG002
        high = -math.log1p(math.exp(-self.epsilon))
        return Atoms(
            offset=self.epsilon,
            relative=np.array([0.0, -2 * self.epsilon]),
            log_mass=np.array([high, high - self.epsilon]),
            log_beyond=-math.inf,
        )

    def cumulants(self, tilt: float) -> tuple[float, float, float]:
        odds = math.exp(-(1 + 2 * tilt) * self.epsilon)  # of the lower loss
        low = odds / (1 + odds)
        log_moment = tilt * self.epsilon + math.log1p(odds) - math.log1p(math.exp(-self.epsilon))
        return log_moment, self.epsilon * (1 - 2 * low), 4 * self.epsilon**2 * low * (1 - low)


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Discrete Gaussian noise: loss (1 - 2z) / (2 scale^2) for noise z.

    Attributes:
        scale: Sampler's parameter, records.
    """

    scale: float

    @property
    def spacing(self) -> float:
        return 1 / self.scale**2

    def span(self, reach: float) -> float:
        return (math.sqrt(2 * reach) + 1 / self.scale) / self.scale

    def atoms(self, reach: float) -> Atoms:
        if self.scale >= CONTINUOUS_FROM:
            return _continuous_atoms(self.scale, reach)
        return _discrete_atoms(self.scale, reach)

    def cumulants(self, tilt: float) -> tuple[float, float, float]:
        rate = 1 / self.scale**2  # as if it were continuous
        return tilt * (tilt + 1) * rate / 2, (2 * tilt + 1) * rate / 2, rate


def loss_of(event: Event, neighbours: Neighbours) -> tuple[Loss, int]:
    """Return the loss of one cell of a noisy table, and how many cells move at most.

    The product of so many copies dominates the event, whichever cells move and whichever way: the
    noise is symmetric, so reflecting the outputs exchanges the two files.

    Args:
        event: Calibrated to one row: of several rows no worst spread over the cells is proven.
        neighbours: The relation of rows.

    Raises:
        ValueError: if the event is not a table of counts, or its noise is too small to matter. A
            table is told by its sensitivity; a vector of scores has a larger one.
    """
    # privacy: with sensitivity 2 a single count that moved by 2 would be worse than two that move
    # by 1. Under replace-one only a table has it, and two of its counts move; nothing else passes.
    if isinstance(event, LaplaceEvent) and event.l1_sensitivity == count_l1(Relation(neighbours)):
        if 1 / event.scale <= LARGEST_LOSS:
            # Rounded up; squares of it must not underflow.
            up = max(math.nextafter(float(1 / event.scale), math.inf), 1e-100)
            return Response(up), event.l1_sensitivity
    elif isinstance(event, GaussianEvent):
        cells = event.l2_sensitivity_squared
        if cells == count_l2_squared(Relation(neighbours)) and event.scale >= SMALLEST_SCALE:
            # Less noise than there is, where it is treated as continuous, is the safe side.
            return Gaussian(float(min(event.scale, Fraction(10**100)))), cells
    raise ValueError(
        "No privacy loss distribution is known for an event of this release; its currency's own"
        " arithmetic holds."
    )


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
    furthest = math.ceil(math.sqrt(2 * reach) / _BLOCK)
    edge = np.arange(-furthest, furthest + 1, dtype=np.float64) * _BLOCK
    step = _BLOCK / stddev  # of the loss
    nodes, shares = np.polynomial.legendre.leggauss(8)
    total = np.zeros_like(edge)
    for node, share in zip((nodes + 1) / 2, shares / 2, strict=True):
        # Noise at `node` of a block above the edge, and at its mirror in the block below; the edge
        # is the block's end of larger loss in the first case, of smaller loss in the second.
        above = np.exp(-(edge + node * _BLOCK / 2) * node * _BLOCK)
        below = np.exp((edge - node * _BLOCK / 2) * node * _BLOCK)
        to_larger = math.expm1(-(1 - node) * step) / math.expm1(-step)
        to_smaller = 1 - math.expm1(-node * step) / math.expm1(-step)
        total += share * _BLOCK * (above * to_larger + below * to_smaller)
    log_mass: NDArray[np.float64] = np.log(total) - edge**2 / 2 - math.log(2 * math.pi) / 2
    log_mass[-1] = np.logaddexp(log_mass[-1], -reach)
    return Atoms(1 / (2 * stddev**2), -edge / stddev, log_mass, -reach)
