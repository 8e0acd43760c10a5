"""The tightest epsilon of a release of tables that were all fixed beforehand.

The privacy loss distributions (PLD) of the tables (`losses`) are moved to one grid and convolved by
fast Fourier transform (Koskela, Jälkö & Honkela 2020; Gopi, Lee & Wutschitz 2021). The result gives
delta at every epsilon. Every step can only make delta larger:

- A loss between two grid points is split between them with the same mean of exp(-loss). These are
  the "connected dots" of Doroshenko et al. (2022), a dominating distribution. Its error is
  proportional to the square of the grid's distance; rounding up would cost half of the distance per
  table.
- Masses are multiplied by exp(tilt * loss) before the transform and divided by it afterwards (an
  exponential change of measure). This centres the computation on the wanted epsilon, so the
  rounding error of the transform is a small part of delta even for a delta of 1e-30.
- The transform is cyclic, so sums outside the window also appear inside it. The probability above
  the window is added by Chernoff's bound, and the probability above the atoms as it is.
- The error of the transform is bounded for each frequency (`_transform_error`) and added to every
  mass.

The composition of the distributions of all tables dominates the release (Zhu, Dong & Wang 2022,
Theorem 10) if the noise of each table does not depend on the results of the others.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dp_core.accounts.losses import Atoms, Loss, Response, loss_of
from dp_core.kernel.mechanisms.event import Event
from dp_core.kernel.privacy import Relation

MARGIN = 1e-11
"""Relative margin on every mass of every table; the arithmetic is accurate to about 1e-12."""

ROUNDING = 1e-14
"""Relative margin on sums of losses and on exponents."""

UNIT = 2.0**-53
"""Unit of rounding of a float."""

LARGEST_EXPONENT = 5000.0
"""Bound on tilt times loss; it keeps the rounding error of exponentials below `MARGIN`."""

INFLATION = 4e-5
"""Largest relative increase of the sum's variance by splitting; epsilon grows by half of it."""

MOST_DIFFERENT = 1000
"""Largest number of different noise scales; the computation then takes seconds."""

SMALLEST_DELTA = Fraction(1, 10**40)
"""Smallest delta for which the arithmetic was checked."""

Parts = Sequence[tuple[Loss, int]]


def tightest_epsilon(
    charges: Sequence[tuple[Event, Mapping[str, object]]], relation: Relation, delta: Fraction
) -> Fraction:
    """Return the smallest known epsilon at which a release is (epsilon, delta)-private.

    Args:
        charges: Each event of the release, with what it asks as a receipt describes it. The number
            of events and the noise of each were fixed before any data were read.
        relation: Neighbouring relation and unit of privacy.
        delta: At least 1e-40 and below 1.

    Returns:
        Epsilon, rounded up to 12 digits.

    Raises:
        ValueError: if an event has no known loss (`loss_of`), delta is outside its range, the
            events have more than `MOST_DIFFERENT` kinds of noise, or the loss is too spread out.

    >>> from dp_core.kernel.mechanisms.additive_noise import GaussianEvent
    >>> table = GaussianEvent(Fraction(6), 1), {"name": "table"}
    >>> round(float(tightest_epsilon([table], Relation("add-remove"), Fraction("1e-9"))), 3)
    0.913
    """
    if not SMALLEST_DELTA <= delta < 1:
        raise ValueError("A privacy loss distribution needs a delta from 1e-40 to below 1.")
    counted: Counter[Loss] = Counter()
    for event, asks in charges:
        loss, copies = loss_of(event, asks, relation)
        counted[loss] += copies
    if len(counted) > MOST_DIFFERENT:
        raise ValueError("The tables of this release have too many different kinds of noise.")
    if not counted:
        return Fraction(0)
    # Sorted, so that the result does not depend on the order of the events.
    return _epsilon(sorted(counted.items(), key=repr), math.log(delta) - MARGIN)


def _epsilon(parts: Parts, log_delta: float) -> Fraction:
    reach = math.log(sum(count for _, count in parts)) - log_delta + 36
    sums = _compose(parts, _tilt(parts, reach, log_delta), reach)
    low, high = max(0.0, float(sums.losses[0])), float(sums.losses[-1])
    if not low <= high or sums.log_delta(high) > log_delta:
        raise ValueError("The privacy loss of this release is too spread out for the grid.")
    if sums.log_delta(low) <= log_delta:
        high = low
    for _ in range(40):
        middle = (low + high) / 2
        if sums.log_delta(middle) <= log_delta:
            high = middle
        else:
            low = middle
    found = high + sums.slack
    bounded = [count * loss.largest for loss, count in parts if isinstance(loss, Response)]
    if len(bounded) == len(parts):
        # The loss of the release is never larger than the sum of the largest losses.
        found = min(found, math.fsum(bounded))
    return _up(found * (1 + MARGIN))


