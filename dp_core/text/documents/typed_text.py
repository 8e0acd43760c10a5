"""Numbers, dates and texts as typed by a person, and texts as shown in messages."""

from __future__ import annotations

import datetime
import re
from fractions import Fraction

from dp_core.errors import BadInput

MAX_NUMBER_LENGTH = 100
MAX_EXPONENT = 300
SMALLEST_EPSILON = "1e-12"
"""Smallest epsilon of a release, question or account; its Laplace noise exceeds any count."""
LARGEST_EPSILON = 1_000_000
MAX_EPSILON_DIGITS = 30

_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE]([+-]?[0-9]+))?", re.ASCII)
_RATIO = re.compile(r"([+-]?[0-9]+)\s*/\s*([0-9]+)", re.ASCII)
_ISO_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)


class ExponentOutOfRange(ValueError):
    """A number whose exponent is beyond `MAX_EXPONENT`."""


def parse_fraction(text: str) -> Fraction:
    """Return the exact value of a decimal or a ratio.

    Raises:
        ValueError: if it is neither; the message says how to write it.

    >>> parse_fraction("1.0e-9"), parse_fraction("1/3")
    (Fraction(1, 1000000000), Fraction(1, 3))
    """
    stripped = text.strip()
    if len(stripped) > MAX_NUMBER_LENGTH:
        raise ValueError(
            f"{quote(stripped)} is longer than {MAX_NUMBER_LENGTH} characters; shorten it."
        )
    if match := _RATIO.fullmatch(stripped):
        if int(match[2]) == 0:
            raise ValueError(f"{quote(stripped)} divides by zero; write another number.")
        return Fraction(int(match[1]), int(match[2]))
    match = _DECIMAL.fullmatch(stripped)
    if not match:
        raise ValueError(
            f"{quote(stripped)} is not a number; write one with a decimal point and no unit,"
            " such as 0.5, 1e-9 or 1/3."
        )
    if match[1] and abs(int(match[1])) > MAX_EXPONENT:
        raise ExponentOutOfRange(
            f"{quote(stripped)} is too large or too small; exponents go from -{MAX_EXPONENT}"
            f" to {MAX_EXPONENT}."
        )
    return Fraction(stripped)


def is_number(text: str) -> bool:
    """Return whether a text is a number that `parse_fraction` reads."""
    try:
        parse_fraction(text)
    except ValueError:
        return False
    return True


def parse_date(text: str) -> datetime.date:
    """Return the day of an ISO date.

    Raises:
        ValueError: if it is not one; the message says how to write it.

    >>> parse_date("1900-01-01")
    datetime.date(1900, 1, 1)
    """
    stripped = text.strip()
    if not _ISO_DATE.fullmatch(stripped):
        raise ValueError(
            f"{quote(stripped)} is not a date; write year-month-day, such as 2026-12-31."
        )
    try:
        return datetime.date.fromisoformat(stripped)
    except ValueError:
        raise ValueError(f"{quote(stripped)} is not a day of the calendar; correct it.") from None


def printable(text: str) -> str:
    """Return the text with control characters escaped, so that a message stays one line."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def quote(text: str) -> str:
    """Return the text in quotes for a message, shortened to 60 characters."""
    return repr(text if len(text) <= 60 else text[:57] + "...")


def utf8_text(raw: bytes, name: str) -> str:
    """Return the text of a file; a byte order mark is dropped.

    Args:
        raw: Content of the file.
        name: Its name, for the message.

    Raises:
        BadInput: if it is not UTF-8; the message names the line.
    """
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise BadInput(
            f"{name}, line {line}: is not UTF-8 text; save it as UTF-8.", row="data-damaged"
        ) from None


def exact_number(
    option: str, text: str, *, positive: bool = False, below_one: bool = False
) -> Fraction:
    """Return the exact value of a number given to an option.

    Args:
        option: Name of the option, for the message.
        text: The number as typed.
        positive: Whether 0 is refused, False by default; negative numbers always are.
        below_one: Whether 1 and more is refused; False by default.

    Raises:
        BadInput: if it is not a number in that range.
    """
    try:
        value = parse_fraction(text)
    except ValueError as error:
        raise BadInput(f"{option}: {error}") from None
    if value < 0 or (positive and value == 0):
        raise BadInput(f"{option} must be {'above 0' if positive else '0 or more'}, not {text}.")
    if below_one and value >= 1:
        raise BadInput(f"{option} must be below 1, not {text}; usual values are 1e-6 or less.")
    return value


def exact_epsilon(
    given: Fraction | str | float, *, what: str = "", maximum: int = LARGEST_EPSILON
) -> Fraction:
    """Return the exact value of an epsilon; `str` of it can be read again.

    Args:
        given: The number as typed, or its value.
        what: What it is given as, to begin the message; "" by default.
        maximum: Largest value that is allowed; `LARGEST_EPSILON` by default.

    Raises:
        BadInput: if it is no number, is out of range, or has more than `MAX_EPSILON_DIGITS` digits.
    """
    text = f"{float(given):g}" if isinstance(given, Fraction) else str(given).strip()
    fault = f"{quote(text)} must be from {SMALLEST_EPSILON} to {maximum:,}."
    try:
        value = given if isinstance(given, Fraction) else parse_fraction(text)
        within = Fraction(SMALLEST_EPSILON) <= value <= maximum
        if within and value.denominator <= 10**MAX_EPSILON_DIGITS:
            return value
        if within:
            fault = f"{quote(text)} has more than {MAX_EPSILON_DIGITS} digits; round it down."
    except ExponentOutOfRange:
        pass
    except ValueError as error:
        fault = str(error)
    raise BadInput(f"{what} {fault}".lstrip())


def plain_text(option: str, text: str) -> str:
    """Return the text if it can be stored as UTF-8.

    Raises:
        BadInput: if it was typed in another encoding, so that it contains lone surrogates.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadInput(
            f"{option} {text!r:.60} is not UTF-8 text; type it again in UTF-8."
        ) from None
    return text
