"""The threshold of a stability-based histogram: its delta, and the least threshold for a delta.

The histogram adds discrete Laplace noise Z of scale b to the count of each *observed* cell and
keeps the cells with count + Z >= T. Unobserved cells are never published. So a cell with a single
record, which is unobserved on the file without that record, must be kept with a very small
probability only. With a = e^(-1/b), that probability is

    P(1 + Z >= T) = a^(T - 1) / (1 + a)    for T >= 1,

and it is the whole delta of the histogram under both neighbouring relations. A person with up to k
rows may have all k in one cell without other records, or one in each of k such cells;
`kept_by_chance` covers both. `dp_core.kernel.cost.events.StabilityEvent` has the proofs.
"""

from __future__ import annotations

import math
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Literal

Form = Literal["sharp", "text", "algorithm"]
"""Formula for the threshold of continuous noise; see `continuous_threshold`."""

_PRECISE = Context(prec=60, Emin=MIN_EMIN, Emax=MAX_EMAX)
"""Decimal arithmetic whose operations, including `exp`, are exact to one unit of the 60th digit."""

_DIGITS = 20
"""Number of digits to which a probability is rounded up."""

_MARGIN = Decimal("1." + 40 * "0" + "1")
"""Safety factor, far larger than 60-digit errors and far smaller than the rounding up."""

_MOST = 2000
"""Largest exponent used; e^-2000 is an upper bound for larger ones and has few digits."""


def survival(scale: Fraction, threshold: int) -> Fraction:
    """Return an upper bound on the probability that a cell of one record is kept.

    The bound is the exact probability rounded up to 20 digits, in decimal arithmetic that gives the
    same result on every machine.

    Args:
        scale: Scale of the discrete Laplace noise, records; positive.
        threshold: Least noisy count that is kept, records; at least 1.

    Raises:
        ValueError: if an argument is outside its range.

    >>> float(survival(Fraction(4), 35))
    0.0001143851357313443
    """
    return kept_by_chance(scale, threshold, 1)


def kept_by_chance(scale: Fraction, threshold: int, rows: int) -> Fraction:
    """Return an upper bound on the probability that a cell with one unit's records only is kept.

    The bound holds for any distribution of the unit's records over such cells. It is the larger of
    two probabilities, rounded up to 20 digits: that of one cell with all k records, and k times
    that of a cell with one record.

    Args:
        scale: Scale of the discrete Laplace noise, records; positive.
        threshold: Least noisy count that is kept, records; at least `rows`.
        rows: Largest number of records of a unit (k), at least 1.

    Raises:
        ValueError: if an argument is outside its range.

    >>> [float(kept_by_chance(Fraction(scale), 60, 4)) for scale in (1, 4)]
    [3.495112756275616e-25, 8.832610335821661e-07]
    """
    if scale <= 0 or rows < 1 or threshold < rows:
        raise ValueError(
            f"The threshold must be at least {rows} and the scale positive, not {threshold} and"
            f" {scale}."
        )
    spread = _PRECISE.multiply(Decimal(rows), _power(Fraction(threshold - 1) / scale))
    passed = max(spread, _power(Fraction(threshold - rows) / scale))
    bound = _PRECISE.divide(passed, _PRECISE.add(Decimal(1), _power(1 / scale)))
    bound = _PRECISE.multiply(bound, _MARGIN)
    return Fraction(bound.normalize(Context(_DIGITS, ROUND_CEILING, MIN_EMIN, MAX_EMAX)))


def threshold_for(scale: Fraction, delta: Fraction, rows: int = 1) -> int:
    """Return the least threshold whose `kept_by_chance` is at most `delta`.

    Args:
        scale: Scale of the discrete Laplace noise, records; positive.
        delta: From 1e-800 to below 1.
        rows: Largest number of records of a unit; 1 by default.

    Raises:
        ValueError: if the scale or delta is outside its range.

    >>> threshold_for(Fraction(4), Fraction(1, 10_000))
    36
    """
    if scale <= 0 or not Fraction(1, 10**800) <= delta < 1:
        raise ValueError(
            f"A threshold needs a positive scale and a delta from 1e-800 to below 1, not {scale}"
            f" and {delta}."
        )
    log_delta = math.log(delta.numerator) - math.log(delta.denominator)
    rate = float(1 / scale)
    reach = (-log_delta - math.log1p(math.exp(-rate))) * float(scale)
    found = math.floor(max(1 + reach + math.log(rows) * float(scale), rows + reach, rows))
    # Floating point gives a starting value; the exact bound decides.
    while kept_by_chance(scale, found, rows) > delta:
        found += 1
    while found > rows and kept_by_chance(scale, found - 1, rows) <= delta:
        found -= 1
    return found


def log_one_plus_inverse(value: Fraction) -> Fraction:
    """Return log(1 + 1/value), rounded up to 20 digits.

    Args:
        value: From 1e-20 to 1e20.

    Raises:
        ValueError: if the value is outside that range.

    >>> float(log_one_plus_inverse(Fraction(1)))
    0.6931471805599453
    """
    # The logarithm loses as many digits as its argument shares with 1: 20 of the 60 at most.
    if not Fraction(1, 10**20) <= value <= 10**20:
        raise ValueError(f"The value must be from 1e-20 to 1e20, not {value}.")
    ratio = _PRECISE.divide(Decimal(value.denominator), Decimal(value.numerator))
    found = _PRECISE.multiply(
        _PRECISE.ln(_PRECISE.add(Decimal(1), ratio)), Decimal("1.0" + 17 * "0" + "1")
    )
    return Fraction(found.normalize(Context(_DIGITS, ROUND_CEILING, MIN_EMIN, MAX_EMAX)))


def continuous_threshold(scale: float, delta: float, form: Form) -> float:
    """Return the threshold of continuous Laplace noise, records.

    With Laplace noise of scale b a cell of one record reaches t = 1 + b log(c/delta) with
    probability delta / (2c).

    Args:
        scale: Scale of the noise, records: sensitivity (2 if a record is replaced) over epsilon.
        delta: Largest allowed probability that the cell is kept.
        form: `sharp` (c = 1/2) uses delta exactly. `text` (c = 1) and `algorithm` (c = 2) are the
            formulas of Li, Karwa, Slavkovic & Steorts (2018), section 2.2 and Algorithm 1; they use
            a half and a quarter of delta.

    >>> forms = ("algorithm", "text", "sharp")
    >>> [round(continuous_threshold(4.0, 1e-4, form), 6) for form in forms]
    [40.61395, 37.841361, 35.068773]
    """
    factor = {"sharp": 0.5, "text": 1.0, "algorithm": 2.0}[form]
    return 1 + scale * math.log(factor / delta)


def _power(exponent: Fraction) -> Decimal:
    """Return e^-exponent to 60 digits; an exponent above `_MOST` counts as `_MOST`."""
    least = min(exponent, Fraction(_MOST))
    quotient = _PRECISE.divide(Decimal(least.numerator), Decimal(least.denominator))
    return _PRECISE.exp(quotient.copy_negate())
