"""Finds the types of columns: each module of this folder defines one as `TYPE`."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import TypeAlias

from dp_core.schema.column_types import __path__ as _FOLDER
from dp_core.schema.column_types.column_type import ColumnType, ValueType

Kind: TypeAlias = str
"""Word of a type."""
_SHARED = ("column_type", "registry")
"""Modules of the folder that are no types."""


@cache
def words() -> tuple[str, ...]:
    """Return the words of all types: those with levels, then numbers, then those of own texts.

    >>> words()[:4]
    ('category', 'ordinal', 'integer', 'number')
    """
    return tuple(_types())


def column_type(word: str) -> ColumnType:
    """Return a type by its word in a schema.

    Raises:
        KeyError: if there is none.
    """
    return _types()[word]


def value_types() -> tuple[ValueType, ...]:
    """Return the types whose values are counted in bins."""
    return tuple(each for each in _types().values() if isinstance(each, ValueType))


def types_with_texts() -> tuple[ValueType, ...]:
    """Return the types whose values have texts of their own (`ColumnType.own_texts`)."""
    return tuple(each for each in value_types() if each.own_texts)


def type_with_texts(word: str) -> ValueType | None:
    """Return the type of a word if its values have texts of their own; otherwise None."""
    return next((each for each in types_with_texts() if each.word == word), None)


def typed_words() -> str:
    """Return the words of all types as a sentence lists them.

    >>> typed_words()  # doctest: +ELLIPSIS
    'category, ordinal, integer, number... or ...'
    """
    return f"{', '.join(words()[:-1])} or {words()[-1]}"


@cache
def _types() -> dict[str, ColumnType]:
    found = [
        importlib.import_module(f"{__package__}.{each.name}")
        for each in pkgutil.iter_modules(_FOLDER)
        if each.name not in _SHARED
    ]
    types: list[ColumnType] = [module.TYPE for module in found]
    order = sorted(types, key=lambda each: (not each.levels, each.own_texts, each.word))
    return {each.word: each for each in order}
