"""Bin edges of a column, as exact numbers.

A bin contains its lower edge and not its upper one. So the edges of integers and dates end one step
(1, a day) after the largest value. The edges of a number end at the largest value, which the last
bin contains, too.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dp_core.text.documents.node import Node
from dp_core.text.documents.typed_text import parse_fraction, shown

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
    """Refuse edges that are equal, or infinite, as 32-bit floats, which values are rounded to."""
    short = _in_32_bits(edges)
    with np.errstate(invalid="ignore"):
        same = np.flatnonzero(~(np.diff(short) > 0) | ~np.isfinite(short[1:]))
    if same.size:
        raise node.error(
            f"the edges near {exact_text(edges[same[0]])} are equal as 32-bit floats, of about"
            " seven digits, which numbers are rounded to; make fewer and wider bins, or use the"
            " type integer in a smaller unit."
        )


def check_missing(codes: tuple[str, ...], edges: tuple[Fraction, ...], node: Node) -> None:
    """Refuse codes for missing that are no edge of a number, but equal one as 32-bit floats."""
    for code in codes:
        with contextlib.suppress(ValueError):
            value = parse_fraction(code)
            if value not in edges and _in_32_bits((value,))[0] in _in_32_bits(edges):
                raise node.error(
                    f"the missing value {shown(code)} equals a bin edge or bound as a 32-bit float,"
                    " of about seven digits, which numbers are rounded to; change the edge."
                )


def _in_32_bits(numbers: tuple[Fraction, ...]) -> NDArray[np.float32]:
    with np.errstate(over="ignore", under="ignore"):
        return np.array([float(number) for number in numbers], np.float64).astype(np.float32)


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
