"""Exact numbers from untrusted text."""

from __future__ import annotations

import re
from fractions import Fraction

_EXACT = re.compile(r"-?[0-9]{1,2000}(/[0-9]{1,2000})?", re.ASCII)


def exact_fraction(text: object) -> Fraction:
    """Return an exact fraction from its text; refuse numbers that would take too long to expand.

    Raises:
        ValueError: if it is neither a whole number nor two of them with `/` between.
        ZeroDivisionError: if the denominator is 0.

    >>> exact_fraction("-3/4")
    Fraction(-3, 4)
    """
    if not isinstance(text, str) or not _EXACT.fullmatch(text):
        raise ValueError("not an exact fraction")
    return Fraction(text)
