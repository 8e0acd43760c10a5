"""The ledger: leases of releases, the check of a plan, and the check of every entry.

`tasks.ledger.ledger_reader` has the queries, `tasks.ledger.release_writer` and
`tasks.ledger.charging` the writes of a release, `tasks.ledger.account_decisions` the decisions of
people, and `tasks.ledger.public_declarations` the declarations that data are public.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, suppress
from typing import TypeVar

from dp_core.accounts.chain_audit import Audit, audit
from dp_core.errors import BadInput, BudgetRefused, LedgerCorrupt, StageFailed
from dp_core.kernel.ledger.entries import Entry
from dp_core.plan.plan import Plan
from dp_core.policies.all_policies import POLICIES
from dp_core.policies.refused_attempts import Examination, examination_of
from tasks.ledger import leases
from tasks.ledger.account_decisions import Decisions
from tasks.ledger.anchors.adoption import Adopted, adopt
from tasks.ledger.database.database_errors import Damaged
from tasks.ledger.database.transaction import known_signer
from tasks.ledger.input_seals import is_sealed
from tasks.ledger.ledger_reader import LedgerReader
from tasks.ledger.public_declarations import PublicDeclarations
from tasks.ledger.release_writer import LeasedWriter, ReleaseWriter, leased
from tasks.ledger.reservation_check import check_opening, check_reservation
from tasks.ledger.reservation_entries import reserve
from tasks.ledger.reservations import Reservation, continued

WriterT = TypeVar("WriterT", bound=LeasedWriter)

_REPORT_EVERY = 1000
"""Number of entries between two calls of `progress`."""


class Ledger(LedgerReader, Decisions, PublicDeclarations):
    """All accounts of one ledger, in one database."""

    def check(self, plan: Plan) -> None:
        """Check whether a plan could be reserved now; nothing is recorded.

        Raises:
            BadInput: if the name was used.
            BudgetRefused: if the account does not exist, if an account does not allow the plan, or
                if it waits for approval.
        """
        with self._database.trying() as book:
            reserve(book, plan)

    def refusal(self, plan: Plan) -> BadInput | BudgetRefused | None:
        """Return why the ledger would not take a plan today; None if it would, or if it goes on.

        A name that is used is refused. A plan that waits for approval is not, nor is that of a
        release under way. Nothing is recorded.
        """
        with self._database.reading() as book:
            try:
                if continued(book, plan) is None:
                    check_reservation(book, plan, approved=False)
            except (BadInput, BudgetRefused) as error:
                return error
        return None

    def opening_refusal(self, reservation: Reservation) -> BudgetRefused | StageFailed | None:
        """Return why a release may not open its data now; None if it may. Nothing is recorded."""
        with self._database.reading() as book:
            try:
                check_opening(book, reservation)
            except (BudgetRefused, StageFailed) as error:
                return error
        return None

    def examination(self, reservation: Reservation) -> Examination | None:
        """Return how the last attempt of a release to use its data ended; None if it made none."""
        with self._database.reading() as book:
            return examination_of(book, reservation.position)

    def lease(self, release: str, home: str) -> AbstractContextManager[ReleaseWriter]:
        """Take the lease of a release: only its holder may write for the release.

        Args:
            release: Name of the release.
            home: Identifier of the home that keeps its files.

        Raises:
            StageFailed: if another process has the lease.
        """
        return leased(self._database, release, home)

    def writer_under(self, release: str, fence: int, kind: type[WriterT]) -> WriterT:
        """Return a writer under the lease that another process of the same run holds and renews.

        Args:
            release: Name of the release.
            fence: Fence of the lease.
            kind: Class of the writer; this module must not import `charging`.

        Raises:
            StageFailed: if the lease has another fence.
        """
        with self._database.reading() as book:
            return kind(self._database, leases.lease_of_fence(book, release, fence))

    def adopt(self, *, by: str, reason: str) -> Adopted:
        """Accept this ledger although its anchor refuses it, after checking every entry.

        Args:
            by: Person who decides.
            reason: Reason for the decision.

        Raises:
            BadInput: if the anchor does not refuse the ledger.
            LedgerCorrupt: if an entry is wrong; nothing is recorded then.
        """
        assert self.anchor is not None, "Only a ledger with an anchor can be refused."
        self.verify()
        return adopt(self._database, self.anchor, by=by, reason=reason)

    def sign(self, message: bytes) -> tuple[str, str] | None:
        """Return the public key and the signature of a message; None if the ledger has no keys.

        Raises:
            BadInput: if the ledger has keys and this process has none of them.
        """
        with self._database.reading() as book:
            valid = book.valid_keys()
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
        """Check every entry of the ledger.

        Args:
            key: The home's confidential key, to check the seals of inputs; None (the default) to
                leave this check out.
            trusted: Public keys, one of which must have signed the last entry; by default a
                trusted signature is not required.
            progress: Called with the fraction done, 0 to 1; None by default.

        Returns:
            Number of entries, the head, and the keys.

        Raises:
            LedgerCorrupt: if an entry is wrong; it names the first one.
        """
        total = 0
        with suppress(Damaged):  # the audit below finds the damaged entry
            total = self.head().position

        def inspect(entry: Entry) -> None:
            if entry.kind == "input" and key is not None and not is_sealed(entry, key):
                raise LedgerCorrupt(
                    f"Entry {entry.position} (input) of release {entry.receipt.release!r} is not"
                    " sealed under this home's key."
                )
            if progress is not None and entry.position % _REPORT_EVERY == 0:
                progress(min(1.0, entry.position / max(total, 1)))

        found = audit(self.all_entries(), POLICIES, trusted=trusted, inspect=inspect)
        if found.entries < total:
            raise LedgerCorrupt(f"Entry {found.entries + 1} of the ledger is missing.")
        with self._database.reading() as book:
            book.store.check()
            leases.check_leases(book)
        return found
