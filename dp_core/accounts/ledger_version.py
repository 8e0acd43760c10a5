"""The format version of a ledger, and which versions this program reads."""

from __future__ import annotations

from dp_core.kernel.ledger.receipts import Receipt

LEDGER_VERSION = 2
"""Format version in the first entry of a new ledger; a ledger keeps the version it began with.

Increase it when the entries of new ledgers must be read differently from those of earlier ones.
"""


OLDEST_VERSION = 2
"""Oldest format version that this program reads."""


def version_of(first: Receipt) -> int:
    """Return the format version of a ledger, from its first receipt.

    Raises:
        ValueError: if it is not the first receipt of a ledger.
    """
    version = first.body.get("version")
    if first.kind != "ledger" or not isinstance(version, int) or isinstance(version, bool):
        raise ValueError("The receipt is not the first one of a ledger.")
    return version


def not_known(version: int) -> str | None:
    """Return why this program cannot read a ledger of a format version; None if it can.

    The text continues a sentence that begins with "The ledger".
    """
    if version > LEDGER_VERSION:
        return (
            f"has format {version}, but this dp-release reads formats up to {LEDGER_VERSION};"
            " update dp-release"
        )
    if version < OLDEST_VERSION:
        return (
            f"has format {version}, from before the first release of dp-release, but this version"
            f" reads formats from {OLDEST_VERSION}"
        )
    return None
