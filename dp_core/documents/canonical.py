"""One byte string for the same plain values, everywhere."""

from __future__ import annotations

import hashlib
import json

# Made once: a ledger's check writes several for each of its entries.
_ENCODER = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
)


def canonical_json(value: object) -> bytes:
    """Return plain values as UTF-8 JSON with sorted keys and no spaces.

    >>> canonical_json({"b": 1, "a": [True, None]})
    b'{"a":[true,null],"b":1}'
    """
    return _ENCODER.encode(value).encode()


def digest(value: object) -> str:
    """Return the SHA-256 of the canonical form, in hex."""
    return hashlib.sha256(canonical_json(value)).hexdigest()
