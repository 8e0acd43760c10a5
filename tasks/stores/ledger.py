"""The ledger: accounts and their changes, approvals, what people read, and the whole check.

What a release writes is in `tasks.stores.hold`; this module decides who may hold one, and what
persons do: open, raise, restate, close, approve. Each is one entry with a name and a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from fractions import Fraction
from typing import Literal

from dp_core.accounting.composition import Composition, Tally, Terms
from dp_core.accounting.currency import Currency
from dp_core.errors import BadInput, BudgetRefused, LedgerCorrupt
from dp_core.ledger.audit import Audit, Totals, audit
from dp_core.ledger.books import lineage, subtree
from dp_core.ledger.charters import Charter
from dp_core.ledger.entries import Entry
from dp_core.ledger.places import Place, Total
from dp_core.ledger.receipts import PUBLISHED, Receipt
from dp_core.ledger.rules import is_raised
from dp_core.ledger.signing import Signer, key_proof, public_key_of
from dp_core.periods import Calendar
from dp_core.plan import Plan
from dp_core.privacy import Neighbours
from dp_core.standing import Standing
from tasks.stores import leases
from tasks.stores.accounts import Account, Used, read_account, read_uses
from tasks.stores.database import Damaged, Database
from tasks.stores.hold import Hold, held, is_sealed, reserve
from tasks.stores.refusals import account_names, no_account, show
from tasks.stores.reservations import Charge, Reservation, read_charges, read_reservation
from tasks.stores.rows import Rows, known_signer, standing_keys
from tasks.stores.standings import read_standings, read_tallies

_PAGE = 1000


class Ledger:
    """All accounts of one ledger, in one database."""

    def __init__(self, url: str, signer: Signer | None = None) -> None:
        """Open the ledger, creating it where the database is empty.

        Args:
            url: SQLAlchemy URL of SQLite or PostgreSQL.
            signer: Key that signs what is written; needed where the ledger has keys.
        """
        self._database = Database(url, signer)

    # -- accounts

    def open_account(
        self,
        name: str,
        *,
        terms: Terms,
        neighbours: Neighbours,
        unit: str = "row",
        by: str,
        reason: str,
        owner: str | None = None,
        calendar: Calendar | None = None,
        within: str | None = None,
        approved_only: bool = False,
    ) -> Account:
        """Open an account and fix its total.

        Args:
            name: Unique in the ledger.
            terms: Total, and how releases add up.
            neighbours: The relation every release of it uses.
            unit: Who is protected.
            by: Who opens it.
            reason: Why.
            owner: Who answers for it; the one who opens it, if nobody else is named.
            calendar: Allowance per period; it begins on the day of opening.
            within: Account whose total is to cover this one too.
            approved_only: Whether only approved plans run.

        Raises:
            BadInput: if the name is taken, or the account above is not there or of other terms.
        """
        with self._database.writing() as rows:
            if rows.charter(name) is not None:
                raise BadInput(
                    f"Account {name!r} is open already; `dp-release ledger show {name}` shows it."
                )
            if within is not None:
                _check_above(rows, within, neighbours, unit)
            if calendar is not None:
                # An earlier start would carry over what was never allowed.
                calendar = replace(calendar, start=rows.today())
            rows.append(
                "open",
                account=name,
                about=within,
                body={
                    "epsilon": str(terms.epsilon),
                    "delta": str(terms.delta),
                    "own_delta": str(terms.own_delta),
                    "composition": terms.composition,
                    "neighbours": neighbours,
                    "unit": unit,
                    "calendar": calendar.to_json() if calendar else None,
                    "within": within,
                    "approved_only": approved_only,
                    "owner": owner or by,
                    "by": by,
                    "reason": reason,
                },
            )
        return self.account(name)

    def raise_account(
        self,
        name: str,
        *,
        epsilon: Fraction | None = None,
        delta: Fraction | None = None,
        calendar: Calendar | None = None,
        by: str,
        reason: str,
    ) -> Account:
        """Raise an account's total, or the allowance of its periods.

        Raises:
            BadInput: if there is no such account, or what is asked for is no raise.
        """
        with self._database.writing() as rows:
            account = _open_account(rows, name)
            terms = account.terms
            epsilon = terms.epsilon if epsilon is None else epsilon
            delta = terms.delta if delta is None else delta
            before = account.charter.calendar
            after = before if calendar is None else calendar
            if (epsilon, delta, after) == (terms.epsilon, terms.delta, before):
                raise BadInput(f"Account {name!r} has that total already; nothing was raised.")
            if epsilon < terms.epsilon or delta < terms.delta:
                raise BadInput(
                    f"The total of account {name!r} is epsilon {show(terms.epsilon)}, delta"
                    f" {show(terms.delta)}, and can only be raised."
                )
            if not is_raised(before, after):
                raise BadInput(
                    f"The calendar of account {name!r} keeps its periods, and their allowance can"
                    " only be raised; an account opened without a calendar gets none."
                )
            try:
                replace(terms, epsilon=epsilon, delta=delta)
            except ValueError as error:
                raise BadInput(f"Account {name!r} cannot be raised: {error}") from None
            rows.append(
                "raise",
                account=name,
                body={
                    "epsilon": str(epsilon),
                    "delta": str(delta),
                    "calendar": after.to_json() if after else None,
                    "by": by,
                    "reason": reason,
                },
            )
        return self.account(name)

    def restate_account(
        self,
        name: str,
        *,
        composition: Composition,
        own_delta: Fraction,
        period_delta: Fraction | None = None,
        by: str,
        reason: str,
    ) -> Account:
        """Let an account's releases add up in another way, counting its whole history again.

        Args:
            name: Of the account.
            composition: How releases add up from now on.
            own_delta: Part of delta set aside for events' own (zcdp).
            period_delta: What a period of its calendar allows: delta (basic) or own delta (zcdp).
                Needed where both are there, the calendar and another composition: the number that
                stands there means something else from now on.
            by: Who decides.
            reason: Why.

        Raises:
            BadInput: if there is no such account, or these terms cannot be.
            BudgetRefused: if the history comes to more than the total under the new terms.
        """
        with self._database.writing() as rows:
            account = _open_account(rows, name)
            old = account.terms
            try:
                terms = Terms(composition, old.epsilon, old.delta, own_delta)
            except ValueError as error:
                raise BadInput(f"Account {name!r} cannot be restated: {error}") from None
            if terms == old:
                raise BadInput(f"Account {name!r} has these terms already.")
            calendar = _restated_calendar(account.charter, composition, period_delta)
            try:
                rows.append(
                    "restate",
                    account=name,
                    body={
                        "composition": composition,
                        "own_delta": str(own_delta),
                        "calendar": calendar.to_json() if calendar else None,
                        "by": by,
                        "reason": reason,
                    },
                )
            except LedgerCorrupt:
                raise BudgetRefused(
                    f"What account {name!r} has promised and spent comes to more than its total"
                    f" under {composition} composition; it keeps its terms."
                ) from None
        return self.account(name)

    def close_account(self, name: str, *, by: str, reason: str) -> None:
        """Let no more releases be reserved from an account."""
        with self._database.writing() as rows:
            if read_account(rows, name).charter.closed:
                raise BadInput(f"Account {name!r} is closed already.")
            rows.append("close", account=name, body={"by": by, "reason": reason})

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
                raise BadInput(no_account(account_names(rows), name))
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

    def approve(self, plan: str, *, by: str, reason: str) -> None:
        """Approve a plan by its hash.

        Raises:
            BadInput: if it is approved already.
        """
        self._decide(plan, "approve", by=by, reason=reason)

    def withdraw(self, plan: str, *, by: str, reason: str) -> None:
        """Withdraw the approval of a plan; what was reserved for it stays reserved.

        Raises:
            BadInput: if it is not approved.
        """
        self._decide(plan, "withdraw", by=by, reason=reason)

    def _decide(
        self, plan: str, kind: Literal["approve", "withdraw"], *, by: str, reason: str
    ) -> None:
        with self._database.writing() as rows:
            if rows.approved(plan) == (kind == "approve"):
                word = "approved already" if kind == "approve" else "not approved"
                raise BadInput(f"Plan {plan} is {word}.")
            rows.append(kind, about=plan, body={"plan": plan, "by": by, "reason": reason})

    def approval(self, plan: str) -> Entry | None:
        """Return the approval of a plan that stands, None without one."""
        with self._database.reading() as rows:
            found = rows.latest(kinds=("approve", "withdraw"), about=plan)
        return found if found is not None and found.kind == "approve" else None

    # -- keys

    def add_key(self, signer: Signer, *, replaces: str | None, by: str, reason: str) -> None:
        """Make a signing key known; from then on every entry must be signed.

        The first key signs its own entry, a later one is signed by a key that stands; each also
        signs, within its entry, the link of the history it joins.

        Args:
            signer: The new key.
            replaces: Fingerprint of the key that no longer signs.
            by: Who made it.
            reason: Why.

        Raises:
            BadInput: if the ledger has keys and this process has none of them.
        """
        database = self._database
        with database.reading() as rows:
            known = [entry.body for entry in rows.find(kinds=("key",))]
        first = not known
        if any(body["fingerprint"] == signer.fingerprint for body in known):
            raise BadInput(f"The ledger knows key {signer.fingerprint} already; make a new one.")
        if replaces is not None and replaces not in standing_keys(known):
            raise BadInput(
                f"Key {replaces} does not sign this ledger, so nothing can replace it;"
                f" these do: {', '.join(sorted(standing_keys(known))) or 'none'}."
            )
        if first:
            database = Database(database.url, signer)
        with database.writing() as rows:
            body: dict[str, object] = {
                "public_key": signer.public,
                "fingerprint": signer.fingerprint,
                "replaces": replaces,
                "by": by,
                "reason": reason,
            }
            # The new key vouches for all that it takes over: who trusts it need not know the old.
            body["proof"] = signer.sign(key_proof(body, rows.link()))
            rows.append("key", about=signer.fingerprint, body=body)

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


def _open_account(rows: Rows, name: str) -> Account:
    account = read_account(rows, name)
    if account.charter.closed:
        raise BadInput(f"Account {name!r} is closed; nothing of it changes any more.")
    return account


def _check_above(rows: Rows, name: str, neighbours: Neighbours, unit: str) -> None:
    above = _open_account(rows, name).charter
    if (above.neighbours, above.unit) != (neighbours, unit):
        raise BadInput(
            f"Account {name!r} protects one {above.unit} under {above.neighbours}; an account"
            " within it does the same."
        )


def _restated_calendar(
    charter: Charter, composition: Composition, delta: Fraction | None
) -> Calendar | None:
    calendar = charter.calendar
    if calendar is None:
        if delta is not None:
            raise BadInput(f"Account {charter.name!r} has no calendar, so no delta of a period.")
        return None
    if delta is None:
        if composition != charter.terms.composition:
            raise BadInput(
                f"Account {charter.name!r} has an allowance per {calendar.period}; its delta means"
                f" something else under {composition} composition and must be stated anew."
            )
        return calendar
    return replace(calendar, delta=delta)
