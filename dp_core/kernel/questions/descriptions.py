"""Checked values of a statistic's JSON description, which may come from an untrusted receipt.

Every function raises ValueError for a value of another type. In particular, True is not accepted as
a whole number, although `bool` is a subclass of `int` in Python.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

import numpy as np

from dp_core.kernel.canonical import digest
from dp_core.kernel.exact import plain_fraction
from dp_core.kernel.questions.whole_numbers import frozen

Described = TypeVar("Described")


def whole(document: Mapping[str, Any], key: str, *, least: int = 0) -> int:
    """Return a whole number of at least `least`."""
    value = document[key]
    # privacy: too small a grid or weight would give too small a sensitivity.
    if type(value) is not int or value < least:
        raise ValueError(f"{key!r} must be a whole number of at least {least}.")
    return value


def fields_json(question: Any) -> dict[str, Any]:
    """Return the fields of a dataclass, with lists instead of tuples; arrays stay arrays."""
    return {field.name: _plain(getattr(question, field.name)) for field in _fields(question)}


def fields_from_json(kind: type[Described], values: Mapping[str, Any]) -> Described:
    """Return the dataclass whose fields `fields_json` returned.

    Args:
        kind: A dataclass with fields of texts, whole numbers, fractions, truth values, tuples,
            arrays of 64-bit whole numbers, which are copied, and dataclasses of such or with an own
            `from_json`.
        values: Its fields, and maybe the `name` of a question.

    Raises:
        ValueError: if a field is missing or unknown, or a value has another type.
    """
    hints = get_type_hints(kind)
    fields = [field.name for field in dataclasses.fields(cast(Any, kind))]
    if not isinstance(values, Mapping) or {*values} | {"name"} != {*fields, "name"}:
        raise ValueError(f"Expected {', '.join(fields)}.")
    return kind(**{name: of_type(hints[name], values[name]) for name in fields})


def content_digest(question: object) -> str:
    """Return the SHA-256 of all that a question holds, in hex: equal for equal questions only.

    Args:
        question: A dataclass of texts, numbers, fractions, truth values, tuples, arrays of 64-bit
            whole numbers, and dataclasses of such.
    """
    held = {each.name: _content(getattr(question, each.name)) for each in _fields(question)}
    return digest([type(question).__name__, held])


def _fields(question: object) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(cast(Any, question))


def _content(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        held = hashlib.sha256(np.ascontiguousarray(value, dtype="<i8").tobytes())
        return {"shape": value.shape, "sha256": held.hexdigest()}
    if dataclasses.is_dataclass(value):
        return _digest_of(_Itself(value))
    if isinstance(value, tuple):
        return [*map(_content, value)]
    return str(value) if isinstance(value, Fraction) else value


def rebuilt(kind: type[Described], question: object) -> Described:
    """Return the dataclass with the fields of another object, as read from their plain values.

    Raises:
        ValueError: as `fields_from_json` (or another error of its kind).
    """
    hints = get_type_hints(kind)
    values = {
        field.name: getattr(question, field.name) for field in dataclasses.fields(cast(Any, kind))
    }
    return kind(
        **{
            name: _reread(hints[name], _Itself(value))
            if dataclasses.is_dataclass(value)
            else of_type(hints[name], _plain(value))
            for name, value in values.items()
        }
    )


class _Itself:
    """An object that equals only itself, whatever it claims."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and other.value is self.value


@lru_cache(maxsize=8)
def _digest_of(of: _Itself) -> str:
    # Methods ask about the same list of queries in every round, which the kernel rebuilt once.
    return content_digest(of.value)


@lru_cache(maxsize=8)
def _reread(hint: Any, of: _Itself) -> Any:
    # Methods ask about the same list of queries in every round.
    return of_type(hint, _plain(of.value))


def of_type(hint: Any, value: Any) -> Any:
    """Return a value of a field of this type from its JSON; see `fields_from_json`."""
    inner = get_args(hint)
    if get_origin(hint) is tuple:
        if type(value) is not list:
            raise ValueError("Expected a list.")
        # privacy: by identity, because the class of a class may define what equals it.
        alike = inner[0] in (int, str) and all(type(each) is inner[0] for each in value)
        if alike and inner[1:] == (...,):
            return tuple(value)
        kinds = inner[:1] * len(value) if inner[-1:] == (...,) else inner
        return tuple(of_type(*pair) for pair in zip(kinds, value, strict=True))
    if get_origin(hint) is UnionType:
        if value is None and NoneType in inner:
            return None
        kinds = tuple(each for each in inner if each is not NoneType)
        if len(kinds) > 1 and isinstance(value, Mapping):
            # Of several dataclasses it is the one with this name, or with these fields.
            kinds = (*(each for each in kinds if _fits(each, value)), *kinds)
        return of_type(kinds[0], value)
    if get_origin(hint) is np.ndarray:
        # privacy: a copy that nobody else can change between the charge and the answer.
        if type(value) is not np.ndarray or value.dtype != np.int64:
            raise ValueError("Expected an array of 64-bit whole numbers.")
        return frozen(value.copy())
    if dataclasses.is_dataclass(hint):
        own = getattr(hint, "from_json", None)
        return own(value) if own else fields_from_json(cast(Any, hint), value)
    literal = get_origin(hint) is Literal
    # privacy: True is 1 to Python, and a float may equal a whole number.
    if type(value) is not (str if literal else hint) or (literal and value not in inner):
        raise ValueError(f"Expected {hint}.")
    return plain_fraction(value) if hint is Fraction else value


def _fits(kind: Any, value: Mapping[str, Any]) -> bool:
    return getattr(kind, "NAME", "") == value.get("name") or {*get_type_hints(kind)} == {*value}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [*map(_plain, value)]
    if isinstance(value, np.integer):
        return int(value)
    if dataclasses.is_dataclass(value):
        return value.to_json() if hasattr(value, "to_json") else fields_json(value)
    return value
