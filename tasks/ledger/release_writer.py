"""Entries that the holder of a lease writes: reserve, input, charge, redraw, commit, settle.

Only a `ReleaseWriter` writes for a release, and `Ledger.lease` gives it to one process at a time.
Each write checks the rules and the lease inside one write transaction.
"""

from __future__ import annotations

import hmac
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from fractions import Fraction
from typing import Literal

from dp_core.accounts.memory_session import check_steps
from dp_core.errors import BadInput, BudgetRefused, DataRefused, ReleaseError, StageFailed
from dp_core.kernel.ledger.entries import Entry, charge_key
from dp_core.kernel.ledger.running_totals import use
from dp_core.kernel.mechanisms.grant import Step
from dp_core.plan.plan import Plan
from dp_core.policies.approval import ENDS, Cause, Decision, Gate
from dp_core.policies.approved_plans import barred_by
from dp_core.policies.refused_attempts import Verdict, examination_of
from dp_core.policies.stage_grant import PAYS, StageGrant
from tasks.ledger import leases
from tasks.ledger.database.ledger_database import Database, reads
from tasks.ledger.database.transaction import Transaction
from tasks.ledger.input_seals import is_sealed, seal
from tasks.ledger.reservation_check import check_input_schema, check_new_attempt, check_opening
from tasks.ledger.reservation_entries import (
    add,
    add_settlement,
    check_stages,
    require_open,
    reserve,
)
from tasks.ledger.reservations import (
    Charge,
    Reservation,
    identity_of,
    is_charged,
    planned,
    read_charges,
    read_gate,
    read_reservation,
)

MOST_DRAWS = 5
"""Largest number of draws of one result; after that a person must find the cause."""

_RENEWALS = 4
"""Number of renewals of a lease within its lifetime."""


