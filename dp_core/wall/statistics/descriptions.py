"""Checked values of a statistic's JSON description, which may come from an untrusted receipt.

Every function raises ValueError for a value of another type. In particular, True is not accepted as
a whole number, although `bool` is a subclass of `int` in Python.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def whole(document: Mapping[str, Any], key: str, *, least: int = 0) -> int:
    """Return a whole number of at least `least`."""
    value = document[key]
    # privacy: too small a grid or weight would give too small a sensitivity.
    if type(value) is not int or value < least:
        raise ValueError(f"{key!r} must be a whole number of at least {least}.")
    return value


def wholes(document: Any) -> tuple[int, ...]:
    """Return a list of whole numbers."""
    if not isinstance(document, list) or any(type(number) is not int for number in document):
        raise ValueError("Expected a list of whole numbers.")
    return tuple(document)


def names(document: Any) -> tuple[str, ...]:
    """Return a list of column names."""
    if not isinstance(document, list) or any(type(name) is not str for name in document):
        raise ValueError("Expected a list of column names.")
    return tuple(document)


def typed(document: Mapping[str, Any], kinds: Mapping[str, type]) -> dict[str, Any]:
    """Return the values of a description with exactly these keys, of exactly these types."""
    if set(document) != set(kinds) or any(type(document[key]) is not kinds[key] for key in kinds):
        raise ValueError(f"Expected {', '.join(kinds)}.")
    return dict(document)
