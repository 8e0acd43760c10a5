"""The ledger: leases of releases, the check of a plan, and the check of every entry.

What people read is in `tasks.ledger.ledger_reader`, what a release writes in
`tasks.ledger.release_writer`, and what people decide in `tasks.ledger.account_decisions`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, suppress

from dp_core.errors import LedgerCorrupt
from dp_core.spec.plan import Plan
from dp_core.wall.ledger.audit import Audit, audit
from dp_core.wall.ledger.entries import Entry
from tasks.ledger.account_decisions import Decisions
from tasks.ledger.database.ledger_database import Damaged
from tasks.ledger.database.transaction import known_signer, valid_keys
from tasks.ledger.input_seals import is_sealed
from tasks.ledger.ledger_reader import LedgerReader
from tasks.ledger.release_writer import ReleaseWriter, leased
from tasks.ledger.reservation_entries import reserve

_REPORT_EVERY = 1000
"""Entries between two calls of `progress`."""


class Ledger(LedgerReader, Decisions):
    """All accounts of one ledger, in one database."""

    def check(self, plan: Plan) -> None:
        """Raise what reserving it would raise now; records nothing."""
        with self._database.trying() as book:
            reserve(book, plan)

    def lease(self, release: str, home: str) -> AbstractContextManager[ReleaseWriter]:
        """Take the lease of a release: only its holder may write for the release.

        Args:
            release: Name.
            home: Identifier of the home that keeps its files.

        Raises:
            StageFailed: if another process has the lease.
        """
        return leased(self._database, release, home)

    def sign(self, message: bytes) -> tuple[str, str] | None:
        """Return the public key and the signature of a message; None where the ledger has no keys.

        Raises:
            BadInput: if the ledger has keys and this process has none of them.
        """
        with self._database.reading() as book:
            valid = valid_keys([entry.body for entry in book.find(kinds=("key",))])
        if not valid:
            return None
        signer = known_signer(self._database.signer, valid)
        return signer.public, signer.sign(message)

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
            progress: Called with the fraction done, 0 to 1.

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
            if progress is not None and entry.position % _REPORT_EVERY == 0:
                progress(min(1.0, entry.position / max(total, 1)))

        found = audit(self.all_entries(), trusted=trusted, inspect=inspect)
        if found.entries < total:
            raise LedgerCorrupt(f"Entry {found.entries + 1} of the ledger is missing.")
        with self._database.reading() as book:
            book.check_file()
        return found
