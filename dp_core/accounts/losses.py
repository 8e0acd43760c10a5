"""The privacy loss of a noisy statistic, as a discrete distribution that dominates it.

Let P and Q be the distributions of the output on two neighbouring files. The privacy loss of an
output z is log P(z)/Q(z). Its distribution under P determines every guarantee: delta(epsilon) is
the mean of the positive part of 1 - exp(epsilon - loss). As a function of Q/P = exp(-loss) this is
convex and decreasing. So delta can only grow, also in any composition, if a loss is replaced by a
larger one, or is split between two values with the same mean of exp(-loss) (Jensen's inequality).
All bounds in this module follow from this fact.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.cost.sensitivity import count_bounds, in_shares
from dp_core.kernel.mechanisms.additive_noise import GaussianEvent, LaplaceEvent
from dp_core.kernel.mechanisms.event import Event
from dp_core.kernel.privacy import Relation

CONTINUOUS_FROM = 256.0
"""Scale, records, from which Gaussian noise is treated as continuous (`LENT` is 5e-5 of s^2)."""

LENT = 3
"""Variance c that the smoothing argument of `_continuous_atoms` subtracts, records squared."""

SMOOTHING_COST = 1e-25
"""Upper bound on 2 x 2 e^(-6 pi^2): the cost of smoothing per cell, in epsilon and as a factor of
delta."""

SMALLEST_SMOOTHED = 16
"""Scale from which any integer vector has a known loss; `LENT` is 1.2 % of its variance there."""

MOST_MOVED = 2**31
"""Entries of one statistic that one unit may change; the smoothing costs 2e-16 for this many."""

HISTOGRAMS = frozenset({"table", "binned-counts", "cell-counts"})
"""Names of the questions whose every record is in one entry and adds 1 to it."""

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
    """The privacy loss of one noisy cell, or of all entries of a statistic together."""

    @property
    def spacing(self) -> float:
        """Distance between neighbouring losses."""

    @property
    def slack(self) -> float:
        """What smoothing adds to epsilon."""

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
    """Discrete Laplace noise z on one entry that moves by m: loss (|z - m| - |z|)/scale.

    With a = e^(-1/scale) that is m/scale with probability 1/(1 + a) (z <= 0), (m - 2j)/scale with
    probability a^j (1 - a)/(1 + a) for 0 < j < m, and -m/scale with probability a^m/(1 + a).

    For m = 1 it is the loss of randomised response, with these very probabilities. That dominates
    every mechanism that is (1/scale)-private (Kairouz, Oh & Viswanath 2015, Theorem 2). For m = 2,
    delta(e) is (1 - exp(e - 2/scale))/(1 + a) where 0 <= e <= 2/scale, and larger for less noise.
    So `epsilon` may be rounded up.

    Attributes:
        epsilon: Reciprocal of the scale.
        moved: m, 1 or 2.
    """

    epsilon: float
    moved: int = 1

    @property
    def spacing(self) -> float:
        return 2 * self.epsilon

    @property
    def slack(self) -> float:
        return 0.0

    @property
    def largest(self) -> float:
        """The largest loss."""
        return self.moved * self.epsilon

    def span(self, reach: float) -> float:  # noqa: ARG002
        return 2 * self.largest

    def atoms(self, reach: float) -> Atoms:  # noqa: ARG002
        step = np.arange(self.moved + 1, dtype=np.float64)
        log_mass = -self.epsilon * step - math.log1p(math.exp(-self.epsilon))
        if self.moved > 1:
            log_mass[1:-1] += math.log(-math.expm1(-self.epsilon))
        return Atoms(
            offset=self.largest,
            relative=-2 * self.epsilon * step,
            log_mass=log_mass,
            log_beyond=-math.inf,
        )

    def cumulants(self, tilt: float) -> tuple[float, float, float]:
        atoms = self.atoms(0.0)
        logs = atoms.log_mass + tilt * atoms.relative
        log_moment = float(np.logaddexp.reduce(logs))
        tilted = np.exp(logs - log_moment)
        mean = float(tilted @ atoms.relative)
        variance = float(tilted @ (atoms.relative - mean) ** 2)
        return log_moment + tilt * atoms.offset, mean + atoms.offset, variance


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Discrete Gaussian noise on entries that move by D in the L2 norm.

    For D = 1 one entry moves by 1, and noise z has the loss (1 - 2z) / (2 scale^2). For other D
    the loss is that of the smoothed noise (`_continuous_atoms`), which depends on D alone, not on
    how the change is spread over the entries.

    Attributes:
        scale: Parameter of the sampler; at least `SMALLEST_SMOOTHED` unless D is 1.
        l2_squared: D^2. At most so many entries change, because they are whole numbers.
    """

    scale: float
    l2_squared: int = 1

    @property
    def spacing(self) -> float:
        return self.l2_squared / self.scale**2

    @property
    def slack(self) -> float:
        return self.l2_squared * SMOOTHING_COST

    def span(self, reach: float) -> float:
        moved = math.sqrt(self.l2_squared) / self.scale
        return (math.sqrt(2 * reach) + moved) * moved

    def atoms(self, reach: float) -> Atoms:
        if self.l2_squared > 1 or self.scale >= CONTINUOUS_FROM:
            return _continuous_atoms(self.scale, self.l2_squared, reach)
        return _discrete_atoms(self.scale, reach)

    def cumulants(self, tilt: float) -> tuple[float, float, float]:
        rate = self.l2_squared / self.scale**2  # as if it were continuous
        return tilt * (tilt + 1) * rate / 2, (2 * tilt + 1) * rate / 2, rate


