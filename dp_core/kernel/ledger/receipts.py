"""Receipts: the publishable part of the ledger's entries.

Receipts do not depend on a database, so a bundle can be verified without any other file.
`dp_core.kernel.ledger.entries` chains them over the whole ledger.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, cast, get_args

from dp_core.kernel.canonical import canonical_json, frozen

START = "0" * 64
"""The predecessor's hash in the first receipt, and the first entry, of a chain."""

AccountKind = Literal["open", "raise", "restate", "close"]
"""Kinds of entries that define an account."""

EntryKind = Literal[
    "ledger",
    "adopt",
    "key",
    AccountKind,
    "approve",
    "withdraw",
    "open-desk",
    "close-desk",
    "reserve",
    "input",
    "charge",
    "attempt",
    "commit",
    "hold",
    "look",
    "decide",
    "examine",
    "verdict",
    "allow-retry",
    "declare-public",
    "refuse-public",
    "settle",
]
"""Kinds of entries; docs/ledger.md describes each of them. A `match` over them ends in
`assert_never`, so that the type checker reports every place that must handle a new kind."""

KINDS: tuple[EntryKind, ...] = get_args(EntryKind)

UNKNOWN_KIND = "is of a kind that this version does not know; update dp-release"

PUBLISHED: tuple[EntryKind, ...] = ("reserve", "charge", "commit", "settle")
"""Kinds whose receipts are published in a bundle, numbered 1, 2, 3, ... within a reservation."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """The content of one entry of the ledger, which is never changed or removed.

    Attributes:
        number: Number within its reservation, from 1; 0 for a receipt that is not published.
        kind: An `EntryKind`. Only the kinds in `PUBLISHED` are published.
        account: Account it concerns; empty without one.
        release: Release it concerns; empty without one.
        at: Day in UTC, ISO 8601. A time of day would reveal how long the stages took.
        body: Plain JSON values that depend on the kind, frozen (`dp_core.kernel.canonical.frozen`);
            costs are exact fractions as text.
        previous: Hash of the preceding receipt of the same reservation, or `START`.
        hash: SHA-256 of the fields above, in hex.
    """

    number: int
    kind: str
    account: str
    release: str
    at: str
    body: Mapping[str, object]
    previous: str
    hash: str

    def __post_init__(self) -> None:
        # privacy: rules, policies and the chain read one receipt, and none may change it.
        object.__setattr__(self, "body", frozen(self.body))

    def to_json(self) -> dict[str, object]:
        """Return the receipt as plain JSON values."""
        return {
            "number": self.number,
            "kind": self.kind,
            "account": self.account,
            "release": self.release,
            "at": self.at,
            "body": dict(self.body),
            "previous": self.previous,
            "hash": self.hash,
        }


def known_kind(text: str) -> EntryKind | None:
    """Return the kind of entries with a name; None if this version does not know it."""
    return cast(EntryKind, text) if text in KINDS else None


def make_receipt(
    *,
    number: int,
    kind: str,
    account: str,
    release: str,
    at: str,
    body: Mapping[str, object],
    previous: str,
) -> Receipt:
    """Return a receipt with its hash; for the arguments see `Receipt`."""
    draft = Receipt(number, kind, account, release, at, body, previous, "")
    return replace(draft, hash=receipt_hash(draft))


def receipt_hash(receipt: Receipt) -> str:
    """Return the SHA-256 of all fields of a receipt except its hash, in hex."""
    values = receipt.to_json()
    del values["hash"]
    return hashlib.sha256(canonical_json(values)).hexdigest()