class ReleaseWriter:
    """Writes the ledger's entries of one release, under the lease of this process."""

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

    # -- attempts to use the data

    def examine(self, reservation: Reservation) -> bool:
        """Record that the release opens its confidential data; call it before they are opened.

        A release whose data were opened before continues that attempt: it asks the same
        question of the same data. A new attempt begins after an unreadable one, which answered
        nothing, and, if the release has charges, after a refused one, which was another file's.

        Returns:
            Whether this call began the attempt.

        Raises:
            BudgetRefused: if the account must not make attempts until a person allows it.
            StageFailed: if too many of its attempts are open.
        """
        with self._writing(reservation) as book:
            state = examination_of(book, reservation.position)
            other_file = state == "refused" and is_charged(book, reservation)
            if state not in (None, "unreadable") and not other_file:
                return False
            check_new_attempt(book, reservation.account)
            add(book, reservation, "examine", body=_again(book, reservation, "examine"))
            return True

    def judge(self, reservation: Reservation, verdict: Verdict) -> None:
        """Record how the attempt of a release ended; a second verdict changes nothing.

        If the release has charges, an attempt that fits ends at once, because no first charge
        follows.

        Args:
            reservation: The release's reservation.
            verdict: `fits`, `refused`, or `unreadable` if the files or the table could not be read.
        """
        with self._writing() as book:
            if examination_of(book, reservation.position) == "open":
                body: dict[str, object] = {"verdict": verdict}
                # Earlier versions wrote neither flag.
                if verdict == "fits":
                    body["counted"] = True  # in `Attempts.fitted`
                    if is_charged(book, reservation):
                        body["charged"] = True  # ends the attempt
                body |= _again(book, reservation, "verdict")
                add(book, reservation, "verdict", body=body)

    def bind_input(
        self,
        reservation: Reservation,
        input_hash: str,
        key: bytes,
        parts: Mapping[str, str] | None = None,
    ) -> None:
        """Bind a reservation permanently to its input and to this home.

        Args:
            reservation: The release's reservation.
            input_hash: Keyed hash of the input.
            key: The home's confidential key, which seals the entry.
            parts: Keyed hash of each part of the input by the part's name; None (the default) if
                the input is one file. Each part then belongs to the account by itself.

        Raises:
            BadInput: if the input changed; the ledger counts a refused attempt.
            BudgetRefused: if refused attempts have stopped the account, whatever the input is, or
                the family may not try a further schema on the input.
            DataRefused: if another account has used the input.
            StageFailed: if the ledger's inputs are sealed with another key, or the release was
                begun in another home.
        """
        if not self._bind(reservation, input_hash, key, parts or {}):
            raise BadInput(
                f"The data of release {self.release!r} changed since it began. The ledger counts"
                " a refused attempt; put the original file back and resume, or abandon the"
                " release.",
                row="data-changed",
            )

    def _bind(
        self, reservation: Reservation, input_hash: str, key: bytes, parts: Mapping[str, str]
    ) -> bool:
        """Bind the input; return whether it is the one that was bound before, or the first."""
        with self._writing(reservation) as book:
            mine = book.latest(kinds=("input",), reservation=reservation.position)
            # privacy: under another key the same data have another hash.
            known = mine or book.latest(kinds=("input",))
            if known is not None and not is_sealed(known, key):
                raise StageFailed(
                    "The inputs in this ledger are sealed with another key than this home's, so"
                    " data that were used before would not be recognised. Set DP_RELEASE_HOME to"
                    " the home that made the ledger, or copy that home's input.key to this one.",
                    row="input-key-other",
                )
            if mine is not None:
                return self._is_same(book, reservation, mine, input_hash)
            for known_by in (*parts.values(), input_hash):
                self._require_own(book, reservation, known_by)
            check_input_schema(book, reservation, input_hash)
            promised = (reservation.position, reservation.release, reservation.account)
            for name, part_hash in parts.items():
                sealed = {"table": name, "seal": seal(key, *promised, part_hash)}
                body = {"home": self.lease.holder.home, **sealed}
                add(book, reservation, "input", about=part_hash, body=body)
            # The input itself comes last, so it is the latest entry that binds the reservation.
            body = {
                "home": self.lease.holder.home,
                "seal": seal(key, *promised, input_hash),
            }
            add(book, reservation, "input", about=input_hash, body=body)
            return True

    def _require_own(self, book: Transaction, reservation: Reservation, input_hash: str) -> None:
        """Refuse an input, or a part of it, that belongs to another account.

        Raises:
            DataRefused: if it does, and this plan may not use it.
        """
        barred = barred_by(book, input_hash, reservation.account, reservation.plan)
        if barred is None:
            return
        owner, why = barred
        earlier = book.latest(kinds=("input",), about=input_hash, account=owner)
        assert earlier is not None
        whose = f"belongs to account {owner!r} (release {earlier.receipt.release!r})"
        # privacy: a refusal can confirm a guess of the other account's data, so it is counted.
        if why == "of another family":
            raise DataRefused(
                f"This data file {whose}; name that account in the spec, because another account"
                " would give the same people a fresh budget. The ledger counts a refused attempt.",
                row="data-of-another-account",
            )
        raise DataRefused(
            f"This data file {whose}, and plans for that account need approval; name that account"
            " in the spec, or have this plan approved with `dp-release ledger approve`. The ledger"
            " counts a refused attempt.",
            row="data-of-another-account",
        )

    def _is_same(
        self, book: Transaction, reservation: Reservation, mine: Entry, input_hash: str
    ) -> bool:
        """Return whether an input is the bound one; if it is not, record a refused attempt.

        Privacy:
            Otherwise whoever may resume could compare any number of guessed files with the data. A
            stopped account compares none, so a guess has no answer that is not counted.
        """
        check_opening(book, reservation)
        if not hmac.compare_digest(str(mine.about), input_hash):
            if examination_of(book, reservation.position) != "open":
                add(book, reservation, "examine", body=_again(book, reservation, "examine"))
            again = _again(book, reservation, "verdict")
            add(book, reservation, "verdict", body={"verdict": "refused", **again})
            return False
        self._require_home(mine)
        return True

    def _require_home(self, mine: Entry) -> None:
        if mine.body["home"] != self.lease.holder.home:
            # privacy: that home may have results of the charges, so drawing here would be a second
            # draw.
            raise StageFailed(
                f"Release {self.release!r} was begun in another home, which has its noisy results."
                " Resume it there: they are never drawn again.",
                row="other-home",
            )

    def grant(self, reservation: Reservation, plan: str, stage: str) -> StageGrant:
        """Return the permission of a stage to look at the data; nothing is recorded.

        Args:
            reservation: The release's reservation.
            plan: Hash of the plan that the stage carries out.
            stage: Stage of the pipeline; one of `PAYS`.

        Raises:
            BadInput: if the release's last attempt to use its data did not find them to fit.
            BudgetRefused: if the stage's charges exceed what its plan reserved.
            StageFailed: if another process took over, the reservation is closed or was made for
                another plan, or the release is not bound to its input or to this home.
        """
        with self._database.reading() as book:
            leases.require(book, self.lease)
            require_open(book, reservation)
            if reservation.plan != plan:
                raise StageFailed(
                    f"Stage {stage!r} of release {self.release!r} carries out plan {plan}, but"
                    f" {reservation.plan} was reserved; nothing was charged."
                )
            self._bound_input(book, reservation)
            state = examination_of(book, reservation.position)
            if state not in (None, "fits", "charged"):
                raise BadInput(
                    f"The last attempt of release {self.release!r} to use its data did not find"
                    f" them to fit, so stage {stage!r} gets no grant; nothing was charged. Type"
                    f" `dp-release status {self.release}`: if the release is still open, resume it,"
                    " otherwise run it again."
                )
            used = use(book, reservation.position)
            left = {
                share: reservation.costs.get(share, Fraction(0)) - used.of(share)
                for share in PAYS[stage]
            }
        over = [share for share, rest in left.items() if rest < 0]
        if over:
            raise BudgetRefused(
                f"Release {self.release!r} has charged more for {over[0]!r} than its plan reserved;"
                f" stage {stage!r} gets no grant."
            )
        return StageGrant(
            stage, self.release, reservation.link, reservation.plan, self.lease.fence, left
        )

    def _bound_input(self, book: Transaction, reservation: Reservation) -> Entry:
        """Return the entry that binds a reservation to its input and to this home.

        Raises:
            StageFailed: if there is none, or it names another home.
        """
        mine = book.latest(kinds=("input",), reservation=reservation.position)
        if mine is None:
            raise StageFailed(
                f"Release {self.release!r} is not bound to its input yet; nothing was charged."
            )
        self._require_home(mine)
        return mine

    def charge(
        self, reservation: Reservation, batch: str, steps: Sequence[Step]
    ) -> tuple[Charge, ...]:
        """Record events as spent, all in one transaction, before the data are read.

        A batch that was charged before returns its charges, so nothing is paid twice.

        Args:
            reservation: The release's reservation.
            batch: Name of the steps that are drawn and committed together.
            steps: The steps to pay for.

        Raises:
            ValueError: if an event costs more than its step's budget.
            BudgetRefused: if a stage's budget does not allow it; nothing is recorded.
            StageFailed: if the batch was charged for other steps, the input is not known, the
                release was begun in another home, or it pays in `mixed` and the batch charged
                before is not committed.
        """
        check_steps(reservation.currency, steps)
        with self._writing(reservation) as book:
            mine = self._bound_input(book, reservation)
            old = read_charges(book, reservation, batch)
            if old:
                if [identity_of(charge) for charge in old] != [planned(step) for step in steps]:
                    raise StageFailed(
                        f"{batch!r} of release {self.release!r} was charged for other measurements"
                        " than this run makes; abandon the release.",
                        row="charged-otherwise",
                    )
                return old
            _require_drawn(book, reservation, batch)
            check_stages(book, reservation, steps)
            for step in steps:
                add(
                    book,
                    reservation,
                    "charge",
                    about=batch,
                    key=charge_key(
                        reservation.release,
                        step.stage,
                        step.name,
                        str(mine.about),
                        reservation.plan,
                    ),
                    body={
                        "batch": batch,
                        "stage": step.stage,
                        "step": step.name,
                        "cost": str(step.cost),
                        "event": step.event.to_json(),
                        "asks": dict(step.asks),
                    },
                )
            return read_charges(book, reservation, batch)

    def record_redraw(self, reservation: Reservation, batch: str) -> None:
        """Record that a charged result is drawn again because it never reached the disk.

        Raises:
            StageFailed: after too many draws, or if the result was committed.
        """
        with self._writing(reservation) as book:
            charges = read_charges(book, reservation, batch)
            if not charges:
                raise ValueError(f"{batch!r} was not charged.")
            if any(charge.result for charge in charges):
                raise StageFailed(f"The result of {batch!r} is committed; it is not drawn again.")
            draws = max(charge.draws for charge in charges)
            if draws >= MOST_DRAWS:
                raise StageFailed(
                    f"{batch!r} of release {self.release!r} was drawn {draws} times without its"
                    " result reaching the disk, and is not drawn again. Find the cause, then"
                    " abandon the release.",
                    row="drawn-too-often",
                )
            add(
                book,
                reservation,
                "attempt",
                about=batch,
                body={"batch": batch, "attempt": draws + 1, "fence": self.lease.fence},
            )

    def commit(self, reservation: Reservation, batch: str, result: str) -> None:
        """Record the hash of a stored result, which binds it to the charges that paid for it."""
        with self._writing(reservation) as book:
            add(book, reservation, "commit", about=batch, body={"batch": batch, "result": result})

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


def _again(
    book: Transaction, reservation: Reservation, kind: Literal["examine", "verdict"]
) -> dict[str, int]:
    """Return the number of earlier entries of a kind of one release; nothing for the first."""
    before = len(book.find(kinds=(kind,), reservation=reservation.position))
    return {"again": before} if before else {}


def _require_drawn(book: Transaction, reservation: Reservation, batch: str) -> None:
    """Check that the batch charged last is committed, if the release pays in `mixed`.

    Raises:
        StageFailed: if it is not.

    Privacy:
        The proof in `dp_core.kernel.cost.covered_choices` needs the results to be drawn in the
        order of their charges. If each batch is committed before the next one is charged, they are.
    """
    last = book.latest(kinds=("charge",), reservation=reservation.position)
    if reservation.currency.kind != "mixed" or last is None:
        return
    if not book.has(f"commit/{reservation.position}/{last.about}"):
        raise StageFailed(
            f"{batch!r} of release {reservation.release!r} cannot be charged before the result of"
            f" {last.about!r} is committed: a private choice on the Gaussian curve is covered only"
            " if results are drawn in the order of their charges. Resume the release."
        )


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
