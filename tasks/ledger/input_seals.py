"""What shows that an input was recorded by a holder of the home's key, and is unchanged since."""

from __future__ import annotations

import hashlib
import hmac

from dp_core.documents.canonical import canonical_json
from dp_core.wall.ledger.entries import Entry


def seal(key: bytes, reservation: int | None, release: str, account: str, input_hash: str) -> str:
    """Return the seal of an input, in hex.

    Args:
        key: The home's confidential key.
        reservation: Position of the reservation that is bound to the input.
        release: Its name.
        account: The account it is of.
        input_hash: Keyed hash of the input.
    """
    message = canonical_json([reservation, release, account, input_hash])
    return hmac.new(key, message, hashlib.sha256).hexdigest()


def is_sealed(entry: Entry, key: bytes) -> bool:
    """Return whether an entry of kind `input` is as it was sealed under a key."""
    receipt, sealed = entry.receipt, str(entry.body.get("seal"))
    expected = seal(key, entry.reservation, receipt.release, receipt.account, str(entry.about))
    return hmac.compare_digest(expected, sealed)
