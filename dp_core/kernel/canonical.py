"""Canonical JSON: equal values give equal bytes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import lru_cache, update_wrapper
from typing import Generic, TypeVar, TypeVarTuple

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


class Remembered(Generic[*Asked, Found]):
    """A function of plain values whose latest results are kept, by the JSON of its arguments.

    What is kept is computed from that text alone, so lists take the place of tuples.
    """

    def __init__(self, compute: Callable[[*Asked], Found], most: int) -> None:
        """Remember the `most` latest results of a function; they are shared."""

        def of_text(text: bytes) -> Found:
            found: Found = compute(*json.loads(text))
            return found

        self._of_text = lru_cache(maxsize=most)(of_text)
        self.cache_clear = self._of_text.cache_clear
        update_wrapper(self, compute)

    def __call__(self, *asked: *Asked) -> Found:
        # privacy: an object may claim to equal another, and would then be found in its place.
        return self._of_text(canonical_json(asked))


def remembered(most: int) -> Callable[[Callable[[*Asked], Found]], Remembered[*Asked, Found]]:
    """Return the decorator that keeps the `most` latest results of a function; see `Remembered`."""
    return lambda compute: Remembered(compute, most)
