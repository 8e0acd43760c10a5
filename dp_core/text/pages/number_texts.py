"""Counts, estimates, margins, probabilities and degrees of freedom as texts."""

from __future__ import annotations

import math
from datetime import date
from decimal import Decimal
from fractions import Fraction


def plural(count: int, word: str) -> str:
    """Return a count of things.

    >>> plural(1, "entry"), plural(1200, "release")
    ('1 entry', '1,200 releases')
    """
    words = f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"
    return f"{count:,} {word if count == 1 else words}"


def number(value: float | Fraction | str) -> str:
    """Return a number with four significant digits; an exact one may be a text.

    >>> number(0.5), number(1e-9), number("1/3")
    ('0.5', '1e-09', '0.3333')
    """
    return f"{float(Fraction(value) if isinstance(value, str) else value):.4g}"


def level_text(level: float) -> str:
    """Return a confidence level in percent with all its digits: no level is `100 %`.

    >>> level_text(0.95), level_text(0.5), level_text(0.999999999999)
    ('95 %', '50 %', '99.9999999999 %')
    """
    return f"{(100 * Decimal(repr(level))).normalize():f} %"


def cell_text(value: str | int | float | Fraction | date | None) -> str:
    """Return what stands in a cell of a table.

    >>> cell_text("1/3"), cell_text(12345), cell_text(1 / 3), cell_text(None)
    ('1/3', '12,345', '0.3333', '')
    """
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, int):
        return f"{value:,}"
    return number(value) if isinstance(value, float | Fraction) else value.isoformat()


def within(half_width: float) -> float:
    """Return a half width with two significant digits, or in whole records."""
    return float(f"{half_width:.2g}") if half_width < 100 else float(round(half_width))


def percentage(part: int, whole: int) -> str:
    """Return a share in percent, rounded down: `100 %` only for all.

    >>> percentage(2, 3), percentage(1999, 2000), percentage(5, 5), percentage(1, 10**6)
    ('66.6 %', '99.9 %', '100 %', 'less than 0.1 %')
    """
    if part == whole:
        return "100 %"
    tenths = 1000 * part // whole
    if part and not tenths:
        return "less than 0.1 %"
    return f"{tenths // 10}.{tenths % 10} %"


def four_digits(value: float) -> str:
    """Return a number with four digits, for a table of results.

    >>> four_digits(0.123456), four_digits(-12.3456), four_digits(123456.7), four_digits(1.2345e-6)
    ('0.1235', '-12.35', '123457', '1.234e-06')
    >>> four_digits(0.0123), four_digits(-0.00123456)
    ('0.0123', '-0.001235')
    """
    if value == 0:
        return "0"
    if abs(value) >= 1e7 or abs(value) < 1e-2:
        return f"{value:.4g}"
    whole = len(str(int(abs(value))))
    return f"{value:.{max(0, 4 - (whole if abs(value) >= 1 else 0))}f}"


def degrees(value: float | None) -> str:
    """Return degrees of freedom; None is infinite."""
    if value is None or value >= 1e6:
        return "∞"
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def probability(value: float, equals: str = "") -> str:
    """Return a p value.

    >>> probability(0.0432), probability(1e-9)
    ('0.043', '< 0.001')
    """
    return "< 0.001" if value < 0.0005 else f"{equals}{value:.3f}"


def decimals(margin: float) -> int:
    """Return the number of decimals that show a margin with two significant digits.

    >>> decimals(123.0), decimals(4.56), decimals(0.0123), decimals(0.0)
    (0, 1, 3, 2)
    """
    if margin <= 0 or not math.isfinite(margin):
        return 2
    return min(max(1 - math.floor(math.log10(margin)), 0), 9)
