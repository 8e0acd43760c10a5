"""Plain JSON values that nobody can change, for what several readers share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Never


def frozen(value: object) -> object:
    """Return a copy of plain JSON values whose dictionaries and lists refuse every change.

    It equals `value` and is written as the same JSON. A copy or a pickle of it is plain again.

    >>> frozen({"a": [1]}) == {"a": [1]}
    True
    """
    if isinstance(value, Mapping):
        return _Dict({name: frozen(each) for name, each in value.items()})
    return _List(map(frozen, value)) if isinstance(value, list | tuple) else value


def _refuse(*_: object, **__: object) -> Never:
    raise TypeError("Frozen values are never changed.")


class _Dict(dict[str, Any]):
    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


class _List(list[Any]):
    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)


for _kind in (_Dict, _List):
    for _name in {*vars(_kind.__base__)} & {
        *("__setitem__", "__delitem__", "__ior__", "__iadd__", "__imul__", "clear", "pop"),
        *("popitem", "setdefault", "update", "append", "extend", "insert", "remove", "reverse"),
        "sort",
    }:
        setattr(_kind, _name, _refuse)
