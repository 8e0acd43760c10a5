"""Numbers with a decimal comma or a thousands separator, which YAML reads as several values.

Each function returns what to write instead, or the empty text if nothing is likely.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

_WHOLE = re.compile(r"[+-]?[0-9]+", re.ASCII)
_START = re.compile(r"[+-]?[0-9]{1,3}(?:\.[0-9]{3})*|[+-]?[0-9]+", re.ASCII)
_PIECE = re.compile(r"[0-9]+(?:[eE][+-]?[0-9]+)?", re.ASCII)
_DECIMAL = re.compile(r"[+-]?[0-9]+(?:[.,][0-9]+)?", re.ASCII)
MOST_SEARCHED = 24
"""Longest list of values that is searched for decimals; the search may double with each value."""


def cut_numbers(entries: Sequence[tuple[str, str | None]], *, least: int = 1) -> str:
    """Return how to write the numbers that commas divide in a mapping in braces.

    Args:
        entries: Keys and values in their order, with repeated keys; None for no value.
        least: Smallest number of divided numbers for an answer; 1 by default.

    >>> cut_numbers([("min", "1"), ("2", None), ("max", "2"), ("2", None)])
    '{min: 1.2, max: 2.2} with decimal points'
    >>> cut_numbers([("min", "1"), ("000", None), ("max", "2"), ("000", None), ("bins", "5")])
    '{min: 1000, max: 2000} without thousands separators'
    >>> cut_numbers([("min", "1.234"), ("5", None)]), cut_numbers([("type", "number")])
    ('{min: 1234.5} with decimal points', '')
    """
    numbers: dict[str, list[str]] = {}
    last = ""
    for key, value in entries:
        if value is not None:
            last = key if _START.fullmatch(value.strip()) else ""
            numbers.pop(last, None)
            if last:
                numbers[last] = [value.strip()]
        elif last and _PIECE.fullmatch(key):
            numbers[last].append(key)
        else:
            last = ""
    cut = {key: pieces for key, pieces in numbers.items() if len(pieces) > 1}
    if not cut or len(cut) < least:
        return ""
    grouped = all(
        re.fullmatch("[+-]?[0-9]{1,3}", pieces[0])
        and all(re.fullmatch("[0-9]{3}", piece) for piece in pieces[1:])
        for pieces in cut.values()
    )
    if not grouped and any(len(pieces) > 2 for pieces in cut.values()):
        return ""
    whole = {key: "".join(pieces) for key, pieces in cut.items()}
    pointed_ones = {key: f"{one[0].replace('.', '')}.{one[1]}" for key, one in cut.items()}
    texts = [f"{key}: {text}" for key, text in (whole if grouped else pointed_ones).items()]
    how = "without thousands separators" if grouped else "with decimal points"
    return f"{{{', '.join(texts)}}} {how}"


def parted(texts: Sequence[str]) -> str:
    """Return a list that was separated by semicolons, with commas and decimal points.

    Args:
        texts: The items as YAML divides them, at commas.

    >>> parted(["0", "5; 2", "5; 10"]), parted(["0; 5; 10"]), parted(["a; b"])
    ('[0.5, 2.5, 10]', '[0, 5, 10]', '[a, b]')
    """
    parts = [part.strip() for part in ",".join(texts).split(";")]
    return f"[{', '.join(pointed(part) for part in parts if part)}]"


def decimal_list(texts: Sequence[str]) -> str:
    """Return the increasing list that was meant if commas are decimal commas.

    Args:
        texts: The items as YAML divides them, at commas.

    Returns:
        The list; the empty text if the items increase, or fewer than two of them would be decimals.

    >>> decimal_list(["0", "5", "2", "5", "10"]), decimal_list(["0", "0", "0", "5"])
    ('[0.5, 2.5, 10]', '[0.0, 0.5]')
    >>> decimal_list(["0", "5", "10"]), decimal_list(["0", "10", "5"])
    ('', '')
    """
    if len(texts) > MOST_SEARCHED or not all(map(_WHOLE.fullmatch, texts)):
        return ""
    if all(int(low) < int(high) for low, high in pairwise(texts)):
        return ""
    found = _increasing(list(texts), None) or []
    decimals = len(texts) - len(found)
    return f"[{', '.join(found)}]" if found and decimals > 1 else ""


def pointed(text: str) -> str:
    """Return a number with a decimal point; another text as it is.

    >>> pointed("0,5"), pointed("1.5"), pointed("a, b")
    ('0.5', '1.5', 'a, b')
    """
    return text.replace(",", ".") if _DECIMAL.fullmatch(text) else text


def _increasing(texts: list[str], after: Fraction | None) -> list[str] | None:
    """Return the first division into increasing numbers, decimals before whole ones."""
    if not texts:
        return []
    for size in (2, 1):
        if len(texts) < size or (size == 2 and not texts[1].isdecimal()):
            continue
        text = ".".join(texts[:size])
        if after is not None and Fraction(text) <= after:
            continue
        rest = _increasing(texts[size:], Fraction(text))
        if rest is not None:
            return [text, *rest]
    return None
