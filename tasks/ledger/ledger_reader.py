"""Queries of the ledger for people and programs; this module writes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dp_core.accounts.chain_audit import Totals
from dp_core.accounts.ledger_position import Adoption, Place, Total, adoption_of
from dp_core.accounts.signatures import public_key_of
from dp_core.errors import BadInput, LedgerCorrupt
from dp_core.kernel.cost.composition import Composition, Tally
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.ledger.entries import Entry
from dp_core.kernel.ledger.receipts import PUBLISHED, Receipt
from dp_core.kernel.ledger.running_totals import lineage, subtree
from dp_core.policies.account_balance import Standing
from dp_core.policies.approval import Gate, gate_of
from tasks.ledger import leases
from tasks.ledger.accounts import (
    Account,
    Used,
    account_names,
    read_account,
    read_balances,
    read_tallies,
    read_uses,
)
from tasks.ledger.anchors.ledger_anchor import Findings, LedgerAnchor
from tasks.ledger.database.ledger_database import Damaged, Database
from tasks.ledger.database.transaction import Transaction
from tasks.ledger.reservations import Charge, Reservation, read_charges, read_reservation
from tasks.support.budget_refusals import no_account

_PAGE = 1000
"""Largest number of entries that one read transaction returns."""


class LedgerReader:
    """Reads accounts, plans, releases and entries, each in one read transaction."""

    _database: Database
    anchor: LedgerAnchor | None

    # -- accounts

    def find_account(self, name: str) -> Account | None:
        """Return an account with its balance; None if it does not exist."""
        with self._database.reading() as book:
            return read_account(book, name) if book.charter(name) is not None else None

    def desk_terms(self, account: str) -> str | None:
        """Return the hash of the terms of an account's open question desk; None if none is open."""
        with self._database.reading() as book:
            last = book.latest(kinds=("open-desk", "close-desk"), account=account)
        if last is None or last.receipt.kind == "close-desk" or "examines" in last.body:
            return None
        return last.about

    def accounts(self) -> tuple[Account, ...]:
        """Return every account, in the order of their opening."""
        with self._database.reading() as book:
            return tuple(
                read_account(book, entry.receipt.account) for entry in book.find(kinds=("open",))
            )

    def uses(self, name: str) -> tuple[Used, ...]:
        """Return the amount that every release took of an account, in the order of reservation.

        Raises:
            BadInput: if there is no such account.
        """
        with self._database.reading() as book:
            return read_uses(book, read_account(book, name))

    def lineage(self, name: str) -> tuple[Account, ...]:
        """Return an account and every account above it, the nearest first.

        Raises:
            BadInput: if there is no such account.
        """
        with self._database.reading() as book:
            found = lineage(book, name)
            if not found:
                raise BadInput(no_account(account_names(book), name), row="no-account")
            return tuple(read_account(book, charter.name) for charter in found)

    def covered(self, name: str) -> tuple[str, ...]:
        """Return the names of an account and of all accounts within it, at any depth.

        Raises:
            BadInput: if there is no such account.
        """
        with self._database.reading() as book:
            return tuple(subtree(book, read_account(book, name).name))

    def balances(self, name: str, composition: Composition | None = None) -> tuple[Standing, ...]:
        """Return the balances of an account and of those above it; see `read_balances`."""
        with self._database.reading() as book:
            return read_balances(book, name, composition)

    def tallies(self, name: str) -> tuple[tuple[Currency, Tally], ...]:
        """Return the currency and the charges of every release that an account pays for."""
        with self._database.reading() as book:
            return read_tallies(book, name)

    # -- plans

    def approval(self, plan: str) -> Entry | None:
        """Return the entry that approves a plan, None if the plan is not approved now."""
        with self._database.reading() as book:
            found = book.latest(kinds=("approve", "withdraw"), about=plan)
        return found if found is not None and found.kind == "approve" else None

    # -- a release

    def holder(self, release: str) -> leases.Holder | None:
        """Return the process that works on a release now, None if there is none."""
        with self._database.reading() as book:
            return leases.holder_of(book, release)

    def lease_ends(self, release: str) -> str | None:
        """Return the time (UTC) at which the lease of a release expires; None if it is free."""
        with self._database.reading() as book:
            return leases.ends(book, release)

    def reservation(self, release: str) -> Reservation | None:
        """Return the latest reservation of a release, None if it never had one."""
        with self._database.reading() as book:
            return read_reservation(book, release)

    def gate(self, reservation: Reservation) -> Gate:
        """Return the approval state of a release: hold, looks and decision."""
        with self._database.reading() as book:
            return gate_of(book, reservation.position)

    def charges(self, reservation: Reservation, batch: str | None = None) -> tuple[Charge, ...]:
        """Return the charges of a release, or of one batch of it."""
        with self._database.reading() as book:
            return read_charges(book, reservation, batch)

    def releases(self) -> tuple[str, ...]:
        """Return the names of all releases, in the order of their reservation."""
        with self._database.reading() as book:
            return tuple(
                dict.fromkeys(entry.receipt.release for entry in book.find(kinds=("reserve",)))
            )

    def receipts(self, reservation: Reservation) -> tuple[Receipt, ...]:
        """Return the publishable receipts of one reservation, in order."""
        with self._database.reading() as book:
            found = book.find(reservation=reservation.position, kinds=PUBLISHED)
        return tuple(entry.receipt for entry in found)

    def place(self, reservation: Reservation) -> Place:
        """Return the place in the chain of the last receipt of a release.

        Raises:
            ValueError: if the release is not settled.
        """
        with self._database.reading() as book:
            end = _settlement(book, reservation)
            keys = [entry.body for entry in book.find(kinds=("key",), about=end.signer or "")]
        public = public_key_of(keys[-1]) if keys else None
        return Place(link=end.link, public_key=public, signature=end.signature)

    def totals(self, reservation: Reservation) -> tuple[Total, ...]:
        """Return the totals of all accounts that pay for a release, at its settlement.

        Later changes are left out, so that a bundle that is written again is identical.
        """
        with self._database.reading() as book:
            end = _settlement(book, reservation)
        return tuple(Total.from_json(total) for total in end.body["totals"])

    # -- reading and checking

    def entries(self, **criteria: object) -> tuple[Entry, ...]:
        """Return the entries that `Transaction.find` finds for the same criteria."""
        with self._database.reading() as book:
            return book.find(**criteria)  # type: ignore[arg-type]

    def knows_inputs(self) -> bool:
        """Return whether any input is recorded in the ledger."""
        with self._database.reading() as book:
            return book.latest(kinds=("input",)) is not None

    def head(self) -> Entry:
        """Return the last entry."""
        with self._database.reading() as book:
            found = book.last()
        assert found is not None
        return found

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

    def is_of_demo(self) -> bool:
        """Return whether `demo` made the ledger."""
        (first,) = self.entries(position=1)
        return first.body.get("demo") is True

    def adoptions(self) -> Sequence[Adoption]:
        """Return the adoptions of the ledger, in order."""
        with self._database.reading() as book:
            return [adoption_of(receipt) for receipt in book.adoptions()]

    def identity(self) -> str:
        """Return the identifier of the ledger."""
        with self._database.reading() as book:
            return book.identity()

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
                    page = book.page(after, size)
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


def _settlement(book: Transaction, reservation: Reservation) -> Entry:
    end = book.latest(kinds=("settle",), reservation=reservation.position)
    if end is None:
        raise ValueError(f"Release {reservation.release!r} is not settled.")
    return end
