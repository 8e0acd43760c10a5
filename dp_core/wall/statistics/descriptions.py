"""Checked values of a statistic's JSON description, which may come from an untrusted receipt.

Every function raises ValueError for a value of another type. In particular, True is not accepted as
a whole number, although `bool` is a subclass of `int` in Python.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

Described = TypeVar("Described")


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


def fields_json(question: Any) -> dict[str, Any]:
    """Return the fields of a dataclass, with lists instead of tuples."""
    each = dataclasses.fields(question)
    return {field.name: _listed(getattr(question, field.name)) for field in each}


def fields_from_json(kind: type[Described], values: Mapping[str, Any]) -> Described:
    """Return the dataclass whose fields `fields_json` returned.

    Args:
        kind: A dataclass with fields of texts, whole numbers, and tuples of such.
        values: Its fields, and maybe a `name`.

    Raises:
        ValueError: if a field is missing or unknown, or a value has another type.
    """
    hints = get_type_hints(kind)
    fields = [field.name for field in dataclasses.fields(cast(Any, kind))]
    if {*values} - {"name"} != {*fields}:
        raise ValueError(f"Expected {', '.join(fields)}.")
    return kind(**{name: _of_type(hints[name], values[name]) for name in fields})


def _listed(value: Any) -> Any:
    return [_listed(each) for each in value] if isinstance(value, tuple) else value


def _of_type(hint: Any, value: Any) -> Any:
    inner = get_args(hint)
    if get_origin(hint) is tuple:
        if type(value) is not list:
            raise ValueError("Expected a list.")
        kinds = inner[:1] * len(value) if inner[-1:] == (...,) else inner
        return tuple(_of_type(*pair) for pair in zip(kinds, value, strict=True))
    if get_origin(hint) is UnionType:
        if value is None and NoneType in inner:
            return None
        return _of_type(next(each for each in inner if each is not NoneType), value)
    # privacy: True is 1 to Python, and a float may equal a whole number.
    if type(value) is not (str if get_origin(hint) is Literal else hint):
        raise ValueError(f"Expected {hint}.")
    return value
