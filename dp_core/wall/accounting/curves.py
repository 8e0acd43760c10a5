"""Conversions between (epsilon, delta) and the parameters that add up, rounded to the safe side.

Everything here is a statement about parameters, not data; floating point is used with a margin
far above its error and far below anything one could notice.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

MARGIN = 1e-11
"""Relative safety margin of every conversion; the arithmetic itself is good to about 1e-14."""

SMOOTHING = 2
"""Variance lent to the rounding argument of `gaussian_limit`, records squared."""

MOST_CELLS = 2**31
"""Cells that one unit may change in one release; the rounding argument's slack is for this many.

One or two of each table for every row of it (at most `dp_core.schema.privacy.MOST_ROWS`), all of a
vector of scores, and all entries of an interaction, of which each set has 2^20 at most
(`dp_core.wall.statistics.interactions.MOST_ENTRIES`): far below, whatever a release measures.
"""

TINIEST = 1e-290
"""Below it floating point loses digits; a smaller probability is rounded to the safe side."""


def zcdp_epsilon(rho: Fraction, delta: Fraction) -> Fraction:
    """Return the epsilon that rho-zCDP implies at delta, rounded up.

    Canonne, Kamath & Steinke (2020), Proposition 12; every alpha is valid, the best is searched.

    >>> round(float(zcdp_epsilon(Fraction("0.0149731"), Fraction("1e-9"))), 4)
    1.0
    """
    if rho == 0:
        return Fraction(0)
    r, log_delta = float(rho), _log(delta)

    def epsilon(log_excess: float) -> float:
        excess = math.exp(log_excess)  # alpha - 1
        alpha = 1.0 + excess
        return alpha * r - math.log1p(1.0 / excess) - (log_delta + math.log(alpha)) / excess

    best = epsilon(_minimiser(epsilon))
    return _up(max(best, 0.0) * (1 + MARGIN) + 1e-300)


def zcdp_limit(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the largest rho that implies (epsilon, delta), rounded down to 12 digits.

    >>> round(float(zcdp_limit(Fraction(1), Fraction("1e-9"))), 7)
    0.0149731
    """
    e, log_delta = float(epsilon), _log(delta)

    def negative_rho(log_excess: float) -> float:
        excess = math.exp(log_excess)
        alpha = 1.0 + excess
        return -(e + math.log1p(1.0 / excess) + (log_delta + math.log(alpha)) / excess) / alpha

    return _down(-negative_rho(_minimiser(negative_rho)) * (1 - MARGIN))


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return the delta at epsilon of a Gaussian mechanism with sensitivity over sigma `mu`.

    Balle & Wang (2018), Theorem 8: Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu).
    """
    if mu == 0:
        return 0.0
    first = _phi(mu / 2 - epsilon / mu)
    second = _phi(-mu / 2 - epsilon / mu)
    # The second term can underflow while e^epsilon overflows; multiply in logarithms.
    return first - (math.exp(epsilon + math.log(second)) if second > 0 else 0.0)


def gaussian_limit(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the largest mu^2/2 such that discrete Gaussian noise is (epsilon, delta)-private.

    For events of variance s_i^2 and squared L2 sensitivity D_i^2, any adaptive sequence with
    sum of D_i^2 / (2 (s_i^2 - SMOOTHING)) at most this limit is (epsilon, delta)-private. Why:

    - Continuous Gaussian noise composes adaptively, with noise levels that may depend on what was
      seen, as one Gaussian mechanism as long as the total of D_i^2 / s_i^2 was fixed beforehand
      (Smith & Thakurta 2022; Koskela, Tobaben & Honkela 2023). Its curve is exact
      (`gaussian_delta`), which zCDP's is not: that is the gain.
    - The discrete Gaussian of variance s^2 around an integer x is, up to a factor, a continuous
      Gaussian of variance s^2 - c around x followed by a draw z from the discrete Gaussian of
      variance c around that real number, which is post-processing. Poisson summation bounds the
      normalising sum of the second step by sqrt(2 pi c) (1 +- t), t = 2 e^(-2 pi^2 c) (1 + tiny),
      so the factor is within (1 +- t) on each cell, and N cells cost at most
      N log((1 + t)/(1 - t)) of epsilon and a factor e^(N t) of delta. A cell with the same count
      on both neighbours has the same noise on both and costs nothing, so N counts only cells
      that one unit changes. With c = 2 and N = 2^31 that is 6.2e-8 of epsilon, taken off here.
    """
    smooth = 2.0 * math.exp(-2 * math.pi**2 * SMOOTHING) * (1 + 1e-9)
    room = float(epsilon) - 2.0 * smooth * MOST_CELLS * (1 + 1e-9)
    target = float(delta) * math.exp(-smooth * MOST_CELLS) * (1 - 1e-9)
    if room <= 0 or target < TINIEST:
        return Fraction(0)
    low, high = 0.0, 1.0
    while _delta_at_most(high, room) < target:
        low, high = high, 2 * high
        if high > 1e6:
            break
    for _ in range(200):
        middle = (low + high) / 2
        if _delta_at_most(middle, room) <= target:
            low = middle
        else:
            high = middle
    return _down(low**2 / 2 * (1 - 1e-9))


def _delta_at_most(mu: float, epsilon: float) -> float:
    """Return an upper bound on `gaussian_delta` that floating point cannot break.

    The two terms nearly cancel for a small epsilon. Each is off by some units in the last place,
    times the square of its argument (the condition number of erfc), times the exponent.
    """
    if mu == 0:
        return 0.0
    far = mu / 2 + epsilon / mu
    first, second = _phi(mu / 2 - epsilon / mu), _phi(-far)
    error = 1e-15 * (4 + far**2 + epsilon)
    subtracted = math.exp(epsilon + math.log(second)) if second > TINIEST else 0.0
    return first * (1 + error) - subtracted * (1 - error)


def gaussian_epsilon(half_mu_squared: Fraction, delta: Fraction) -> Fraction:
    """Return the epsilon at delta of `gaussian_limit`'s composition, rounded up."""
    if half_mu_squared == 0:
        return Fraction(0)
    low, high = 0.0, 1.0
    while gaussian_limit(Fraction(high), delta) < half_mu_squared:
        low, high = high, 2 * high
        if high > 1e6:
            raise OverflowError("No useful epsilon: the noise is too small for this delta.")
    for _ in range(60):
        middle = (low + high) / 2
        if gaussian_limit(Fraction(middle), delta) < half_mu_squared:
            low = middle
        else:
            high = middle
    return _up(high)


def _minimiser(function: object) -> float:
    """Return where a function of log(alpha - 1) is smallest: grid, then golden section."""
    grid = [step / 4 for step in range(-120, 121)]
    best = min(range(len(grid)), key=lambda index: function(grid[index]))  # type: ignore[operator]
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    golden = (math.sqrt(5) - 1) / 2
    for _ in range(100):
        left, right = high - golden * (high - low), low + golden * (high - low)
        if function(left) < function(right):  # type: ignore[operator]
            high = right
        else:
            low = left
    return (low + high) / 2


def _log(value: Fraction) -> float:
    # A delta may be smaller than the smallest float.
    return math.log(value.numerator) - math.log(value.denominator)


def _phi(x: float) -> float:
    return math.erfc(-x / math.sqrt(2)) / 2


def _up(value: float) -> Fraction:
    return Fraction(Decimal(value).normalize(Context(prec=12, rounding=ROUND_CEILING)))


def _down(value: float) -> Fraction:
    if value <= 0:
        return Fraction(0)
    return Fraction(Decimal(value).normalize(Context(prec=12, rounding=ROUND_FLOOR)))