def loss_of(event: Event, asks: Mapping[str, object], relation: Relation) -> tuple[Loss, int]:
    """Return a loss, and how many independent copies of it dominate an event.

    Args:
        event: Noise on the answer.
        asks: The question, as the receipt describes it.
        relation: Which files are neighbours.

    Raises:
        ValueError: if no loss is known for the mechanism, its noise is too small to matter, or a
            histogram's noise is calibrated to less than its sensitivity.

    Privacy:
        In a histogram (`HISTOGRAMS`) a row moves one cell by 1, and a replaced row two: one copy of
        a cell's loss for each. The noise is symmetric, so it does not matter which way a cell
        moves. Of any other question, of a person of several rows, and of a household of several
        shares, which may be in several cells in different numbers, only the sensitivities that the
        event states are known, and the loss covers every change within them:

        - Laplace, L1 sensitivity 1: one entry moves by 1.
        - Laplace, 2: one entry moves by 2, or two move by 1. With p = 1/(1 + a), a = e^(-1/scale),
          delta(e) for 0 <= e <= 2/scale is p (1 - exp(e - 2/scale)) in the first case and p^2 times
          the same in the second, so the first one dominates. (For e < 0 both follow from -e, as
          the noise is symmetric.)
        - Laplace, more: the whole event is (l1/scale)-private, and `Response` dominates that.
        - Gaussian, squared L2 sensitivity 1 or 2: as many entries move by 1 at most.
        - Gaussian, more: the smoothed noise, with any change of that norm. Its slack is per entry
          that changes. With an integer change of squared norm D^2 these are D^2 entries at most.
          With S shares they are D^2/S: each share changes at most as many entries as the squared
          norm of its own change, because those are whole numbers, and D^2 is stated as S^2 times
          the largest of these (`sensitivity.in_shares`).

        Scales and sensitivities are both in shares then, so that a loss is that of their ratio. The
        smoothing subtracts `LENT` shares squared from the variance, which is S^2 times less in
        households: noise on shares is the finer grid.
    """
    # privacy: a receipt may say anything; only the name of a histogram counts for one.
    name = asks.get("name") if isinstance(asks, Mapping) else None
    histogram = isinstance(name, str) and name in HISTOGRAMS
    # Several rows of a person, or shares of a household, may be in one cell, or in as many cells.
    cells_move_by_one = histogram and relation.max_rows == 1 and relation.shares == 1
    _, count_l1, count_l2_squared = in_shares(relation, count_bounds(relation))
    match event:
        case LaplaceEvent(scale=scale, l1_sensitivity=l1):
            if histogram:
                _enough(l1, count_l1)
            if cells_move_by_one:
                return _response(1 / scale), count_l1
            if l1 <= 2:
                return _response(1 / scale, l1), 1
            return _response(l1 / scale), 1
        case GaussianEvent(scale=scale, l2_sensitivity_squared=squared):
            # A smaller scale than the true one gives a larger loss, which is the safe side.
            below = float(min(scale, Fraction(10**100)))
            if histogram:
                _enough(squared, count_l2_squared)
            if cells_move_by_one:
                squared = count_l2_squared
            if squared <= 2 and scale >= SMALLEST_SCALE:
                return Gaussian(below), squared
            if scale >= SMALLEST_SMOOTHED and squared <= MOST_MOVED * relation.shares:
                return Gaussian(below, squared), 1
    raise ValueError(_UNKNOWN)


_UNKNOWN = (
    "No privacy loss distribution is known for an event of this release; its currency's own"
    " arithmetic holds."
)


def _enough(stated: int, needed: int) -> None:
    # privacy: with less noise than a histogram needs, the copies would not cover it.
    if stated < needed:
        raise ValueError("The noise of a histogram is calibrated to less than its sensitivity.")


def _response(epsilon: Fraction, moved: int = 1) -> Response:
    """Return the loss of Laplace noise of scale 1/epsilon on an entry that moves by so much."""
    if moved * epsilon > LARGEST_LOSS:
        raise ValueError(_UNKNOWN)
    # Rounded up; at least 1e-100, so that its square does not underflow.
    return Response(max(math.nextafter(float(epsilon), math.inf), 1e-100), moved)


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


def _continuous_atoms(scale: float, l2_squared: int, reach: float) -> Atoms:
    """Return a distribution that dominates the loss of a wide discrete Gaussian.

    The discrete Gaussian of parameter s^2 is, up to a factor within (1 +- t), t = 2 e^(-2 pi^2 c),
    a post-processing of the continuous one of variance s^2 - c, with c = `LENT` (for the proof see
    `gaussian_limit`). The real line is divided into blocks. The mass at each noise x is split
    between the losses at the two ends of its block so that the mean of exp(-loss) is unchanged.
    Integrals over a block use Gauss-Legendre quadrature with 8 nodes, exact to rounding.
    """
    # In units of the change: the loss depends on the ratio of noise and change alone.
    stddev = math.sqrt((scale**2 - LENT) / l2_squared) * (1 - 1e-15)
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
