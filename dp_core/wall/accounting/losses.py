"""The privacy loss of a noisy table of counts, as a discrete distribution that dominates it.

Let P and Q be the distributions of the output on two neighbouring files. The privacy loss of an
output z is log P(z)/Q(z). Its distribution under P determines every guarantee: delta(epsilon) is
the mean of the positive part of 1 - exp(epsilon - loss). As a function of Q/P = exp(-loss) this is
convex and decreasing. So delta can only grow, also in any composition, if a loss is replaced by a
larger one, or is split between two values with the same mean of exp(-loss) (Jensen's inequality).
All bounds in this module follow from this fact.
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
"""Scale, records, from which Gaussian noise is treated as continuous (`LENT` is 5e-5 of s^2)."""

LENT = 3
"""Variance c that the smoothing argument of `_continuous_atoms` subtracts, records squared."""

SMOOTHING_COST = 1e-25
"""Upper bound on 2 x 2 e^(-6 pi^2): the cost of smoothing per cell, in epsilon and as a factor of
delta."""

SMALLEST_SCALE = Fraction(1, 2)
"""Smallest scale of Gaussian noise, records, for which a loss distribution is computed."""

LARGEST_LOSS = 30
"""Largest loss of Laplace noise for which a loss distribution is computed."""

_BLOCK = 1 / 256
"""Distance of the atoms of a Gaussian that is treated as continuous, in standard deviations."""


@dataclass(frozen=True, slots=True)
class Atoms:
    """A discrete distribution of losses `offset + relative`.

    Attributes:
        offset: A typical loss. It is subtracted so that `relative` is exact for losses on a
            lattice.
        relative: Losses minus the offset, shape (atoms,); accurate to 4 units of rounding.
        log_mass: Natural logarithms of the probabilities, shape (atoms,); accurate to 1e-12.
        log_beyond: Natural logarithm of a bound on the probability of a loss above all of these.
    """

    offset: float
    relative: NDArray[np.float64]
    log_mass: NDArray[np.float64]
    log_beyond: float


class Loss(Protocol):
    """The privacy loss of one cell whose count differs by 1 between the neighbouring files."""

    @property
    def spacing(self) -> float:
        """Distance between neighbouring losses."""

    def span(self, reach: float) -> float:
        """Return the largest distance of an atom from the offset; `reach` as for `atoms`."""

    def atoms(self, reach: float) -> Atoms:
        """Return the distribution.

        Args:
            reach: The probability above the atoms is at most e^-reach.
        """

    def cumulants(self, tilt: float) -> tuple[float, float, float]:
        """Return log E e^(tilt loss), and mean and variance of the tilted loss.

        The values are approximate. They determine the grid of the computation, and no bound depends
        on them.
        """


@dataclass(frozen=True, slots=True)
class Response:
    """The loss of discrete Laplace noise: 1/scale at or below the lower count, -1/scale above it.

    It has the same distribution as the loss of randomised response, which dominates every
    epsilon-private mechanism (Kairouz, Oh & Viswanath 2015, Theorem 2). So `epsilon` may be rounded
    up.

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
    """The loss of discrete Gaussian noise: (1 - 2z) / (2 scale^2) for noise z.

    Attributes:
        scale: Parameter of the sampler, records.
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
    """Return the loss of one cell of a noisy table, and the largest number of cells that change.

    The product of that many copies dominates the event, whichever cells change and in whichever
    direction: the noise is symmetric, so reflecting the outputs exchanges the two files.

    Args:
        event: An event calibrated to one row. For several rows, the worst-case distribution over
            the cells is not known.
        neighbours: Neighbouring relation of rows.

    Raises:
        ValueError: if the event is not a table of counts, or its noise is below `SMALLEST_SCALE` or
            has a loss above `LARGEST_LOSS`. The sensitivity identifies a table; a vector of scores
            has a larger one.
    """
    # privacy: at sensitivity 2, one count that changes by 2 would be worse than two that change by
    # 1. Only a table has sensitivity 2, under replace-one, and then two of its counts change by 1.
    if isinstance(event, LaplaceEvent) and event.l1_sensitivity == count_l1(Relation(neighbours)):
        if 1 / event.scale <= LARGEST_LOSS:
            # Rounded up; at least 1e-100, so that its square does not underflow.
            up = max(math.nextafter(float(1 / event.scale), math.inf), 1e-100)
            return Response(up), event.l1_sensitivity
    elif isinstance(event, GaussianEvent):
        cells = event.l2_sensitivity_squared
        if cells == count_l2_squared(Relation(neighbours)) and event.scale >= SMALLEST_SCALE:
            # A smaller scale than the true one gives a larger loss, which is the safe side.
            return Gaussian(float(min(event.scale, Fraction(10**100)))), cells
    raise ValueError(
        "No privacy loss distribution is known for an event of this release; its currency's own"
        " arithmetic holds."
    )


def _discrete_atoms(scale: float, reach: float) -> Atoms:
    """Return the loss for every noise z up to a bound, with its probability.

    P(z > m) <= e^(-m^2 / (2 scale^2)) for m >= 0 (Canonne, Kamath & Steinke 2020, Corollary 9).
    """
    furthest = math.ceil(scale * math.sqrt(2 * reach))
    z = np.arange(-furthest, furthest + 1, dtype=np.float64)
    halves = 2 * scale**2
    weights = -(z**2) / halves
    # A truncated sum is a smaller norm and gives larger probabilities, which is the safe side.
    log_mass = weights - math.log(float(np.exp(weights).sum()))
    # Losses below the lowest atom are moved up to it.
    log_mass[-1] = np.logaddexp(log_mass[-1], -reach)
    return Atoms(1 / halves, -2 * z / halves, log_mass, -reach)


def _continuous_atoms(scale: float, reach: float) -> Atoms:
    """Return a distribution that dominates the loss of a wide discrete Gaussian.

    The discrete Gaussian of parameter s^2 is, up to a factor within (1 +- t), t = 2 e^(-2 pi^2 c),
    a post-processing of the continuous one of variance s^2 - c, with c = `LENT` (for the proof see
    `gaussian_limit`). The real line is divided into blocks. The mass at each noise x is split
    between the losses at the two ends of its block so that the mean of exp(-loss) is unchanged.
    Integrals over a block use Gauss-Legendre quadrature with 8 nodes, exact to rounding.
    """
    stddev = math.sqrt(scale**2 - LENT) * (1 - 1e-15)
    furthest = math.ceil(math.sqrt(2 * reach) / _BLOCK)
    edge = np.arange(-furthest, furthest + 1, dtype=np.float64) * _BLOCK
    step = _BLOCK / stddev  # of the loss
    nodes, weights = np.polynomial.legendre.leggauss(8)
    total = np.zeros_like(edge)
    for node, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
        # Noise at fraction `node` of the block above the edge, and at the mirrored place in the
        # block below. In the first block the edge has the larger loss, in the second the smaller.
        above = np.exp(-(edge + node * _BLOCK / 2) * node * _BLOCK)
        below = np.exp((edge - node * _BLOCK / 2) * node * _BLOCK)
        to_larger = math.expm1(-(1 - node) * step) / math.expm1(-step)
        to_smaller = 1 - math.expm1(-node * step) / math.expm1(-step)
        total += weight * _BLOCK * (above * to_larger + below * to_smaller)
    log_mass: NDArray[np.float64] = np.log(total) - edge**2 / 2 - math.log(2 * math.pi) / 2
    log_mass[-1] = np.logaddexp(log_mass[-1], -reach)
    return Atoms(1 / (2 * stddev**2), -edge / stddev, log_mass, -reach)
