"""Entries about the data: attempts, verdicts, the input, charges, redraws and commits."""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Literal

from dp_core.accounts.memory_session import check_steps
from dp_core.errors import BadInput, BudgetRefused, DataRefused, StageFailed
from dp_core.kernel.ledger.entries import Entry, charge_key
from dp_core.kernel.ledger.running_totals import use
from dp_core.kernel.mechanisms.grant import Step
from dp_core.policies.approved_plans import barred_by
from dp_core.policies.refused_attempts import Examination, Verdict, examination_of
from dp_core.policies.stage_grant import PAYS, StageGrant
from tasks.ledger import leases
from tasks.ledger.database.transaction import Transaction
from tasks.ledger.input_seals import is_sealed, seal
from tasks.ledger.release_writer import LeasedWriter
from tasks.ledger.reservation_check import check_input_schema, check_new_attempt, check_opening
from tasks.ledger.reservation_entries import add, check_stages, require_open
from tasks.ledger.reservations import (
    Charge,
    Reservation,
    identity_of,
    is_charged,
    planned,
    read_charges,
)

MOST_DRAWS = 5
"""Largest number of draws of one result; after that a person must find the cause."""


class ChargingWriter(LeasedWriter):
    """Writes what a release does with its data, under the lease that Prefect's process holds."""

    # -- attempts to use the data

    def examine(self, reservation: Reservation) -> bool:
        """Record that the release opens its confidential data; call it before they are opened.

        A release whose data were opened before continues that attempt: it asks the same
        question of the same data. A new attempt begins after an unreadable one and, if the release
        has charges, after a refused one, which was another file's.

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

    def judge(self, reservation: Reservation, verdict: Verdict) -> Examination | None:
        """Record how the attempt of a release ended; a second verdict changes nothing.

        If the release has charges, an attempt that fits ends at once, because no first charge
        follows.

        Args:
            reservation: The release's reservation.
            verdict: `fits`, `refused`, or `unreadable` if the files or the table could not be read.

        Returns:
            How it ended, by the ledger; None if the release never opened its data.
        """
        with self._writing() as book:
            if examination_of(book, reservation.position) == "open":
                body: dict[str, object] = {"verdict": verdict}
                # Earlier versions wrote neither flag.
                if verdict != "refused":
                    body["counted"] = True  # in `Attempts.fitted` or `refused`
                if verdict == "fits" and is_charged(book, reservation):
                    body["charged"] = True  # ends the attempt
                body |= _again(book, reservation, "verdict")
                add(book, reservation, "verdict", body=body)
            return examination_of(book, reservation.position)

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
            BudgetRefused: if refused attempts have stopped the account, whatever the input is, or
                the family may not try a further schema on the input.
            DataRefused: if the input changed, or another account has used it; the ledger counts a
                refused attempt.
            StageFailed: if the ledger's inputs are sealed with another key, or the release was
                begun in another home.
        """
        if not self._bind(reservation, input_hash, key, parts or {}):
            raise DataRefused(
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
