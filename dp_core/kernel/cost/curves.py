"""Conversions between (epsilon, delta) and the additive parameters, rounded to the safe side.

The additive parameters are rho of zCDP and mu^2/2 of the Gaussian curve. All functions work on
parameters and never on data. They use floating point with a safety margin that is far larger than
its error and too small to matter in practice.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

MARGIN = 1e-11
"""Relative safety margin of every conversion; the arithmetic is accurate to about 1e-14."""

SMOOTHING = 2
"""Variance c that the smoothing argument of `gaussian_limit` subtracts, records squared."""

MOST_CELLS = 2**31
"""Cells that one unit can change in one release, as the slack of `gaussian_limit` assumes.

A unit changes one or two cells of each table for each of its rows (at most
`dp_core.kernel.document.MOST_ROWS`; a household for each of its pair rows, at most 20 x 19, however
many shares they have), all scores of a vector, and all entries of an interaction (at most 2^20 in
each set, `dp_core.kernel.questions.linear_questions.MOST_ENTRIES`). The total is far below this
bound in every release.
"""

TINIEST = 1e-290
"""Floating point loses digits below this; smaller probabilities are rounded to the safe side."""


def zcdp_epsilon(rho: Fraction, delta: Fraction) -> Fraction:
    """Return the epsilon that rho-zCDP implies at delta, rounded up.

    Source: Canonne, Kamath & Steinke (2020), Proposition 12. Every alpha gives a valid epsilon; the
    function searches for the smallest.

    Args:
        rho: At least 0.
        delta: Between 0 and 1, exclusive.

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

    Source: Canonne, Kamath & Steinke (2020), Proposition 12, solved for rho.

    Args:
        epsilon: Positive.
        delta: Between 0 and 1, exclusive.

    >>> round(float(zcdp_limit(Fraction(1), Fraction("1e-9"))), 7)
    0.0149731
    """
    e, log_delta = float(epsilon), _log(delta)

    def negative_rho(log_excess: float) -> float:
        excess = math.exp(log_excess)
        alpha = 1.0 + excess
        return -(e + math.log1p(1.0 / excess) + (log_delta + math.log(alpha)) / excess) / alpha

    return _down(-negative_rho(_minimiser(negative_rho)) * (1 - MARGIN))


def gaussian_limit(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the largest mu^2/2 such that discrete Gaussian noise is (epsilon, delta)-private.

    Let the events have scales s_i and squared L2 sensitivities D_i^2. Any adaptive sequence whose
    sum of D_i^2 / (2 (s_i^2 - SMOOTHING)) is at most this limit is (epsilon, delta)-private:

    - Continuous Gaussian noise composes adaptively as one Gaussian mechanism, also if noise levels
      depend on earlier results, as long as the total of D_i^2 / s_i^2 was fixed beforehand (Smith &
      Thakurta 2022; Koskela, Tobaben & Honkela 2023). Its curve (`_delta_at_most`) is exact, unlike
      the conversion of zCDP, and therefore gives less noise.
    - The discrete Gaussian of parameter s^2 around an integer x equals, up to a factor, a
      continuous Gaussian of variance s^2 - c around x followed by a draw z from the discrete
      Gaussian of parameter c around that real number. The second step is post-processing. Poisson
      summation bounds its normalising sum by sqrt(2 pi c) (1 +- t), t = 2 e^(-2 pi^2 c) (1 + tiny).
      So the factor is within (1 +- t) on each cell, and N cells cost at most
      N log((1 + t)/(1 - t)) of epsilon and a factor e^(N t) of delta. A cell with equal counts on
      both neighbours has equal noise on both and costs nothing, so N counts only the cells that one
      unit changes. With c = 2 and N = 2^31 the cost is 6.2e-8 of epsilon, which is subtracted here.

    Args:
        epsilon: Positive.
        delta: Positive and below 1.

    Returns:
        Rounded down to 12 digits; 0 if epsilon or delta is too small for any noise.
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
    """Return an upper bound on the delta at epsilon of a Gaussian mechanism.

    Balle & Wang (2018), Theorem 8, with mu the L2 sensitivity over the standard deviation of the
    noise: Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu), and floating-point errors.
    The two terms nearly cancel for a small epsilon. The relative error of each is a few units in
    the last place times the square of its argument (the condition number of erfc), plus the error
    of the exponent.
    """
    if mu == 0:
        return 0.0
    far = mu / 2 + epsilon / mu
    first, second = _phi(mu / 2 - epsilon / mu), _phi(-far)
    error = 1e-15 * (4 + far**2 + epsilon)
    subtracted = math.exp(epsilon + math.log(second)) if second > TINIEST else 0.0
    return first * (1 + error) - subtracted * (1 - error)


def gaussian_epsilon(half_mu_squared: Fraction, delta: Fraction) -> Fraction:
    """Return the smallest epsilon whose `gaussian_limit` at delta is at least a sum, rounded up.

    Args:
        half_mu_squared: Sum of the events' costs on the smoothed Gaussian curve, at least 0.
        delta: Positive and below 1.

    Raises:
        OverflowError: if epsilon would exceed about 1e6.
    """
    if half_mu_squared == 0:
        return Fraction(0)
    low, high = 0.0, 1.0
    while gaussian_limit(Fraction(high), delta) < half_mu_squared:
        low, high = high, 2 * high
        if high > 1e6:
            raise OverflowError("The noise is too small for a useful epsilon at this delta.")
    for _ in range(60):
        middle = (low + high) / 2
        if gaussian_limit(Fraction(middle), delta) < half_mu_squared:
            low = middle
        else:
            high = middle
    return _up(high)


def _minimiser(function: object) -> float:
    """Return the minimiser of a function of log(alpha - 1), by a grid and golden section."""
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
