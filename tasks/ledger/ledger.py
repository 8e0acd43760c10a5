"""The ledger: who may hold a release, what people read of it, and the whole check.

What a release writes is in `tasks.ledger.release_holder`; what persons decide is in
`tasks.ledger.account_decisions`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, suppress

from dp_core.errors import BadInput, LedgerCorrupt
from dp_core.spec.plan import Plan
from dp_core.wall.accounting.composition import Composition, Tally
from dp_core.wall.accounting.currency import Currency
from dp_core.wall.ledger.account_balance import Standing
from dp_core.wall.ledger.approval import Gate, gate_of
from dp_core.wall.ledger.audit import Audit, Totals, audit
from dp_core.wall.ledger.entries import Entry
from dp_core.wall.ledger.ledger_position import Place, Total
from dp_core.wall.ledger.receipts import PUBLISHED, Receipt
from dp_core.wall.ledger.running_totals import lineage, subtree
from dp_core.wall.ledger.signatures import public_key_of
from tasks.ledger import leases
from tasks.ledger.account_decisions import Decisions
from tasks.ledger.accounts import Account, Used, read_account, read_uses
from tasks.ledger.balances import read_standings, read_tallies
from tasks.ledger.database.ledger_database import Damaged
from tasks.ledger.database.transaction import Rows, known_signer, standing_keys
from tasks.ledger.refusals import account_names, no_account
from tasks.ledger.release_holder import Hold, held
from tasks.ledger.reservation_entries import reserve
from tasks.ledger.reservations import Charge, Reservation, read_charges, read_reservation
from tasks.ledger.seals import is_sealed

_PAGE = 1000


class Ledger(Decisions):
    """All accounts of one ledger, in one database."""

    # -- accounts

    def find_account(self, name: str) -> Account | None:
        """Return an account with its balance, None if there is none of that name."""
        with self._database.reading() as rows:
            return read_account(rows, name) if rows.charter(name) is not None else None

    def accounts(self) -> tuple[Account, ...]:
        """Return every account, in the order of their opening."""
        with self._database.reading() as rows:
            return tuple(
                read_account(rows, entry.receipt.account) for entry in rows.find(kinds=("open",))
            )

    def uses(self, name: str) -> tuple[Used, ...]:
        """Return what every release took of an account's total, in order."""
        with self._database.reading() as rows:
            return read_uses(rows, read_account(rows, name))

    def lineage(self, name: str) -> tuple[Account, ...]:
        """Return an account and those it stands within, the nearest first."""
        with self._database.reading() as rows:
            found = lineage(rows, name)
            if not found:
                raise BadInput(no_account(account_names(rows), name), row="no-account")
            return tuple(read_account(rows, charter.name) for charter in found)

    def covered(self, name: str) -> tuple[str, ...]:
        """Return the names of an account and of all that stand within it, however deep.

        Raises:
            BadInput: if there is no such account, naming the nearest.
        """
        with self._database.reading() as rows:
            return tuple(subtree(rows, read_account(rows, name).name))

    def standings(self, name: str, composition: Composition | None = None) -> tuple[Standing, ...]:
        """Return how an account and those it stands within stand today; see `read_standings`."""
        with self._database.reading() as rows:
            return read_standings(rows, name, composition)

    def tallies(self, name: str) -> tuple[tuple[Currency, Tally], ...]:
        """Return the currency and the charges of every release that an account pays for."""
        with self._database.reading() as rows:
            return read_tallies(rows, name)

    # -- plans

    def approval(self, plan: str) -> Entry | None:
        """Return the approval of a plan that stands, None without one."""
        with self._database.reading() as rows:
            found = rows.latest(kinds=("approve", "withdraw"), about=plan)
        return found if found is not None and found.kind == "approve" else None

    # -- a release

    def check(self, plan: Plan) -> None:
        """Raise what reserving it would raise now; records nothing."""
        with self._database.trying() as rows:
            reserve(rows, plan)

    def hold(self, release: str, home: str) -> AbstractContextManager[Hold]:
        """Hold a release for this process, which alone may then write for it.

        Args:
            release: Name.
            home: Identifier of the home that keeps its files.

        Raises:
            StageFailed: if another process holds it.
        """
        return held(self._database, release, home)

    def holder(self, release: str) -> leases.Holder | None:
        """Return the process that works on a release now, None if there is none."""
        with self._database.reading() as rows:
            return leases.holder_of(rows, release)

    def lease_ends(self, release: str) -> str | None:
        """Return when the lease of a release ends if it is not renewed, None if it is free."""
        with self._database.reading() as rows:
            return leases.ends(rows, release)

    def reservation(self, release: str) -> Reservation | None:
        """Return the latest reservation of a release, None if it never had one."""
        with self._database.reading() as rows:
            return read_reservation(rows, release)

    def gate(self, reservation: Reservation) -> Gate:
        """Return whether a release is held, who looked at it when, and what was decided."""
        with self._database.reading() as rows:
            return gate_of(rows, reservation.position)

    def charges(self, reservation: Reservation, batch: str | None = None) -> tuple[Charge, ...]:
        """Return the charges of a release, or of one batch of it."""
        with self._database.reading() as rows:
            return read_charges(rows, reservation, batch)

    def releases(self) -> tuple[str, ...]:
        """Return the names of all releases, in the order of their reservation."""
        with self._database.reading() as rows:
            return tuple(
                dict.fromkeys(entry.receipt.release for entry in rows.find(kinds=("reserve",)))
            )

    def receipts(self, reservation: Reservation) -> tuple[Receipt, ...]:
        """Return what may be published of one reservation, in order, from its promise on."""
        with self._database.reading() as rows:
            found = rows.find(reservation=reservation.position, kinds=PUBLISHED)
        return tuple(entry.receipt for entry in found)

    def place(self, reservation: Reservation) -> Place:
        """Return where the last receipt of a release stands in the chain.

        Raises:
            ValueError: if the release is not settled.
        """
        with self._database.reading() as rows:
            end = _settlement(rows, reservation)
            keys = [entry.body for entry in rows.find(kinds=("key",), about=end.signer or "")]
        public = public_key_of(keys[-1]) if keys else None
        return Place(link=end.link, public_key=public, signature=end.signature)

    def sign(self, message: bytes) -> tuple[str, str] | None:
        """Return the public key and the signature of a message; None where the ledger has no keys.

        Raises:
            BadInput: if the ledger has keys and this process has none of them.
        """
        with self._database.reading() as rows:
            standing = standing_keys([entry.body for entry in rows.find(kinds=("key",))])
        if not standing:
            return None
        signer = known_signer(self._database.signer, standing)
        return signer.public, signer.sign(message)

    def totals(self, reservation: Reservation) -> tuple[Total, ...]:
        """Return the totals of all accounts that pay for a release, as it was settled.

        What was changed since is left out, so that a bundle written again is the same.
        """
        with self._database.reading() as rows:
            end = _settlement(rows, reservation)
        return tuple(Total.from_json(total) for total in end.body["totals"])

    # -- reading and checking

    def entries(self, **criteria: object) -> tuple[Entry, ...]:
        """Return the entries that `Rows.find` finds."""
        with self._database.reading() as rows:
            return rows.find(**criteria)  # type: ignore[arg-type]

    def knows_inputs(self) -> bool:
        """Return whether any input is sealed in it."""
        with self._database.reading() as rows:
            return rows.latest(kinds=("input",)) is not None

    def head(self) -> Entry:
        """Return the last entry."""
        with self._database.reading() as rows:
            found = rows.last()
        assert found is not None
        return found

    def holds(self, position: int, link: str) -> bool:
        """Return whether the entry at a position has that link."""
        with self._database.reading() as rows:
            return any(entry.link == link for entry in rows.find(position=position))

    def identity(self) -> str:
        """Return the ledger's own identifier."""
        with self._database.reading() as rows:
            return rows.identity()

    def all_entries(self) -> Iterator[tuple[Entry, Totals]]:
        """Yield every entry with its running totals, in pages that keep no writer waiting.

        Raises:
            LedgerCorrupt: if an entry is not stored as it would have been written.
        """
        after, size = 0, _PAGE
        while True:
            try:
                with self._database.reading() as rows:
                    page = rows.page(after, size)
            except LedgerCorrupt as found:
                # An entry before it may be wrong too, so those before it are given first.
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
            with self._database.reading() as rows:
                rows.find(position=position)
            what = f"The running totals at entry {position} of the ledger"
        except LedgerCorrupt:
            what = f"Entry {position} of the ledger"
        return f"{what} cannot be read: the database is damaged. Keep it, and restore a copy."

    def verify(
        self,
        key: bytes | None = None,
        *,
        trusted: Collection[str] = (),
        progress: Callable[[float], None] | None = None,
    ) -> Audit:
        """Check every entry.

        Args:
            key: The confidential key; with it the seals of the inputs are checked too.
            trusted: Public keys, one of which must have signed the last entry.
            progress: Told the part that is done, 0 to 1.

        Raises:
            LedgerCorrupt: naming the first entry that does not fit.
        """
        total = 0
        with suppress(Damaged):  # the walk finds out where
            total = self.head().position

        def inspect(entry: Entry) -> None:
            if entry.kind == "input" and key is not None and not is_sealed(entry, key):
                raise LedgerCorrupt(
                    f"Entry {entry.position} (input) of release {entry.receipt.release!r} is not"
                    " sealed under this home's key."
                )
            if progress is not None and entry.position % _PAGE == 0:
                progress(min(1.0, entry.position / max(total, 1)))

        found = audit(self.all_entries(), trusted=trusted, inspect=inspect)
        if found.entries < total:
            raise LedgerCorrupt(f"Entry {found.entries + 1} of the ledger is missing.")
        with self._database.reading() as rows:
            rows.check_file()
        return found


def _settlement(rows: Rows, reservation: Reservation) -> Entry:
    end = rows.latest(kinds=("settle",), reservation=reservation.position)
    if end is None:
        raise ValueError(f"Release {reservation.release!r} is not settled.")
    return end
