"""Entries: receipts and what else the ledger keeps, in one chain over the whole ledger.

A receipt may be published, so it tells neither the time of day, nor attempts, nor that there are
other releases. Its entry holds the rest: its place in the ledger, the exact time, the key that may
be there once. The entry's link is the hash of all that and of the link before it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, assert_never

from dp_core.documents.canonical import canonical_json
from dp_core.wall.ledger.receipts import Receipt, known_kind

LEDGER_VERSION = 2
"""What the first entry of a ledger made now says; a ledger keeps the version it began with.

Raised when the entries of a new ledger are to be read otherwise than those of one of before.
"""

OLDEST_VERSION = 2
"""Of the ledgers that this program still reads."""

_CHAIN = 2
"""Stands in every link and under every signature, so it never changes, whatever the version is: all
of history would look changed, and a bundle does not say which version its ledger had."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the ledger.

    Attributes:
        position: 1, 2, 3, ... over the whole ledger.
        receipt: What it says.
        reservation: Position of the reservation it belongs to (a reservation's own), or None.
        about: What it is about besides account and release: a batch, an input, a plan, a key.
        key: What may be in the ledger once, None for what may come again.
        recorded: Time in UTC, to the second; for staff.
        salt: 16 random bytes in hex. The link of the last receipt is published; without a salt,
            whoever has the receipts could try times until it fits.
        link: Hash of all of the above, the receipt's hash for the receipt, and the link before it.
        signer: Fingerprint of the key that signed, None where the ledger has no keys.
        signature: Ed25519 signature in hex of `signed_message`.
    """

    position: int
    receipt: Receipt
    reservation: int | None
    about: str | None
    key: str | None
    recorded: str
    salt: str
    link: str
    signer: str | None
    signature: str | None

    @property
    def kind(self) -> str:
        """Kind of its receipt."""
        return self.receipt.kind

    @property
    def body(self) -> Mapping[str, Any]:
        """Body of its receipt."""
        return self.receipt.body

    def to_json(self) -> dict[str, object]:
        """Return the entry as plain values."""
        return {**asdict(self), "receipt": self.receipt.to_json()}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Entry:
        """Return the entry that `to_json` wrote.

        Raises:
            ValueError: if it has other fields, or fields of other types.
        """
        texts, maybe = ("recorded", "salt", "link"), ("about", "key", "signer", "signature")
        whole = values.get("position"), values.get("reservation")
        if (
            set(values) != {"position", "receipt", "reservation", *texts, *maybe}
            or not _is_whole(whole[0])
            or not (whole[1] is None or _is_whole(whole[1]))
            or not isinstance(values["receipt"], Mapping)
            or not all(isinstance(values[name], str) for name in texts)
            or not all(values[name] is None or isinstance(values[name], str) for name in maybe)
        ):
            raise ValueError("Not an entry of a ledger.")
        return cls(**{**values, "receipt": Receipt.from_json(values["receipt"])})


def make_entry(
    receipt: Receipt,
    *,
    position: int,
    reservation: int | None,
    about: str | None,
    key: str | None,
    recorded: str,
    salt: str,
    previous: str,
) -> Entry:
    """Return an entry with its link, not signed yet.

    Args:
        receipt: What it says.
        position: Its place in the ledger.
        reservation: Position of the reservation it belongs to.
        about: What it is about besides account and release.
        key: What may be in the ledger once.
        recorded: Time in UTC.
        salt: 32 random hex digits.
        previous: Link of the entry before it.
    """
    draft = Entry(position, receipt, reservation, about, key, recorded, salt, "", None, None)
    return replace(draft, link=entry_link(draft, previous))


def entry_link(entry: Entry, previous: str) -> str:
    """Return the link that an entry has after the entry with the link `previous`."""
    values = [
        _CHAIN,
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


def signed_message(receipt_hash: str, link: str) -> bytes:
    """Return what a signature is of: the receipt, which may be published, and its place."""
    return canonical_json(["dp-release ledger", _CHAIN, receipt_hash, link])


def version_of(first: Receipt) -> int:
    """Return the version of a ledger, from its first receipt.

    Raises:
        ValueError: if that names none.
    """
    version = first.body.get("version")
    if first.kind != "ledger" or not isinstance(version, int) or isinstance(version, bool):
        raise ValueError("Not the first receipt of a ledger.")
    return version


def not_known(version: int) -> str | None:
    """Return how a ledger of that version is none for this program, None if it is one."""
    if version > LEDGER_VERSION:
        return (
            f"has format {version}, and this dp-release knows none after {LEDGER_VERSION};"
            " update dp-release"
        )
    if version < OLDEST_VERSION:
        return (
            f"has format {version}, of before the first release of dp-release, and this one reads"
            f" none before {OLDEST_VERSION}"
        )
    return None


def unique_key(receipt: Receipt, about: str | None, reservation: int | None) -> str | None:
    """Return what may be in the ledger once, None for what may come again; a charge's is its own.

    A charge's key is made by `charge_key`, from things that its receipt does not hold.
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
        case "input" | "hold" | "decide" | "settle":
            return f"{receipt.kind}/{reservation}"
        case "attempt":
            return f"attempt/{reservation}/{about}/{receipt.body.get('attempt')}"
        case "raise" | "restate" | "approve" | "withdraw" | "reserve" | "charge" | "look" | None:
            return None
        case other:
            assert_never(other)


def charge_key(release: str, stage: str, step: str, input_hash: str, plan: str) -> str:
    """Return the key of a charge: what is measured, on which input, under which plan.

    Never an identifier of a process or of a run in the orchestrator: whoever does the same thing
    again pays with the same key, which is unique in the database.
    """
    values = canonical_json([release, stage, step, input_hash, plan])
    return f"charge/{hashlib.sha256(values).hexdigest()}"


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
