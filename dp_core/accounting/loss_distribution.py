"""The tightest (epsilon, delta) of a release whose events were all fixed beforehand.

The privacy loss distributions (PLD) of the events (`losses`) are brought to one grid, convolved by
fast Fourier transform (Koskela, Jälkö & Honkela 2020; Gopi, Lee & Wutschitz 2021) and read at an
epsilon. Every step errs towards a larger delta:

- A loss between two grid points is split between them so that the mean of exp(-loss) stays: the
  "connected dots" of Doroshenko et al. (2022), a dominating distribution whose error is of the
  square of the grid's width, where rounding up costs half a width per event.
- Masses are tilted by exp(tilt * loss) before the transform and back after it (an exponential
  change of measure). That centres the computation on the wanted epsilon, so the rounding error of
  the transform is a small part of delta even where delta is 1e-30.
- The transform is cyclic: sums outside the window come back inside it and are counted once more.
  What lies above the window is also added by Chernoff's bound, what lies above the atoms as it is.
- The transform's error is bounded frequency by frequency (`_transform_error`) and added to every
  mass.

What is asked of the data may depend on earlier results, how much noise each event has may not
(Zhu, Dong & Wang 2022, Theorem 10: dominating pairs compose adaptively).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dp_core.accounting.events import Event
from dp_core.accounting.losses import Atoms, Loss, Response, loss_of
from dp_core.privacy import Neighbours

THEOREM = (
    "privacy loss distribution of the discrete noise, every event fixed beforehand (composition of"
    " dominating pairs: Zhu, Dong & Wang 2022), rounded up"
)

MARGIN = 1e-11
"""Relative margin on every mass of every event; their arithmetic is good to about 1e-12."""

ROUNDING = 1e-14
"""Relative margin on sums of losses and on exponents."""

UNIT = 2.0**-53
"""Unit of rounding of a float."""

LARGEST_EXPONENT = 5000.0
"""Bound on tilt times loss, so that rounding leaves exponentials within `MARGIN`."""

INFLATION = (2e-5, 4e-4)
"""Largest part of its variance that a sum of losses gains by splitting between grid points.

