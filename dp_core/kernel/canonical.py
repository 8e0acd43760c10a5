"""Canonical JSON: equal values give equal bytes; and plain values that nobody can change."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from functools import lru_cache, wraps
from typing import Any, Never, TypeVar, TypeVarTuple

# Created once, because a check of the ledger encodes several values for each entry.
_ENCODER = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
)

Asked = TypeVarTuple("Asked")
Found = TypeVar("Found")


def canonical_json(value: object) -> bytes:
    """Return plain values as UTF-8 JSON with sorted keys and no spaces.

    >>> canonical_json({"b": 1, "a": [True, None]})
    b'{"a":[true,null],"b":1}'
    """
    return _ENCODER.encode(value).encode()


def digest(value: object) -> str:
    """Return the SHA-256 of the canonical form, in hex."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def remembered(most: int) -> Callable[[Callable[[*Asked], Found]], Callable[[*Asked], Found]]:
    """Return the decorator that keeps the `most` latest results of a function of plain values.

    Results are shared. They are found by the JSON of the arguments, and computed from that text
    alone, so lists take the place of tuples.
    """

    def decorated(compute: Callable[[*Asked], Found]) -> Callable[[*Asked], Found]:
        @lru_cache(maxsize=most)
        def of_text(text: bytes) -> Found:
            return compute(*json.loads(text))

        @wraps(compute)
        def of_values(*asked: *Asked) -> Found:
            # privacy: an object may claim to equal another, and would then be found in its place.
            return of_text(canonical_json(asked))

        vars(of_values)["cache_clear"] = of_text.cache_clear
        return of_values

    return decorated


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