@dataclass(frozen=True, slots=True)
class _Sums:
    """The composed privacy loss: tilted masses of its sums in a window.

    Attributes:
        losses: Losses in the window, ascending, shape (n,).
        masses: Upper bounds on the tilted masses, shape (n,).
        tilt: Exponent of the tilt: the mass of a loss is `masses` times
            exp(log_factor - tilt * loss).
        log_factor: Logarithm of the scale of the tilted masses, margins included.
        log_above: Logarithm of a bound on the probability of losses above the window.
        slack: Amount to add to epsilon for rounding of the losses and smoothing of Gaussians.
    """

    losses: NDArray[np.float64]
    masses: NDArray[np.float64]
    tilt: float
    log_factor: float
    log_above: float
    slack: float

    def log_delta(self, epsilon: float) -> float:
        """Return an upper bound on the logarithm of delta at an epsilon within the window."""
        start = int(np.searchsorted(self.losses, epsilon, side="right"))
        over = self.losses[start:] - epsilon
        summed = float((self.masses[start:] * np.exp(-self.tilt * over)) @ -np.expm1(-over))
        if summed <= 0:
            return self.log_above
        exponent = self.log_factor - self.tilt * epsilon + ROUNDING * self.tilt * abs(epsilon)
        return float(np.logaddexp(exponent + math.log(summed) + MARGIN, self.log_above))


def _tilt(parts: Parts, reach: float, log_delta: float) -> float:
    """Return a tilt for which the wanted epsilon is near the middle of the tilted masses.

    Every tilt gives a valid bound. At this one, the moment bound on delta at the tilted mean loss
    is about `log_delta`. The moment bound is E e^(tilt (loss - epsilon)) times the maximum of
    (1 - e^-x) e^(-tilt x) over x, as in Canonne, Kamath & Steinke (2020), Proposition 12.
    """
    largest = LARGEST_EXPONENT / max(loss.span(reach) for loss, _ in parts)
    if all(isinstance(loss, Response) for loss, _ in parts):
        # When all tilted mass is on the largest loss, a larger tilt only amplifies rounding.
        largest = min(largest, 14 / min(loss.spacing for loss, _ in parts))
    low, high = math.log(largest) - 40, math.log(largest)
    for _ in range(12):
        middle = (low + high) / 2
        tilt = math.exp(middle)
        log_moment, mean, _ = _cumulants(parts, tilt)
        most = -math.log1p(tilt) - tilt * math.log1p(1 / tilt)
        if log_moment - tilt * mean + most <= log_delta:
            high = middle
        else:
            low = middle
    return math.exp(low)


def _cumulants(parts: Parts, tilt: float) -> tuple[float, float, float]:
    """Return log-moment, tilted mean and tilted variance of the sum of all losses."""
    each = [(count, *loss.cumulants(tilt)) for loss, count in parts]
    return (
        math.fsum(count * log_moment for count, log_moment, _, _ in each),
        math.fsum(count * mean for count, _, mean, _ in each),
        math.fsum(count * variance for count, _, _, variance in each),
    )


def _grid(parts: Parts, tilt: float) -> tuple[int, float, float]:
    """Return number of grid points, their distance, and the standard deviation of the tilted sum.

    The window is 40 standard deviations plus 8 times the largest spacing wide. If the spacing of
    the loss with the largest variance is at least the grid's distance, it is a multiple of it, so
    that this loss lies on grid points.
    """
    jumps = [loss.spacing for loss, _ in parts]
    stddev = max(math.sqrt(_cumulants(parts, tilt)[2]), min(jumps) / 100)
    width = 40 * stddev + 8 * max(jumps)
    cells = sum(count for _, count in parts)
    size = 2**14
    while size < 2**18 and cells * (width / size) ** 2 / 6 > INFLATION * stddev**2:
        size *= 2
    distance = width / size
    main = max(parts, key=lambda part: part[1] * part[0].cumulants(tilt)[2])[0].spacing
    if main >= distance:
        distance = main / math.floor(main / distance)
    return size, distance, stddev


