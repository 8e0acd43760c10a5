"""The threshold of a stability-based histogram: what it fails with, and the least one that does.

The histogram adds discrete Laplace noise Z of scale b to the count of each *observed* cell and
keeps those with count + Z >= T. Nothing is said of any other cell, so a cell of one record, which
the file without that record does not have, must hardly ever be kept. With a = e^(-1/b),

    P(1 + Z >= T) = a^(T - 1) / (1 + a)    for T >= 1,

and that is the whole delta of the histogram under both neighbouring relations. A person of up to k
rows may have k of them in one cell of their own, or one in each of k: `kept_by_chance` (the proofs
are at `dp_core.wall.accounting.events.StabilityEvent`).
"""

from __future__ import annotations

import math
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Literal

Form = Literal["sharp", "text", "algorithm"]
"""Which formula for the threshold of continuous noise."""

_PRECISE = Context(prec=60, Emin=MIN_EMIN, Emax=MAX_EMAX)
"""Results of its operations, and of its `exp`, are good to one unit of the 60th digit."""

_DIGITS = 20
"""Digits to which a probability is rounded up."""

_MARGIN = Decimal("1." + 40 * "0" + "1")
"""Far more than the errors of the 60-digit arithmetic, and far less than the rounding up."""

_MOST = 2000
"""A larger exponent counts as this: e^-2000 bounds what is smaller, and has few digits."""


def survival(scale: Fraction, threshold: int) -> Fraction:
    """Return an upper bound on the probability that a cell of one record is kept.

    Exact but for rounding up to 20 digits, in software arithmetic that is the same everywhere.

    Args:
        scale: Of the discrete Laplace noise, positive.
        threshold: Least noisy count that is kept, from 1.

    >>> float(survival(Fraction(4), 35))
    0.0001143851357313443
    """
    return kept_by_chance(scale, threshold, 1)


def kept_by_chance(scale: Fraction, threshold: int, rows: int) -> Fraction:
    """Return an upper bound on the probability that a cell of one unit's records alone is kept.

    Of a unit of at most `rows` records, however they are spread over cells: the larger of that of
    one cell of them all, and of the sum of that of as many cells of one each. Rounded up to 20
    digits.

    Args:
        scale: Of the discrete Laplace noise, positive.
        threshold: Least noisy count that is kept, from `rows`.
        rows: Most records of a unit, k.

    >>> [float(kept_by_chance(Fraction(scale), 60, 4)) for scale in (1, 4)]
    [3.495112756275616e-25, 8.832610335821661e-07]
    """
    if scale <= 0 or rows < 1 or threshold < rows:
        raise ValueError(
            f"A threshold is from {rows} and a scale positive, got {threshold}, {scale}."
        )
    spread = _PRECISE.multiply(Decimal(rows), _power(Fraction(threshold - 1) / scale))
    passed = max(spread, _power(Fraction(threshold - rows) / scale))
    bound = _PRECISE.divide(passed, _PRECISE.add(Decimal(1), _power(1 / scale)))
    bound = _PRECISE.multiply(bound, _MARGIN)
    return Fraction(bound.normalize(Context(_DIGITS, ROUND_CEILING, MIN_EMIN, MAX_EMAX)))


def threshold_for(scale: Fraction, delta: Fraction, rows: int = 1) -> int:
    """Return the least threshold at which a cell of one unit alone is kept at most with `delta`.

    Args:
        scale: Of the discrete Laplace noise, positive.
        delta: Positive.
        rows: Most records of a unit.

    Raises:
        ValueError: if no threshold does, or delta is below 1e-800.

    >>> threshold_for(Fraction(4), Fraction(1, 10_000))
    36
    """
    if scale <= 0 or not Fraction(1, 10**800) <= delta < 1:
        raise ValueError(f"A threshold needs a scale and a delta, got {scale} and {delta}.")
    log_delta = math.log(delta.numerator) - math.log(delta.denominator)
    rate = float(1 / scale)
    reach = (-log_delta - math.log1p(math.exp(-rate))) * float(scale)
    found = math.floor(max(1 + reach + math.log(rows) * float(scale), rows + reach, rows))
    # Floating point only guesses; the bound itself decides.
    while kept_by_chance(scale, found, rows) > delta:
        found += 1
    while found > rows and kept_by_chance(scale, found - 1, rows) <= delta:
        found -= 1
    return found


def log_one_plus_inverse(value: Fraction) -> Fraction:
    """Return log(1 + 1/value), rounded up to 20 digits.

    >>> float(log_one_plus_inverse(Fraction(1)))
    0.6931471805599453
    """
    # A logarithm near 1 loses as many digits as its argument agrees with 1; 60 leave enough.
    if not Fraction(1, 10**20) <= value <= 10**20:
        raise ValueError(f"The logarithm is known for values from 1e-20 to 1e20, not {value}.")
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
        scale: Of the noise: the sensitivity (2 if a record is replaced) over epsilon.
        delta: What the table may fail with.
        form: `sharp`, c = 1/2, spends delta exactly. `text` and `algorithm`, c = 1 and 2, are those
            of Li, Karwa, Slavkovic & Steorts (2018), section 2.2 and Algorithm 1; they spend a half
            and a quarter of it.

    >>> forms = ("algorithm", "text", "sharp")
    >>> [round(continuous_threshold(4.0, 1e-4, form), 6) for form in forms]
    [40.61395, 37.841361, 35.068773]
    """
    factor = {"sharp": 0.5, "text": 1.0, "algorithm": 2.0}[form]
    return 1 + scale * math.log(factor / delta)


def _power(exponent: Fraction) -> Decimal:
    """Return e^-exponent to 60 digits, of an exponent of at most `_MOST`."""
    least = min(exponent, Fraction(_MOST))
    quotient = _PRECISE.divide(Decimal(least.numerator), Decimal(least.denominator))
    return _PRECISE.exp(quotient.copy_negate())
