"""Exact numbers from text that nobody vouches for."""

from __future__ import annotations

import re
from fractions import Fraction

_EXACT = re.compile(r"-?[0-9]{1,2000}(/[0-9]{1,2000})?", re.ASCII)


def exact_fraction(text: object) -> Fraction:
    """Return an exact fraction from its text; refuses what would take for ever to expand.

    Raises:
        ValueError: if it is not whole numbers in digits, with or without a `/` between two.
        ZeroDivisionError: if the second is 0.

    >>> exact_fraction("-3/4")
    Fraction(-3, 4)
    """
    if not isinstance(text, str) or not _EXACT.fullmatch(text):
        raise ValueError("not an exact fraction")
    return Fraction(text)