def _compose(parts: Parts, tilt: float, reach: float) -> _Sums:
    """Return the distribution of the sum of all losses.

    Args:
        parts: Losses, and the number of times each occurs.
        tilt: Exponent of the change of measure.
        reach: As for `Loss.atoms`.
    """
    size, grid, stddev = _grid(parts, tilt)
    cells = sum(count for _, count in parts)
    steeper = tilt + 10 / stddev
    tolerance = 8 * math.log2(size) * UNIT
    product = np.ones(size // 2 + 1, dtype=np.complex128)
    log_bound, relative = np.zeros(size // 2 + 1), np.zeros(size // 2 + 1)
    # Sums over all cells; sums named `*_size` are of absolute values and bound rounding errors.
    offset = offset_size = log_factor = factor_size = log_steeper = steeper_size = 0.0
    log_above, highest = -math.inf, 0
    for loss, count in parts:
        atoms = loss.atoms(reach)
        points = _Points.of(atoms, grid)
        masses, log_norm = points.tilted(tilt, size)
        spectrum = np.fft.rfft(masses)
        bound = np.abs(spectrum) + tolerance
        log_bound += count * np.log(bound)
        relative += count * (tolerance / bound + 4 * UNIT)
        product *= _power(spectrum, count)
        offset += count * atoms.offset
        offset_size += count * abs(atoms.offset)
        log_factor += count * log_norm
        factor_size += count * abs(log_norm)
        log_moment = points.log_moment(steeper)
        log_steeper += count * log_moment
        steeper_size += count * abs(log_moment)
        highest += count * (int(points.index.max()) + 1)
        log_above = float(np.logaddexp(log_above, atoms.log_beyond + math.log(count)))
    start = round((_cumulants(parts, tilt)[1] - offset) / grid) - size // 2
    if start + size <= highest:
        exponent = steeper * grid * (start + size)
        margin = cells * MARGIN + ROUNDING * (steeper_size + abs(exponent))
        log_above = float(np.logaddexp(log_above, log_steeper - exponent + margin))
    sums = np.roll(np.fft.irfft(product, size), -(start % size))
    losses = offset + grid * np.arange(start, start + size, dtype=np.float64)
    furthest = offset_size + max(abs(float(losses[0])), abs(float(losses[-1])))
    margin = cells * MARGIN + ROUNDING * (factor_size + tilt * furthest)
    return _Sums(
        losses=losses,
        masses=np.maximum(sums, 0.0) + _transform_error(log_bound, relative, tolerance, size),
        tilt=tilt,
        log_factor=log_factor + tilt * offset + margin,
        log_above=log_above,
        slack=math.fsum(count * loss.slack for loss, count in parts) + ROUNDING * furthest,
    )


@dataclass(frozen=True, slots=True)
class _Points:
    """Atoms split between the grid points around them.

    Attributes:
        grid: Distance of the grid points.
        index: Index of the grid point below each atom, counted from the offset.
        log_mass: Logarithm of each atom's mass.
        upper: Fraction of each mass that goes to the grid point above.
    """

    grid: float
    index: NDArray[np.int64]
    log_mass: NDArray[np.float64]
    upper: NDArray[np.float64]

    @staticmethod
    def of(atoms: Atoms, grid: float) -> _Points:
        position = atoms.relative / grid
        # Moved up by more than the rounding error, because a loss must not be moved down.
        position = position + 16 * UNIT * np.abs(position)
        index = np.floor(position)
        upper = np.expm1(-(position - index) * grid) / math.expm1(-grid)
        return _Points(grid, index.astype(np.int64), atoms.log_mass, upper)

    def tilted(self, tilt: float, size: int) -> tuple[NDArray[np.float64], float]:
        """Return masses times exp(tilt * loss), normalised to sum 1, and the log of their sum."""
        lower, upper, peak = self._masses(tilt)
        masses = np.bincount(self.index % size, lower, size)
        masses += np.bincount((self.index + 1) % size, upper, size)
        total = float(masses.sum())
        return masses / total, peak + math.log(total)

    def log_moment(self, tilt: float) -> float:
        """Return the logarithm of the mean of exp(tilt * loss), with losses minus the offset."""
        lower, upper, peak = self._masses(tilt)
        return peak + math.log(float(lower.sum() + upper.sum()))

    def _masses(self, tilt: float) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        logs = self.log_mass + tilt * self.grid * self.index
        peak = float(logs.max()) + tilt * self.grid
        lower = np.exp(logs - peak) * (1 - self.upper)
        return lower, np.exp(logs + tilt * self.grid - peak) * self.upper, peak


def _transform_error(
    log_bound: NDArray[np.float64], relative: NDArray[np.float64], tolerance: float, size: int
) -> float:
    """Return a bound on the rounding error of each mass after transform, product and inverse.

    A transform of `size` = 2^m non-negative numbers that sum to 1 multiplies each number by factors
    of modulus 1 along a path of m additions and products. Each step has a relative error of less
    than 8 units of rounding (Higham 2002, section 24.1: sqrt(5) for a product, 1 for the factor, 1
    for the sum). So the error of each frequency is at most `tolerance` = 8 m units. A product of
    factors of modulus at most a_i = |computed| + tolerance has an error of at most prod a_i times
    the sum of tolerance / a_i, plus 4 units for each multiplication. The inverse transform takes
    the mean over all frequencies, with an error of `tolerance` times the mean modulus.

    Args:
        log_bound: Logarithm of prod a_i for the frequencies of a real transform, shape
            (size / 2 + 1,).
        relative: Sum of tolerance / a_i plus the errors of multiplications, same shape.
        tolerance: Bound on the error of one frequency of one transform.
        size: Number of grid points.
    """
    each = np.exp(log_bound) * (relative + tolerance) * 1.01
    # All frequencies except the first and the last represent two.
    return float(2 * each.sum() - each[0] - each[-1]) / size


def _power(values: NDArray[np.complex128], exponent: int) -> NDArray[np.complex128]:
    """Return a whole power by multiplications only, whose rounding error is known."""
    result = np.ones_like(values)
    while exponent:
        if exponent & 1:
            result = result * values
        values = values * values
        exponent >>= 1
    return result


def _up(value: float) -> Fraction:
    return Fraction(Decimal(value).normalize(Context(prec=12, rounding=ROUND_CEILING)))