Epsilon grows by half of it. The second is for more than `FEW` different events, for time.
"""

FEW = 50
"""Number of different events up to which the grid is as fine as one could wish."""

MANY = 2000
"""Number of different events from which on those nearly alike count as the worse of them."""

SMALLEST_DELTA = Fraction(1, 10**300)
"""Smaller ones leave the range of a float on the way."""

Parts = Sequence[tuple[Loss, int]]


def tightest_epsilon(events: Sequence[Event], neighbours: Neighbours, delta: Fraction) -> Fraction:
    """Return an epsilon at which a release is (epsilon, delta)-private, as small as is known.

    Args:
        events: All of the release. Their kinds and noise, in this order, were fixed beforehand.
        neighbours: Of the guarantee.
        delta: From 1e-300, below 1.

    Returns:
        Rounded up to 12 digits; 0 if nothing or very little was released. For less than ten events
        of Laplace noise it is the sum of their epsilons at any small delta.

    Raises:
        ValueError: if no loss distribution of an event is known (`loss_of`), or delta is outside
            its range.

    >>> from dp_core.accounting.events import GaussianEvent
    >>> table = GaussianEvent(Fraction(6), 1)
    >>> round(float(tightest_epsilon([table], "add-remove", Fraction("1e-9"))), 3)
    0.913
    """
    if not SMALLEST_DELTA <= delta < 1:
        raise ValueError("A privacy loss distribution is read at a delta from 1e-300, below 1.")
    parts = _parts(events, neighbours)
    if not parts:
        return Fraction(0)
    log_delta = _log(delta)
    reach = -log_delta + math.log(sum(count for _, count in parts)) + 36
    # The saddle point: there Chernoff's bound at the tilted mean is delta.
    tilt = _tilt(parts, reach, lambda tilt, log_moment, mean: log_moment - tilt * mean <= log_delta)
    for stretch in (1.0, 4.0, 16.0):
        sums = _compose(parts, tilt, reach, stretch=stretch)
        if sums.top >= 0 and sums.log_delta(sums.top) <= log_delta:
            break
    else:
        raise ValueError("The privacy loss of this release is too spread out to be summed up.")
    low, high = max(0.0, sums.bottom), sums.top
    if sums.log_delta(low) <= log_delta:
        high = low
    for _ in range(40):
        middle = (low + high) / 2
        if sums.log_delta(middle) <= log_delta:
            high = middle
        else:
            low = middle
    found = Fraction(0) if high == 0 else _up((high + sums.slack) * (1 + MARGIN))
    pure = _pure(events)
    return found if pure is None else min(found, pure)


def tightest_delta(events: Sequence[Event], neighbours: Neighbours, epsilon: Fraction) -> Fraction:
    """Return a delta at which a release is (epsilon, delta)-private, as small as is known.

    Args:
        events: All of the release. Their kinds and noise, in this order, were fixed beforehand.
        neighbours: Of the guarantee.
        epsilon: From 0.

    Returns:
        Rounded up to 12 digits, at most 1; 0 if purely private events add up to epsilon.

    Raises:
        ValueError: if no loss distribution of an event is known (`loss_of`), or epsilon is
            negative.
    """
    if epsilon < 0:
        raise ValueError("An epsilon is not negative.")
    parts = _parts(events, neighbours)
    pure = _pure(events)
    if pure is not None and pure <= epsilon:
        return Fraction(0)
    wanted = float(min(epsilon, Fraction(10**9))) * (1 - ROUNDING)
    reach = 740.0  # of the atoms; below e^-690 the answer is rounded up to that
    tilt = _tilt(parts, reach, lambda _tilt, _moment, mean: mean >= wanted)
    sums = _compose(parts, tilt, reach, at=wanted)
    if not sums.bottom <= wanted - sums.slack:
        return Fraction(1)
    log_delta = sums.log_delta(max(wanted - sums.slack, 0.0))
    return min(_up(math.exp(max(log_delta, -690.0)) * (1 + MARGIN)), Fraction(1))


@dataclass(frozen=True, slots=True)
class _Sums:
    """The composed privacy loss: tilted masses of its sums in a window.

    Attributes:
        losses: Ascending, shape (n,).
        masses: Upper bounds of tilted masses, shape (n,).
        tilt: The mass of a loss is `masses` times exp(log_factor - tilt * loss).
        log_factor: See tilt; its margins included.
        log_above: Logarithm of a bound on the probability of all that is not in the window above.
        slack: What to add to an epsilon for rounding of the losses.
    """

    losses: NDArray[np.float64]
    masses: NDArray[np.float64]
    tilt: float
    log_factor: float
    log_above: float
    slack: float

    @property
    def bottom(self) -> float:
        """Below it nothing can be read."""
        return float(self.losses[0])

    @property
    def top(self) -> float:
        return float(self.losses[-1])

    def log_delta(self, epsilon: float) -> float:
        """Return the logarithm of delta at an epsilon within the window, an upper bound."""
        start = int(np.searchsorted(self.losses, epsilon, side="right"))
        over = self.losses[start:] - epsilon
        summed = float((self.masses[start:] * np.exp(-self.tilt * over)) @ -np.expm1(-over))
        if summed <= 0:
            return self.log_above
        exponent = self.log_factor - self.tilt * epsilon + ROUNDING * self.tilt * abs(epsilon)
        return float(np.logaddexp(exponent + math.log(summed) + MARGIN, self.log_above))


def _parts(events: Sequence[Event], neighbours: Neighbours) -> list[tuple[Loss, int]]:
    """Return the different losses and how often each occurs; the events' order is of no account."""
    counted: Counter[Loss] = Counter()
    for event, times in Counter(events).items():
        loss, copies = loss_of(event, neighbours)
        counted[loss] += times * copies
    if len(counted) > MANY:
        fine, counted = counted, Counter()
        for loss, times in fine.items():
            counted[loss.coarser()] += times
    return sorted(counted.items(), key=lambda part: (repr(part[0]), part[1]))


