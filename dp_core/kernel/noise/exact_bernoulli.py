"""Exact events of probability exp(-x): floats decide only where they cannot be wrong.

A uniform number is drawn bit by bit and compared with exp(-x). Its first 64 bits and a float of
exp(-x) decide nearly always. Where both are closer than the error that the float may have, which
happens with probability below 1e-11, further bits are drawn and compared with exp(-x) in as many
digits as it takes. So the probability of each event is exp(-x), not a float near it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.noise.system_randomness import WORD_BITS, words

FLOAT_ERROR = 2.0**-38
"""Largest error of exp(-x) in floats, if x has an error of at most 2^-40 where x is up to 64.

Where x is above 64, exp(-x) is below 1e-27, and so is its float, whatever the error of x. NumPy's
exponential is within 4 units in the last place, 2^-50.
"""


def occurs(rates: NDArray[np.float64], exact_rate: Callable[[int], Fraction]) -> NDArray[np.bool_]:
    """Return which of independent events occur, each with probability exp(-rate) exactly.

    Args:
        rates: The rates as floats, at least 0, shape (events,). A rate up to 64 is within 2^-40 of
            the exact one; a larger one stands for an exact rate above 63.
        exact_rate: Returns the exact rate of an event by its index.

    Returns:
        Shape (events,).
    """
    first = words(len(rates))
    uniform = first * 2.0**-WORD_BITS
    chances = np.exp(-rates)
    found: NDArray[np.bool_] = uniform < chances
    for index in np.flatnonzero(np.abs(uniform - chances) <= FLOAT_ERROR):
        found[index] = is_below(int(first[index]), exact_rate(int(index)))
    return found


def is_below(first: int, rate: Fraction) -> bool:
    """Return whether a uniform number that begins with a word is below exp(-rate).

    Args:
        first: Its first 64 bits; further ones are drawn as needed.
        rate: At least 0.
    """
    number, bits = first, WORD_BITS
    while True:
        low, high = exp_bounds(rate, bits)
        # The uniform number lies between number and number + 1, in units of 2^-bits.
        if number + 1 <= low:
            return True
        if number >= high:
            return False
        number, bits = number << WORD_BITS | int(words(1)[0]), bits + WORD_BITS


def exp_bounds(rate: Fraction, bits: int) -> tuple[int, int]:
    """Return whole numbers between which exp(-rate) lies, in units of 2^-bits.

    >>> exp_bounds(Fraction(1), 10)  # exp(-1) = 376.7 / 1024
    (376, 377)
    >>> exp_bounds(Fraction(0), 10)
    (1024, 1024)
    """
    if rate == 0:
        return 1 << bits, 1 << bits
    if rate >= bits:  # exp(-bits) is below 2^-bits
        return 0, 1
    # Digits of 2^bits, of the whole part of the rate, and some to spare.
    digits = math.ceil(bits * math.log10(2)) + len(str(math.ceil(rate))) + 10
    nearest = Context(prec=digits, Emin=MIN_EMIN, Emax=MAX_EMAX)
    # `Decimal.exp` is correctly rounded, so it is off by less than one unit of its last digit.
    least = _quotient(-rate, digits, ROUND_FLOOR).exp(nearest).next_minus(nearest)
    most = _quotient(-rate, digits, ROUND_CEILING).exp(nearest).next_plus(nearest)
    unit = 1 << bits
    return math.floor(Fraction(least) * unit), math.ceil(Fraction(most) * unit)


def _quotient(value: Fraction, digits: int, rounding: str) -> Decimal:
    context = Context(prec=digits, rounding=rounding, Emin=MIN_EMIN, Emax=MAX_EMAX)
    return context.divide(Decimal(value.numerator), Decimal(value.denominator))
