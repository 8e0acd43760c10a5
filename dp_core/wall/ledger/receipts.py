"""Receipts: what the ledger records, in the form that anyone can check.

A receipt knows no database, so that a bundle can be verified with nothing but itself. How receipts
are chained over the whole ledger is in `dp_core.wall.ledger.entries`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

from dp_core.documents.canonical import canonical_json

START = "0" * 64
"""What the first of a chain names as the one before it."""

AccountKind = Literal["open", "raise", "restate", "close"]
"""Kinds that say what an account is."""

EntryKind = Literal[
    "ledger",
    "key",
    AccountKind,
    "approve",
    "withdraw",
    "reserve",
    "input",
    "charge",
    "attempt",
    "commit",
    "hold",
    "look",
    "decide",
    "settle",
]
"""Kinds of entries; what each says is in docs/ledger.md. A `match` over them ends in
`assert_never`, so that the type checker names every place that a new one concerns."""

KINDS: tuple[EntryKind, ...] = get_args(EntryKind)

UNKNOWN_KIND = "is of a kind that this version does not know; update dp-release"

PUBLISHED: tuple[EntryKind, ...] = ("reserve", "charge", "commit", "settle")
"""Kinds that a bundle carries: those of the reservation that paid, numbered 1, 2, 3, ..."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What one entry of the ledger says; never changed, never removed.

    Attributes:
        number: 1, 2, 3, ... within its reservation; 0 for what is not published.
        kind: `reserve`, `charge`, `commit` or `settle` of a release; `input`, `attempt`, `hold`,
            `look` and `decide` stay in the house; the rest is about accounts, plans, keys and the
            ledger.
        account: Account it concerns, empty where it concerns none.
        release: Release it concerns, empty where it concerns none.
        at: Day in UTC, ISO 8601: a time of day would say how long the stages took.
        body: Plain values; costs are exact fractions as text.
        previous: Hash of the receipt before it of the same reservation.
        hash: Of all of the above.
    """

    number: int
    kind: str
    account: str
    release: str
    at: str
    body: Mapping[str, object]
    previous: str
    hash: str

    def to_json(self) -> dict[str, object]:
        """Return the receipt as plain values."""
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

    @classmethod
    def from_json(cls, values: Mapping[str, object]) -> Receipt:
        """Return the receipt that `to_json` wrote.

        Raises:
            ValueError: if it has other fields, or fields of other types.
        """
        texts = ("kind", "account", "release", "at", "previous", "hash")
        number, body = values.get("number"), values.get("body")
        if (
            set(values) != {*texts, "number", "body"}
            or not isinstance(number, int)
            or isinstance(number, bool)
            or not isinstance(body, Mapping)
            or not all(isinstance(values[name], str) for name in texts)
        ):
            raise ValueError("Not a receipt of a ledger.")
        return cls(number=number, body=body, **{name: str(values[name]) for name in texts})


def known_kind(text: str) -> EntryKind | None:
    """Return a kind of entries by its name, None where this version knows none of that name."""
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
    """Return a receipt with its hash."""
    draft = Receipt(number, kind, account, release, at, body, previous, "")
    return replace(draft, hash=receipt_hash(draft))


def receipt_hash(receipt: Receipt) -> str:
    """Return the SHA-256 of everything in a receipt but its own hash."""
    values = receipt.to_json()
    del values["hash"]
    return hashlib.sha256(canonical_json(values)).hexdigest()


def result_hash(results: Iterable[tuple[int, NDArray[np.int64]]]) -> str:
    """Return the hash by which a commit binds the noisy results that were drawn together.

    Of charges, shapes and values; not of the attempt. It is published, and whoever knows the
    published values could try attempts until it fits.

    Args:
        results: Number of each charge's receipt and its noisy values, in the order of the charges.
    """
    found = hashlib.sha256()
    for number, values in results:
        found.update(canonical_json([number, list(values.shape)]))
        found.update(np.ascontiguousarray(values, dtype="<i8").tobytes())
    return found.hexdigest()


def first_bad_link(receipts: Sequence[Receipt]) -> str | None:
    """Return a sentence about the first receipt of a release that does not fit, None if all fit.

    Args:
        receipts: All of one release, in order.
    """
    last = START
    for position, receipt in enumerate(receipts, start=1):
        name = f"Receipt {receipt.number} ({receipt.kind})"
        if receipt_hash(receipt) != receipt.hash:
            return f"{name} was changed: its hash does not match."
        if receipt.number != position or receipt.previous != last:
            return f"{name} does not follow the receipt before it."
        last = receipt.hash
    return None
