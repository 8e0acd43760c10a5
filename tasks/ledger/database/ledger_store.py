"""The store behind the ledger's rules: what a database must do, and nothing about accounts.

A store belongs to one transaction. `tasks.ledger.database.transaction` computes everything else
from entries and running totals; `tasks.ledger.database.sql_store` is the store in a database.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from dp_core.kernel.ledger.entries import Entry

Place = Mapping[str, "str | int | None"]
"""The properties of a ledger's place by name; see `tasks.ledger.database.ledger_place`."""


@dataclass(frozen=True, slots=True)
class Head:
    """The end of the chain.

    Attributes:
        position: Position of the last entry; 0 for an empty ledger.
        link: Link of the last entry; `START` for an empty ledger.
        recorded: Time of the last entry; empty for an empty ledger.
    """

    position: int
    link: str
    recorded: str


@dataclass(frozen=True, slots=True)
class StoredTotal:
    """A running total.

    Attributes:
        subject: What it is a total of.
        position: Position of the entry that changed it.
        value: Its text after that entry.
    """

    subject: str
    position: int
    value: str


@dataclass(frozen=True, slots=True)
class StoredLease:
    """The lease of a release, which is replaced in place and is not part of the record.

    Attributes:
        release: Name of the release.
        fence: Number that increases with every holder.
        holder: The holder as JSON.
        expires: Time at which the lease ends without renewal, milliseconds since 1970.
        seal: Checksum of the other values; None if an earlier program wrote it.
    """

    release: str
    fence: int
    holder: str
    expires: int
    seal: str | None


class LedgerStore(Protocol):
    """The record and the leases inside one transaction.

    The record has four operations: `head`, `entries`, `totals` and `append`. Nothing in it is ever
    changed or removed.
    """

    def head(self) -> Head:
        """Return the end of the chain."""

    def entries(
        self,
        *,
        kinds: Sequence[str] = (),
        equal: Mapping[str, object],
        last: int | None = None,
    ) -> Sequence[Entry]:
        """Return the entries that meet all criteria, in order.

        Args:
            kinds: Kinds to find; empty (the default) for every kind.
            equal: Required values by name: `position`, `account`, `release`, `reservation`,
                `about` or `key`.
            last: Largest number of entries to return, the latest ones; None (the default) for all.

        Raises:
            LedgerCorrupt: if a stored entry cannot be read.
        """

    def totals(self, subjects: Sequence[str]) -> Mapping[str, str]:
        """Return the latest text of each running total that was ever written, by subject."""

    def append(self, entries: Sequence[Entry], totals: Collection[StoredTotal]) -> None:
        """Add entries and the running totals that they changed: all of them, or none.

        Args:
            entries: The next entries, in order.
            totals: The totals after them.

        Raises:
            StageFailed: if their positions or unique keys are taken, because the chain went on
                since the caller read its end. A database raises it at the end of the transaction.
        """

    def page(self, after: int, size: int) -> Sequence[tuple[Entry, Sequence[tuple[str, str]]]]:
        """Return the next entries in order, each with the subjects and texts of its totals.

        Args:
            after: Position of the last entry seen.
            size: Largest number of entries to return.

        Raises:
            LedgerCorrupt: if the stored text of an entry differs from what the program writes.
        """

    def check(self) -> None:
        """Raise LedgerCorrupt for damage that reading every entry in order does not find."""

    def leases(self, release: str | None = None) -> Sequence[StoredLease]:
        """Return the lease of a release, if it ever had one; of all releases for None."""

    def set_lease(self, lease: StoredLease) -> None:
        """Replace the lease of a release."""

    def clock(self) -> int:
        """Return milliseconds since 1970, by the clock that all holders of leases share."""

    def place(self) -> dict[str, str | int | None]:
        """Return where the store is now; see `Place`."""
