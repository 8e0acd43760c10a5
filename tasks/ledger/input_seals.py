"""Seals of inputs: proofs that an entry of kind `input` was recorded under the home's key."""

from __future__ import annotations

import hashlib
import hmac

from dp_core.kernel.canonical import canonical_json
from dp_core.kernel.ledger.entries import Entry


def seal(key: bytes, reservation: int | None, release: str, account: str, input_hash: str) -> str:
    """Return the seal of an input, in hex.

    Args:
        key: The home's confidential key.
        reservation: Position of the reservation that is bound to the input.
        release: Name of its release.
        account: Name of its account.
        input_hash: Keyed hash of the input.
    """
    message = canonical_json([reservation, release, account, input_hash])
    return hmac.new(key, message, hashlib.sha256).hexdigest()


def is_sealed(entry: Entry, key: bytes) -> bool:
    """Return whether the seal in an entry of kind `input` is valid under the home's key."""
    receipt, sealed = entry.receipt, str(entry.body.get("seal"))
    expected = seal(key, entry.reservation, receipt.release, receipt.account, str(entry.about))
    return hmac.compare_digest(expected, sealed)