def _tilt(parts: Parts, reach: float, enough: Callable[[float, float, float], bool]) -> float:
    """Return about the largest tilt that is not yet enough; any is sound, this one is precise.

    Args:
        parts: Losses and how often each occurs.
        reach: As for `Loss.atoms`.
        enough: Of a tilt, the logarithm of the sum's moment and the tilted mean; true from some
            tilt on.
    """
    largest = LARGEST_EXPONENT / max(loss.span(reach) for loss, _ in parts)
    only = all(isinstance(loss, Response) for loss, _ in parts)
    smallest = min(loss.spacing**2 for loss, _ in parts) / 1e6 if only else 0.0

    def beyond(tilt: float) -> bool:
        log_moment, mean, variance = _cumulants(parts, tilt)
        # With all tilted mass on the largest loss, more tilt would only amplify rounding.
        return variance < smallest or enough(tilt, log_moment, mean)

    if not beyond(largest):
        return largest
    low, high = math.log(largest) - 40, math.log(largest)
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (low, middle) if beyond(math.exp(middle)) else (middle, high)
    return math.exp(low)


def _cumulants(parts: Parts, tilt: float) -> tuple[float, float, float]:
    """Return log-moment, tilted mean and tilted variance of the sum."""
    each = [(count, *loss.cumulants(tilt)) for loss, count in parts]
    return (
        math.fsum(count * log_moment for count, log_moment, _, _ in each),
        math.fsum(count * mean for count, _, mean, _ in each),
        math.fsum(count * variance for count, _, _, variance in each),
    )


def _grid(parts: Parts, tilt: float, stretch: float) -> tuple[int, float, float]:
    """Return number of grid points, their distance, and the standard deviation of the tilted sum.

    The window is 40 standard deviations wide, and a few times the jumps of losses that have only
    few values. A lattice of the loss that matters most is met exactly where it is wide enough.
    """
    jumps = [loss.spacing for loss, _ in parts if loss.coarse]
    _, _, variance = _cumulants(parts, tilt)
    stddev = max(math.sqrt(variance), min(jumps, default=0.0) / 100)
    width = stretch * (40 * stddev + 8 * max(jumps, default=0.0))
    count = sum(count for _, count in parts)
    size, inflation = (2**16, INFLATION[0]) if len(parts) <= FEW else (2**14, INFLATION[1])
    while size < 2**20 and count * (width / size) ** 2 / 6 > inflation * stddev**2:
        size *= 2
    distance = width / size
    main = max(parts, key=lambda part: part[1] * part[0].cumulants(tilt)[2])[0].spacing
    if main >= distance:
        distance = main / math.floor(main / distance)
    return size, distance, stddev


