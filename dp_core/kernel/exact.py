"""Exact numbers from untrusted text."""

from __future__ import annotations

import re
from fractions import Fraction

_EXACT = re.compile(r"-?[0-9]{1,2000}(/[0-9]{1,2000})?", re.ASCII)


def exact_fraction(text: object) -> Fraction:
    """Return an exact fraction from its text.

    Args:
        text: A whole number, or two of them with `/` between; each of at most 2,000 digits, so
            that untrusted text cannot take long to convert.

    Raises:
        ValueError: if the text has another form.
        ZeroDivisionError: if the denominator is 0.

    >>> exact_fraction("-3/4")
    Fraction(-3, 4)
    """
    if not isinstance(text, str) or not _EXACT.fullmatch(text):
        raise ValueError("not an exact fraction")
    return Fraction(text)


def plain_fraction(value: object) -> Fraction:
    """Return a copy of an exact fraction.

    Raises:
        ValueError: if it is of another type, also of a subclass.
    """
    if type(value) is not Fraction:
        raise ValueError(f"Expected an exact fraction, not {type(value).__name__}.")
    return Fraction(*map(int, value.as_integer_ratio()))
