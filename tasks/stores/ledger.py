"""The ledger: append-only rows in a database, and the rules for adding one.

Every rule is decided inside one write transaction that holds the database's write lock, so two
processes cannot both see the same budget as free. The balance of an account is read from the rows
of its reservations and settlements alone, never from charges.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from dp_core.canonical import canonical_json
from dp_core.errors import BadInput, BudgetRefused, LedgerCorrupt, StageFailed
from dp_core.ledger import Step, check_steps
from dp_core.plan import Plan
from dp_core.privacy import Neighbours
from dp_core.receipts import START, Row, row_hash
from tasks.stores.accounts import Account, check_account, read_account
from tasks.stores.database import Database, Rows
from tasks.stores.reservations import (
    Charge,
    Reservation,
    continued,
    give_back,
    identity_of,
    planned,
    read_charges,
    read_reservation,
    require_open,
)

MOST_ATTEMPTS = 5
"""Draws of one result that may fail for outside reasons before a person has to look."""


class Ledger:
    """All accounts of one home, in one database."""

    def __init__(self, url: str) -> None:
        """Open the ledger, creating it if it is a new SQLite file.

        Args:
            url: SQLAlchemy URL.
        """
        self._database = Database(url)

    # -- accounts

    def open_account(
        self,
        name: str,
        *,
        epsilon: Fraction,
        delta: Fraction,
        neighbours: Neighbours,
        unit: str,
        composition: str,
        by: str,
        reason: str,
    ) -> Account:
        """Open an account and fix its total.

        Raises:
            BadInput: if the name is taken.
        """
        body = {
            "epsilon": str(epsilon),
            "delta": str(delta),
            "neighbours": neighbours,
            "unit": unit,
            "composition": composition,
            "by": by,
            "reason": reason,
        }
        with self._database.writing() as rows:
            if rows.find(kind="open", account=name):
                raise BadInput(
                    f"Account {name!r} is open already; `dp-release ledger show {name}` shows it."
                )
            rows.append("open", account=name, body=body)
        return self.account(name)

    def close_account(self, name: str, *, by: str, reason: str) -> None:
        """Let no more releases be reserved from an account."""
        self.account(name)
        with self._database.writing() as rows:
            if rows.find(kind="close", account=name):
                raise BadInput(f"Account {name!r} is closed already.")
            body = {"by": by, "reason": reason}
            rows.append("close", account=name, body=body)

    def account(self, name: str) -> Account:
        """Return an account with its balance.

        Raises:
            BadInput: if there is none of that name, naming the nearest.
        """
        with self._database.reading() as rows:
            return read_account(rows, name)

    def find_account(self, name: str) -> Account | None:
        """Return an account with its balance, None if there is none of that name."""
        with self._database.reading() as rows:
            return read_account(rows, name) if rows.find(kind="open", account=name) else None

    def accounts(self) -> tuple[Account, ...]:
        """Return every account, in the order of their opening."""
        with self._database.reading() as rows:
            return tuple(read_account(rows, row.account) for row in rows.find(kind="open"))

    # -- a release

    def check(self, plan: Plan) -> None:
        """Raise what `reserve` would raise now; records nothing."""
        with self._database.reading() as rows:
            if continued(rows, plan) is None:
                # An open reservation of it spent nothing, or `_continued` would have said so.
                account = read_account(rows, plan.spec.account, without=plan.spec.release)
                check_account(account, plan)

    def reserve(self, plan: Plan, *, sets: int) -> Reservation:
        """Promise a plan's whole cost, or refuse and record nothing.

        A release that holds a reservation for the same plan gets that one again; one for another
        plan is given back first, if nothing was charged to it.

        Raises:
            BadInput: if the account does not exist or the name was used.
            BudgetRefused: if the account does not allow it.
        """
        spec = plan.spec
        privacy = spec.privacy
        with self._database.writing() as rows:
            held = continued(rows, plan)
            if held is not None:
                return held
            earlier = read_reservation(rows, spec.release)
            if earlier is not None and earlier.outcome is None:
                # It was for another plan and spent nothing; left open it could never be settled.
                give_back(rows, earlier)
            check_account(read_account(rows, spec.account), plan)
            body = {
                "epsilon": str(privacy.epsilon),
                "delta": str(privacy.delta),
                "neighbours": privacy.neighbours,
                "unit": "row",
                "plan": plan.hash,
                "sets": sets,
                "currency": {"kind": plan.currency.kind, "limit": str(plan.currency.limit)},
                "costs": {stage: str(cost) for stage, cost in plan.costs.items()},
            }
            rows.append("reserve", account=spec.account, release=spec.release, body=body)
            reservation = read_reservation(rows, spec.release)
        assert reservation is not None
        return reservation

    def bind_input(self, reservation: Reservation, input_hash: str, key: bytes) -> None:
        """Tie a reservation to its input for good.

        Args:
            reservation: Of the release.
            input_hash: Keyed hash of the input.
            key: The confidential key, to seal the entry.

        Raises:
            BadInput: if the input changed since, or is known from another account.
            StageFailed: if the key is not the one that the ledger's inputs are sealed with.
        """
        with self._database.writing() as rows:
            known = rows.inputs()
            if not all(_is_sealed(entry, key) for entry in known):
                # privacy: under another key the same data have another hash.
                raise StageFailed(
                    "The inputs in this ledger were sealed with another key than this home's, so"
                    " data it has seen would not be recognised; set DP_RELEASE_HOME to the home"
                    " that made the ledger, or copy that home's input.key to this one."
                )
            for entry in known:
                same = hmac.compare_digest(entry["input"], input_hash)
                if entry["release"] == reservation.release:
                    if entry["reservation"] != reservation.number:
                        continue
                    if same:
                        return
                    raise BadInput(
                        f"The data of release {reservation.release!r} changed since it began;"
                        " put the original file back and resume, or abandon the release."
                    )
                if same and entry["account"] != reservation.account:
                    raise BadInput(
                        f"This data file belongs to account {entry['account']!r} (release"
                        f" {entry['release']!r}); name that account in the spec: another account"
                        " would give the same people a fresh budget."
                    )
            rows.add_input(
                release=reservation.release,
                reservation=reservation.number,
                account=reservation.account,
                input=input_hash,
                seal=_seal(
                    key,
                    reservation.number,
                    reservation.release,
                    reservation.account,
                    input_hash,
                ),
            )

    def reservation(self, release: str) -> Reservation | None:
        """Return the latest reservation of a release, None if it never had one."""
        with self._database.reading() as rows:
            return read_reservation(rows, release)

    def charge(
        self, reservation: Reservation, batch: str, steps: Sequence[Step]
    ) -> tuple[Charge, ...]:
        """Record events as spent, all in one transaction, before the data are touched.

        Steps of a batch that was charged before return their charges; nothing is paid twice.

        Raises:
            BudgetRefused: if a stage's budget does not allow it; nothing is recorded.
            StageFailed: if the batch was charged for other steps.
        """
        check_steps(reservation.currency, steps)
        with self._database.writing() as rows:
            require_open(rows, reservation)
            charges = read_charges(rows, reservation)
            old = [charge for charge in charges if charge.batch == batch]
            if old:
                if [identity_of(charge) for charge in old] != [planned(step) for step in steps]:
                    raise StageFailed(
                        f"{batch!r} of release {reservation.release!r} was charged for other"
                        " measurements than are asked for now; abandon the release."
                    )
                return tuple(old)
            for stage in dict.fromkeys(step.stage for step in steps):
                asked = sum((s.cost for s in steps if s.stage == stage), Fraction(0))
                spent = sum((c.cost for c in charges if c.stage == stage), Fraction(0))
                limit = reservation.costs.get(stage, Fraction(0))
                if asked + spent > limit:
                    raise BudgetRefused(
                        f"Stage {stage!r} of release {reservation.release!r} asks for"
                        f" {float(asked):.6g} but has {float(limit - spent):.6g} left of the"
                        f" {float(limit):.6g} its plan reserved."
                    )
            for step in steps:
                rows.append(
                    "charge",
                    account=reservation.account,
                    release=reservation.release,
                    body={
                        "reservation": reservation.number,
                        "batch": batch,
                        "stage": step.stage,
                        "step": step.name,
                        "cost": str(step.cost),
                        "event": step.event.to_json(),
                    },
                )
            return tuple(c for c in read_charges(rows, reservation) if c.batch == batch)

    def attempt(self, reservation: Reservation, batch: str) -> None:
        """Record that a charged result which never reached the disk is drawn again.

        Raises:
            StageFailed: after too many attempts, or if the result was committed.
        """
        with self._database.writing() as rows:
            require_open(rows, reservation)
            charges = [c for c in read_charges(rows, reservation) if c.batch == batch]
            if any(charge.result for charge in charges):
                raise StageFailed(f"The result of {batch!r} is committed; it is not drawn again.")
            attempts = max(charge.attempts for charge in charges)
            if attempts >= MOST_ATTEMPTS:
                raise StageFailed(
                    f"{batch!r} of release {reservation.release!r} was drawn {attempts} times"
                    " without its result reaching the disk; find the cause, then abandon the"
                    " release: it is not drawn again without a person."
                )
            rows.add_attempt(reservation.number, batch, attempts + 1)

    def charges(self, reservation: Reservation, batch: str | None = None) -> tuple[Charge, ...]:
        """Return the charges of a release, or of one batch of it."""
        with self._database.reading() as rows:
            charges = read_charges(rows, reservation)
        return tuple(c for c in charges if batch is None or c.batch == batch)

    def commit(self, reservation: Reservation, batch: str, result: str) -> None:
        """Bind a stored result, by the hash of its file, to the charges that paid for it."""
        with self._database.writing() as rows:
            require_open(rows, reservation)
            rows.append(
                "commit",
                account=reservation.account,
                release=reservation.release,
                body={"reservation": reservation.number, "batch": batch, "result": result},
            )

    def settle(
        self, reservation: Reservation, outcome: str, *, stored: bool = False
    ) -> Reservation:
        """End a release: what it reserved and did not charge goes back.

        Args:
            reservation: Of the release.
            outcome: `finished` or `abandoned`; with nothing charged, `returned` lets the name be
                used again.
            stored: Whether a result may lie on disk that was not committed: it may have been seen.

        Privacy:
            In pure epsilon exactly the charges stay spent. On a curve, stopping after a result
            was seen returns nothing: the epsilon of what was charged holds for a total fixed
            beforehand, not for one chosen by looking, which can fail with a multiple of delta
            (Rogers, Roth, Ullman & Vadhan 2016: a filter is no odometer).
        """
        with self._database.writing() as rows:
            require_open(rows, reservation)
            charges = read_charges(rows, reservation)
            spent = sum((charge.cost for charge in charges), Fraction(0))
            currency = reservation.currency
            if outcome == "returned" and charges:
                raise ValueError("A reservation that was charged is not returned.")
            seen = stored or any(charge.result is not None for charge in charges)
            whole = spent == currency.limit or (seen and currency.kind != "pure")
            epsilon = (
                reservation.epsilon
                if whole
                else min(reservation.epsilon, currency.epsilon(spent, reservation.delta))
            )
            pure = currency.kind == "pure" or not charges
            delta = Fraction(0) if pure else reservation.delta
            rows.append(
                "settle",
                account=reservation.account,
                release=reservation.release,
                body={
                    "reservation": reservation.number,
                    "outcome": outcome,
                    "spent": str(spent),
                    "epsilon": str(epsilon),
                    "delta": str(delta),
                },
            )
            settled = read_reservation(rows, reservation.release)
        assert settled is not None
        return settled

    # -- reading and checking

    def rows(self, *, release: str | None = None, account: str | None = None) -> tuple[Row, ...]:
        """Return rows in order: all, of one release, or of one account."""
        with self._database.reading() as rows:
            return rows.find(release=release, account=account)

    def releases(self) -> tuple[str, ...]:
        """Return the names of all releases, in the order of their reservation."""
        with self._database.reading() as rows:
            return tuple(dict.fromkeys(row.release for row in rows.find(kind="reserve")))

    def knows_inputs(self) -> bool:
        """Return whether any input is sealed in it."""
        with self._database.reading() as rows:
            return bool(rows.inputs())

    def times(self, release: str) -> Mapping[int, str]:
        """Return when each row of a release was recorded, to the second; for staff."""
        with self._database.reading() as rows:
            return rows.times(release)

    def receipts(self, reservation: Reservation) -> tuple[Row, ...]:
        """Return the rows of one reservation, in order, from its promise on."""
        with self._database.reading() as rows:
            return tuple(
                row
                for row in rows.find(release=reservation.release)
                if row.number == reservation.number
                or row.body.get("reservation") == reservation.number
            )

    def head(self) -> Row:
        """Return the last row."""
        with self._database.reading() as rows:
            return rows.last()

    def holds(self, number: int, row_hash: str) -> bool:
        """Return whether the row of that number has that hash."""
        with self._database.reading() as rows:
            return any(row.hash == row_hash for row in rows.find(number=number))

    def identity(self) -> str:
        """Return the ledger's own identifier."""
        with self._database.reading() as rows:
            return str(rows.find(kind="ledger")[0].body["id"])

    def verify(self, key: bytes | None = None) -> tuple[int, str]:
        """Check every row; return how many there are and the hash of the last.

        Args:
            key: The confidential key; with it the seals of the inputs are checked too.

        Raises:
            LedgerCorrupt: naming the first row that does not fit.
        """
        previous, last_of = START, dict[str, str]()
        count = 0
        with self._database.reading() as rows:
            for row in rows.walk():
                count += 1
                if row.number != count:
                    raise LedgerCorrupt(f"Row {count} of the ledger is missing.")
                if row.hash != row_hash(row):
                    raise LedgerCorrupt(f"Row {row.number} ({row.kind}) was changed.")
                begins = not row.release or row.kind == "reserve"
                in_release = START if begins else last_of.get(row.release, START)
                if row.previous != previous or row.previous_in_release != in_release:
                    raise LedgerCorrupt(
                        f"Row {row.number} ({row.kind}) does not follow row {row.number - 1}."
                    )
                previous = row.hash
                if row.release:
                    last_of[row.release] = row.hash
            if key is not None:
                _verify_inputs(rows, key)
            for _ in rows.walk_attempts():
                pass
            for account in rows.find(kind="open"):
                balance = read_account(rows, account.account)
                if balance.left_epsilon < 0 or balance.left_delta < 0:
                    raise LedgerCorrupt(f"Account {account.account!r} is overspent.")
        return count, previous


def _seal(key: bytes, reservation: int, release: str, account: str, input_hash: str) -> str:
    message = canonical_json([reservation, release, account, input_hash])
    return hmac.new(key, message, hashlib.sha256).hexdigest()


def _is_sealed(entry: Mapping[str, Any], key: bytes) -> bool:
    names = ("reservation", "release", "account", "input")
    seal = _seal(key, *(entry[name] for name in names))
    return hmac.compare_digest(seal, str(entry["seal"]))


def _verify_inputs(rows: Rows, key: bytes) -> None:
    """Raise LedgerCorrupt unless every input is as sealed, and no charged release lacks one."""
    sealed: set[object] = set()
    for entry in rows.inputs():
        if not _is_sealed(entry, key):
            raise LedgerCorrupt(f"The input recorded for release {entry['release']!r} was changed.")
        sealed.add(entry["reservation"])
    for row in rows.find(kind="charge"):
        if row.body["reservation"] not in sealed:
            raise LedgerCorrupt(f"The input recorded for release {row.release!r} is missing.")
