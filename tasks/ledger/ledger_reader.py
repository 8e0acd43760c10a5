"""Queries of the ledger for people and programs; this module writes nothing.

A query is a function of the ledger's entries. `LedgerReader` has each of them as a method, which
answers it in one read transaction.
"""

from __future__ import annotations

from collections.abc import Iterator

from dp_core.accounts.chain_audit import Totals
from dp_core.accounts.ledger_position import Adoption, Place, Total, adoption_of
from dp_core.accounts.signatures import public_key_of
from dp_core.errors import LedgerCorrupt
from dp_core.kernel.ledger.entries import Entry
from dp_core.kernel.ledger.receipts import PUBLISHED, Receipt
from tasks.ledger import leases
from tasks.ledger.accounts import (
    all_accounts,
    covered_accounts,
    find_account,
    paying_accounts,
    read_balances,
    read_tallies,
    read_uses,
)
from tasks.ledger.anchors.ledger_anchor import Findings, LedgerAnchor
from tasks.ledger.database.database_errors import Damaged
from tasks.ledger.database.ledger_database import Database, reads
from tasks.ledger.database.transaction import Transaction
from tasks.ledger.reservations import Reservation, read_charges, read_gate, read_reservation

_PAGE = 1000
"""Largest number of entries that one read transaction returns."""


def read_desk_terms(book: Transaction, account: str) -> str | None:
    """Return the hash of the terms of an account's open question desk; None if none is open."""
    last = book.latest(kinds=("open-desk", "close-desk"), account=account)
    if last is None or last.kind == "close-desk" or "examines" in last.body:
        return None
    return last.about


def read_approval(book: Transaction, plan: str) -> Entry | None:
    """Return the entry that approves a plan, None if the plan is not approved now."""
    found = book.latest(kinds=("approve", "withdraw"), about=plan)
    return found if found is not None and found.kind == "approve" else None


def release_names(book: Transaction) -> tuple[str, ...]:
    """Return the names of all releases, in the order of their reservation."""
    return tuple(dict.fromkeys(entry.receipt.release for entry in book.find(kinds=("reserve",))))


def read_receipts(book: Transaction, reservation: Reservation) -> tuple[Receipt, ...]:
    """Return the publishable receipts of one reservation, in order."""
    found = book.find(reservation=reservation.position, kinds=PUBLISHED)
    return tuple(entry.receipt for entry in found)


def read_place(book: Transaction, reservation: Reservation) -> Place:
    """Return the place in the chain of the last receipt of a release.

    Raises:
        ValueError: if the release is not settled.
    """
    end = _settlement(book, reservation)
    keys = [entry.body for entry in book.find(kinds=("key",), about=end.signer or "")]
    public = public_key_of(keys[-1]) if keys else None
    return Place(link=end.link, public_key=public, signature=end.signature)


def settled_totals(book: Transaction, reservation: Reservation) -> tuple[Total, ...]:
    """Return the totals of all accounts that pay for a release, at its settlement.

    Later changes are left out, so that a bundle that is written again is identical.

    Raises:
        ValueError: if the release is not settled.
    """
    end = _settlement(book, reservation)
    return tuple(Total.from_json(total) for total in end.body["totals"])


def _settlement(book: Transaction, reservation: Reservation) -> Entry:
    end = book.settlement_of(reservation.position)
    if end is None:
        raise ValueError(f"Release {reservation.release!r} is not settled.")
    return end


def knows_inputs(book: Transaction) -> bool:
    """Return whether any input is recorded in the ledger."""
    return book.latest(kinds=("input",)) is not None


def last_entry(book: Transaction) -> Entry:
    """Return the last entry."""
    (found,) = book.find(last=1)
    return found


def is_of_demo(book: Transaction) -> bool:
    """Return whether `demo` made the ledger."""
    (first,) = book.find(position=1)
    return first.body.get("demo") is True


def read_adoptions(book: Transaction) -> tuple[Adoption, ...]:
    """Return the adoptions of the ledger, in order."""
    return tuple(adoption_of(receipt) for receipt in book.adoptions())


class LedgerReader:
    """Reads accounts, plans, releases and entries, each in one read transaction."""

    _database: Database
    anchor: LedgerAnchor | None

    find_account = reads(find_account)
    accounts = reads(all_accounts)
    lineage = reads(paying_accounts)
    covered = reads(covered_accounts)
    uses = reads(read_uses)
    balances = reads(read_balances)
    tallies = reads(read_tallies)
    desk_terms = reads(read_desk_terms)
    approval = reads(read_approval)

    holder = reads(leases.holder_of)
    lease_ends = reads(leases.ends)
    reservation = reads(read_reservation)
    gate = reads(read_gate)
    charges = reads(read_charges)
    releases = reads(release_names)
    receipts = reads(read_receipts)
    place = reads(read_place)
    totals = reads(settled_totals)

    entries = reads(Transaction.find)
    knows_inputs = reads(knows_inputs)
    head = reads(last_entry)
    identity = reads(Transaction.identity)
    is_of_demo = reads(is_of_demo)
    adoptions = reads(read_adoptions)

    def check_anchor(self) -> None:
        """Check the ledger against its anchor, and note its head if it is ahead.

        Raises:
            LedgerCorrupt: if it lacks a noted entry, is a copy, or is in another ledger's place.
        """
        if self.anchor is not None:
            files = self.anchor.read(self.identity())
            with self._database.reading() as book:
                self.anchor.open(book, files)

    def anchor_findings(self) -> Findings | None:
        """Return the ledger compared with its notes and places; None without an anchor.

        Raises:
            LedgerCorrupt: if a note is damaged.
        """
        if self.anchor is None:
            return None
        files = self.anchor.read(self.identity())
        with self._database.reading() as book:
            return self.anchor.compare(book, files)

    def all_entries(self) -> Iterator[tuple[Entry, Totals]]:
        """Yield every entry with its running totals.

        It reads pages in separate transactions, so that a long check does not block writers.

        Raises:
            LedgerCorrupt: if the stored text of an entry differs from what the program writes, or
                the database is damaged.
        """
        after, size = 0, _PAGE
        while True:
            try:
                with self._database.reading() as book:
                    page = book.store.page(after, size)
            except LedgerCorrupt as found:
                # An earlier entry of the page may be wrong too, so the entries are read singly.
                if size > 1:
                    size = 1
                    continue
                if isinstance(found, Damaged):
                    raise Damaged(self._unreadable(after + 1)) from None
                raise
            if not page:
                return
            yield from page
            after = page[-1][0].position

    def _unreadable(self, position: int) -> str:
        try:
            with self._database.reading() as book:
                book.find(position=position)
            what = f"The running totals at entry {position} of the ledger"
        except LedgerCorrupt:
            what = f"Entry {position} of the ledger"
        return f"{what} cannot be read: the database is damaged. Keep it, and restore a copy."
