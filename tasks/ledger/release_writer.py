"""Entries of a release that the holder of its lease writes: from its reservation to its end.

`Ledger.lease` gives a `ReleaseWriter` to one process at a time: Prefect's, or that of a command
about a person's decision. What a release does with its data is written by another class, in the
confidential process (`tasks.ledger.charging`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from dp_core.errors import BadInput, ReleaseError
from dp_core.kernel.ledger.running_totals import use
from dp_core.plan.plan import Plan
from dp_core.policies.approval import ENDS, Cause, Decision, Gate
from tasks.ledger import leases
from tasks.ledger.database.ledger_database import Database, reads
from tasks.ledger.database.transaction import Transaction
from tasks.ledger.reservation_entries import add, add_settlement, require_open, reserve
from tasks.ledger.reservations import (
    Reservation,
    is_charged,
    read_charges,
    read_gate,
    read_reservation,
)

_RENEWALS = 4
"""Number of renewals of a lease within its lifetime."""


class LeasedWriter:
    """Base of both writers of a release: it holds the lease, which each write checks.

    Each write checks the rules and the lease inside one write transaction.
    """

    def __init__(self, database: Database, lease: leases.Lease) -> None:
        """Write under a lease.

        Args:
            database: Database of the ledger.
            lease: Lease of the release; `leased` takes it and gives it up.
        """
        self._database = database
        self.lease = lease
        self.release = lease.release

    @contextmanager
    def _writing(self, reservation: Reservation | None = None) -> Iterator[Transaction]:
        """Provide the ledger in a write transaction under the lease.

        Args:
            reservation: Reservation that must be open; None (the default) without one.
        """
        with self._database.writing() as book:
            leases.require(book, self.lease)
            if reservation is not None:
                require_open(book, reservation)
            yield book

    def require(self) -> None:
        """Raise StageFailed if another process took over the lease."""
        with self._database.reading() as book:
            leases.require(book, self.lease)

    charges = reads(read_charges)


class ReleaseWriter(LeasedWriter):
    """Writes how a release begins and ends, and what people decide about it."""

    gate = reads(read_gate)

    def reservation(self) -> Reservation | None:
        """Return the latest reservation, None if there never was one."""
        with self._database.reading() as book:
            return read_reservation(book, self.release)

    def reserve(self, plan: Plan) -> Reservation:
        """Reserve a plan's whole cost, or refuse and record nothing.

        An open reservation for the same plan is returned as it is. One for another plan is
        returned to the account first, if nothing was charged to it.

        Raises:
            BadInput: if the account does not exist or the name was used.
            BudgetRefused: if an account does not allow it, or the plan waits for approval.
        """
        if plan.spec.release != self.release:
            raise ValueError(f"The lease is for {self.release!r}, not {plan.spec.release!r}.")
        with self._writing() as book:
            return reserve(book, plan)

    def settle(
        self, reservation: Reservation, outcome: str, *, stored: bool = False
    ) -> Reservation:
        """End the release; what was reserved and not spent returns to the account.

        Args:
            reservation: The release's reservation.
            outcome: `finished`, `abandoned` or `failed-thresholds`; `returned` if nothing was
                charged, so that the name can be used again. A release that awaits approval ends
                by `decide` instead.
            stored: Whether an uncommitted result may be on disk, where it may have been seen.

        Privacy:
            `Terms.spent` computes what is returned. It depends on the account's composition, the
            release's currency, and whether any result may have been seen.
        """
        with self._writing(reservation) as book:
            if outcome == "returned" and is_charged(book, reservation):
                raise ValueError("A reservation with charges cannot be returned.")
            return self._end(book, reservation, outcome, stored=stored)

    def _end(
        self, book: Transaction, reservation: Reservation, outcome: str, *, stored: bool
    ) -> Reservation:
        used = use(book, reservation.position)
        mine = book.latest(kinds=("input",), reservation=reservation.position)
        # privacy: uncommitted results in another home may have been seen.
        elsewhere = mine is not None and mine.body["home"] != self.lease.holder.home
        seen = stored or used.results > 0 or (elsewhere and used.tally.charges > 0)
        add_settlement(book, reservation, outcome, seen=seen)
        settled = read_reservation(book, reservation.release)
        assert settled is not None
        return settled

    # -- approval before publication

    def await_approval(self, reservation: Reservation, cause: Cause, sets: Sequence[str]) -> Gate:
        """Record that the release awaits approval; nothing more is charged or drawn for it.

        A second call changes nothing.

        Args:
            reservation: The release's reservation.
            cause: Why a person must approve.
            sets: SHA-256 of each synthetic file that will be published.
        """
        with self._writing(reservation) as book:
            if read_gate(book, reservation).held is None:
                add(book, reservation, "hold", body={"cause": cause, "sets": list(sets)})
            return read_gate(book, reservation)

    def look(self, *, by: str, reason: str) -> Gate:
        """Record a person's look at the internal files, before the program says where they are.

        Raises:
            BadInput: if the release is not made yet, since a look could influence how it is made.
        """
        with self._writing() as book:
            seen = read_reservation(book, self.release)
            if seen is None or seen.outcome == "returned":
                raise BadInput(f"Release {self.release!r} measured nothing, so it has no report.")
            if seen.outcome is None and read_gate(book, seen).held is None:
                raise BadInput(
                    f"Release {self.release!r} is not made yet, and a look could influence how it"
                    f" is made; finish it with `dp-release resume {self.release}`."
                )
            add(book, seen, "look", body={"by": by, "reason": reason})
            return read_gate(book, seen)

    def decide(
        self, reservation: Reservation, decision: Decision, *, by: str, reason: str
    ) -> Reservation:
        """Record the decision about a release that awaits approval, and end it.

        One transaction records both. What was reserved and not spent returns to the account.

        Raises:
            BadInput: if the release does not await approval.
        """
        with self._writing(reservation) as book:
            if read_gate(book, reservation).held is None:
                raise BadInput(
                    f"Release {self.release!r} does not await approval, so there is nothing to"
                    f" decide; `dp-release status {self.release}` shows its state.",
                    row="not-held",
                )
            body = {"decision": decision, "by": by, "reason": reason}
            add(book, reservation, "decide", body=body)
            return self._end(book, reservation, ENDS[decision], stored=True)


@contextmanager
def leased(database: Database, release: str, home: str) -> Iterator[ReleaseWriter]:
    """Take the lease of a release; a thread renews it until the block ends.

    Args:
        database: Database of the ledger.
        release: Name of the release.
        home: Identifier of the home that keeps its files.

    Raises:
        StageFailed: if another process has the lease.
    """
    holder = leases.this_process(home)
    with database.writing() as book:
        lease = leases.acquire(book, release, holder)
    over = threading.Event()

    def keep() -> None:
        while not over.wait(leases.LIFETIME_MS / 1000 / _RENEWALS):
            # A database that does not answer now may answer at the next renewal. If the lease was
            # lost meanwhile, the next write is refused.
            with suppress(ReleaseError), database.writing() as book:
                leases.renew(book, lease)

    keeper = threading.Thread(target=keep, name=f"lease of {release}", daemon=True)
    keeper.start()
    try:
        yield ReleaseWriter(database, lease)
    finally:
        over.set()
        keeper.join()
        with suppress(ReleaseError), database.writing() as book:
            leases.give_up(book, lease)
