"""Canonical JSON: equal values give equal bytes."""

from __future__ import annotations

import hashlib
import json

# Created once, because a check of the ledger encodes several values for each entry.
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
