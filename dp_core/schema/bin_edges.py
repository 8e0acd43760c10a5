"""Bin edges of a column, as exact numbers.

A bin contains its lower edge and not its upper one. So the edges of integers and dates end one step
(1, a day) after the largest value. The edges of a number end at the largest value, which the last
bin contains, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

from dp_core.text.documents.node import Node

if TYPE_CHECKING:
    pass

MAX_CODES = 1_000_000  # of a column; a release of so many areas has been made
VALUES_WITHOUT_BINS = 100
MAX_INTEGER = 10**18  # within 64 bits, with room for one more
USUAL_BINS = 20
"""Bins of a draft."""


def exact_text(value: Fraction) -> str:
    """Return the shortest exact text: a decimal of at most 20 digits if there is one, or a ratio.

    >>> exact_text(Fraction(1, 8)), exact_text(Fraction(1, 3)), exact_text(Fraction(-7))
    ('0.125', '1/3', '-7')
    """
    if value.denominator == 1:
        return str(value.numerator)
    for digits in range(1, 21):
        scaled = value * 10**digits
        if scaled.denominator == 1:
            sign = "-" if scaled < 0 else ""
            whole, part = divmod(abs(scaled.numerator), 10**digits)
            return f"{sign}{whole}.{part:0{digits}d}"
    return str(value)


def check_distinct(edges: tuple[Fraction, ...], node: Node) -> None:
    """Refuse edges that are equal as the 64-bit floats of a data file."""
    for low, high in pairwise(edges):
        if float(low) == float(high):
            raise node.error(
                f"the edges near {exact_text(low)} are equal in floating point; make fewer and"
                " wider bins."
            )


def bin_count(node: Node) -> int:
    """Return the number of bins that a schema states."""
    return node.integer(minimum=1, maximum=MAX_CODES)


def common_step(numbers: Iterable[Fraction]) -> Fraction:
    """Return the largest number that divides all of these; 0 if all are 0."""
    listed = list(numbers)
    denominator = math.lcm(*(each.denominator for each in listed))
    return Fraction(math.gcd(*(int(each * denominator) for each in listed)), denominator)


def empty_bin(edges: tuple[Fraction, ...], decimals: int) -> tuple[Fraction, Fraction] | None:
    """Return the first bin that contains no number with `decimals` decimals; None without any."""
    grid = 10**decimals
    last = len(edges) - 2
    for code, (low, high) in enumerate(pairwise(edges)):
        smallest = Fraction(math.ceil(low * grid), grid)
        if smallest > high or (smallest == high and code < last):
            return low, high
    return None
