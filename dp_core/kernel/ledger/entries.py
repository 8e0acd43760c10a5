"""Entries: receipts with further internal fields, in one hash chain over the whole ledger.

A receipt may be published, so it reveals neither the time of day, nor repeated draws, nor
other releases. Its entry holds the rest: the position in the ledger, the exact time and the unique
key. The entry's link is the hash of all its fields and of the preceding link.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, assert_never

from dp_core.kernel.canonical import canonical_json
from dp_core.kernel.ledger.receipts import Receipt, known_kind

CHAIN = 2
"""Constant in every link and every signed message. It must never change, whatever `LEDGER_VERSION`
is: every earlier entry would fail its check, and a bundle does not state its ledger's version."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the ledger.

    Attributes:
        position: Position in the ledger, from 1.
        receipt: The part of the entry that may be published.
        reservation: Position of the reservation that the entry belongs to. A reservation's own
            entry has its own position; None for an entry without a reservation.
        about: Further subject besides account and release: a batch, an input, a plan, a key or an
            account; None without one.
        key: Unique key of an entry that may be recorded only once; None for other entries.
        recorded: Time in UTC, ISO 8601, to the second; internal.
        salt: 16 random bytes in hex. The link of the last receipt is published; without the salt,
            the time could be found by trying all times against that link.
        link: Hash of the fields above (the receipt's hash in place of the receipt) and of the
            preceding link.
        signer: Fingerprint of the key that signed; None if the ledger has no keys.
        signature: Ed25519 signature of `signed_message` in hex; None if the ledger has no keys.
    """

    position: int
    receipt: Receipt
    reservation: int | None
    about: str | None
    key: str | None
    recorded: str
    salt: str
    link: str = ""
    signer: str | None = None
    signature: str | None = None

    @property
    def kind(self) -> str:
        """Kind of its receipt."""
        return self.receipt.kind

    @property
    def body(self) -> Mapping[str, Any]:
        """Body of its receipt."""
        return self.receipt.body


def make_entry(draft: Entry, previous: str) -> Entry:
    """Return an unsigned entry with its link.

    Args:
        draft: The entry; its own link is not used.
        previous: Link of the preceding entry.
    """
    return replace(draft, link=entry_link(draft, previous))


def entry_link(entry: Entry, previous: str) -> str:
    """Return the link of an entry, a SHA-256 in hex.

    Args:
        entry: The entry; its own link and signature are not used.
        previous: Link of the preceding entry.
    """
    values = [
        CHAIN,
        previous,
        entry.position,
        entry.receipt.hash,
        entry.reservation,
        entry.about,
        entry.key,
        entry.recorded,
        entry.salt,
    ]
    return hashlib.sha256(canonical_json(values)).hexdigest()


def unique_key(receipt: Receipt, about: str | None, reservation: int | None) -> str | None:
    """Return the unique key of an entry; None if such an entry may be recorded several times.

    It returns None for a charge too: `charge_key` makes its key, from values that the receipt does
    not hold.

    Args:
        receipt: Receipt of the entry.
        about: Further subject of the entry.
        reservation: Position of the reservation it belongs to.
    """
    match known_kind(receipt.kind):
        case "ledger":
            return "ledger"
        case "open" | "close":
            return f"{receipt.kind}/{receipt.account}"
        case "key":
            return f"key/{about}"
        case "commit":
            return f"commit/{reservation}/{about}"
        case "input" if "table" in receipt.body:
            return f"input/{reservation}/{receipt.body['table']}"
        case "examine" | "verdict" if "again" in receipt.body:
            return f"{receipt.kind}/{reservation}/{receipt.body['again']}"
        case "input" | "hold" | "decide" | "settle" | "examine" | "verdict":
            return f"{receipt.kind}/{reservation}"
        case "attempt":
            return f"attempt/{reservation}/{about}/{receipt.body.get('attempt')}"
        case "raise" | "restate" | "approve" | "withdraw" | "reserve" | "charge" | "look" | None:
            return None
        case "adopt" | "allow-retry" | "declare-public" | "refuse-public":
            return None
        case "open-desk" | "close-desk":
            return None
        case other:
            assert_never(other)


def charge_key(release: str, stage: str, step: str, input_hash: str, plan: str) -> str:
    """Return the unique key of a charge, from what is measured, the input and the plan.

    It contains no identifier of a process or of an orchestrator's run. So a repetition of the same
    step has the same key, which is unique in the database, and is not paid again.

    Args:
        release: Name of the release.
        stage: Stage that pays.
        step: Name of the step.
        input_hash: Keyed hash of the input.
        plan: Hash of the plan.
    """
    values = canonical_json([release, stage, step, input_hash, plan])
    return f"charge/{hashlib.sha256(values).hexdigest()}"