def _compose(
    parts: Parts, tilt: float, reach: float, *, stretch: float = 1.0, at: float | None = None
) -> _Sums:
    """Return the distribution of the sum of all losses.

    Args:
        parts: Losses and how often each occurs.
        tilt: Exponent of the change of measure.
        reach: As for `Loss.atoms`.
        stretch: Widens the window.
        at: An epsilon that the window must hold.
    """
    size, grid, stddev = _grid(parts, tilt, stretch)
    steeper = tilt + 10 / stddev
    tolerance = 8 * math.log2(size) * UNIT
    product = np.ones(size // 2 + 1, dtype=np.complex128)
    log_bound, relative = np.zeros(size // 2 + 1), np.zeros(size // 2 + 1)
    offset = offsets = log_factor = log_factors = log_steeper = log_above_size = 0.0
    log_above, highest, slack, events = -math.inf, 0, 0.0, 0
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
        offsets += count * abs(atoms.offset)
        log_factor += count * log_norm
        log_factors += count * abs(log_norm)
        log_moment = points.log_moment(steeper)
        log_steeper += count * log_moment
        log_above_size += count * abs(log_moment)
        highest += count * (int(points.index.max()) + 1)
        log_above = float(np.logaddexp(log_above, atoms.log_beyond + math.log(count)))
        slack += count * loss.slack
        events += count
    _, mean, _ = _cumulants(parts, tilt)
    start = round((mean - offset) / grid) - size // 2
    if at is not None:
        start = min(start, math.floor((at - offset) / grid) - 8)
    if start + size <= highest:
        exponent = steeper * grid * (start + size)
        margin = events * MARGIN + ROUNDING * (log_above_size + abs(exponent))
        log_above = float(np.logaddexp(log_above, log_steeper - exponent + margin))
    error = _transform_error(np.exp(log_bound), relative, tolerance, size)
    sums = np.roll(np.fft.irfft(product, size), -(start % size))
    losses = offset + grid * np.arange(start, start + size, dtype=np.float64)
    furthest = max(abs(float(losses[0])), abs(float(losses[-1])))
    return _Sums(
        losses=losses,
        masses=np.maximum(sums, 0.0) + error,
        tilt=tilt,
        log_factor=log_factor
        + tilt * offset
        + events * MARGIN
        + ROUNDING * (log_factors + tilt * (offsets + furthest)),
        log_above=log_above,
        slack=slack + ROUNDING * (offsets + furthest),
    )


@dataclass(frozen=True, slots=True)
class _Points:
    """Atoms split between the grid points around them.

    Attributes:
        grid: Distance of the grid points.
        index: Grid point below each atom, counted from the offset.
        log_mass: Logarithm of each atom's mass.
        upper: Part of it that goes to the point above.
    """

    grid: float
    index: NDArray[np.int64]
    log_mass: NDArray[np.float64]
    upper: NDArray[np.float64]

    @staticmethod
    def of(atoms: Atoms, grid: float) -> _Points:
        position = atoms.relative / grid
        # Up by more than its rounding error: a loss may be moved up, never down.
        position = position + 16 * UNIT * np.abs(position)
        index = np.floor(position)
        upper = np.expm1(-(position - index) * grid) / math.expm1(-grid)
        return _Points(grid, index.astype(np.int64), atoms.log_mass, upper)

    def tilted(self, tilt: float, size: int) -> tuple[NDArray[np.float64], float]:
        """Return masses times exp(tilt * loss), scaled to sum to 1, and the scale's logarithm."""
        lower, upper, peak = self._masses(tilt)
        masses = np.bincount(self.index % size, lower, size)
        masses += np.bincount((self.index + 1) % size, upper, size)
        total = float(masses.sum())
        return masses / total, peak + math.log(total)

    def log_moment(self, tilt: float) -> float:
        """Return the logarithm of the mean of exp(tilt * loss), losses counted from the offset."""
        lower, upper, peak = self._masses(tilt)
        return peak + math.log(float(lower.sum() + upper.sum()))

    def _masses(self, tilt: float) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        logs = self.log_mass + tilt * self.grid * self.index
        peak = float(logs.max()) + tilt * self.grid
        lower = np.exp(logs - peak) * (1 - self.upper)
        return lower, np.exp(logs + tilt * self.grid - peak) * self.upper, peak


def _transform_error(
    bound: NDArray[np.float64], relative: NDArray[np.float64], tolerance: float, size: int
) -> float:
    """Return a bound on the rounding error of each mass after transform, product and inverse.

    A transform of `size` = 2^m non-negative numbers that sum to 1 adds each of them, times a factor
    of modulus 1, along a path of m additions and products. Each costs a relative error of less than
    8 units of rounding (Higham 2002, section 24.1, sqrt(5) for a product, 1 for the factor, 1 for
    the sum), so each frequency is off by at most `tolerance` = 8 m units. A product of factors of
    modulus at most a_i = |computed| + tolerance is then off by at most prod a_i times the sum of
    tolerance / a_i, 4 units more for each multiplication. The inverse takes the mean over all
    frequencies, and errs by `tolerance` of the mean modulus.

    Args:
        bound: prod a_i for the frequencies of a real transform, shape (size / 2 + 1,).
        relative: The sum, same shape.
        tolerance: Error of one frequency of one transform.
        size: Number of grid points.
    """
    each = bound * (relative + tolerance) * 1.01
    # All but the first and last frequency stand for two.
    return float(2 * each.sum() - each[0] - each[-1]) / size


def _power(values: NDArray[np.complex128], exponent: int) -> NDArray[np.complex128]:
    """Return a whole power, by multiplications only: their rounding error is known."""
    result = np.ones_like(values)
    square = values
    while exponent:
        if exponent & 1:
            result = result * square
        exponent >>= 1
        if exponent:
            square = square * square
    return result


def _pure(events: Sequence[Event]) -> Fraction | None:
    """Return the sum of the epsilons, None if an event has none."""
    total = Fraction(0)
    for event, times in Counter(events).items():
        epsilon = event.epsilon()
        if epsilon is None or event.own_delta() != 0:
            return None
        total += times * epsilon
    return total


def _log(value: Fraction) -> float:
    # A delta may be smaller than the smallest float.
    return math.log(value.numerator) - math.log(value.denominator)


def _up(value: float) -> Fraction:
    return Fraction(Decimal(value).normalize(Context(prec=12, rounding=ROUND_CEILING)))
