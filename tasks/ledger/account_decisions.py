"""What persons decide, each with a name and a reason: one entry for each decision.

Open, raise, restate, close an account; approve a plan or withdraw it; make a key known. Who may
hold a release, and what people read, is in `tasks.ledger.ledger`.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Literal

from dp_core.errors import BadInput, BudgetRefused, LedgerCorrupt
from dp_core.schema.privacy import Neighbours
from dp_core.wall.accounting.composition import Composition, Terms
from dp_core.wall.ledger.account_terms import Charter
from dp_core.wall.ledger.budget_periods import Calendar
from dp_core.wall.ledger.rules import is_raised
from dp_core.wall.ledger.signatures import Signer, key_proof
from tasks.ledger.accounts import Account, read_account
from tasks.ledger.database.ledger_database import Database
from tasks.ledger.database.transaction import Transaction, valid_keys
from tasks.support.budget_refusals import show


class Decisions:
    """The decisions about one ledger, in one database."""

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
        with self._database.writing() as book:
            if book.charter(name) is not None:
                raise BadInput(
                    f"Account {name!r} is open already; `dp-release ledger show {name}` shows it."
                )
            if within is not None:
                _check_above(book, within, neighbours, unit)
            if calendar is not None:
                # An earlier start would carry over what was never allowed.
                calendar = replace(calendar, start=book.today())
            book.append(
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
        with self._database.writing() as book:
            account = _open_account(book, name)
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
            book.append(
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
        with self._database.writing() as book:
            account = _open_account(book, name)
            old = account.terms
            try:
                terms = Terms(composition, old.epsilon, old.delta, own_delta)
            except ValueError as error:
                raise BadInput(f"Account {name!r} cannot be restated: {error}") from None
            if terms == old:
                raise BadInput(f"Account {name!r} has these terms already.")
            calendar = _restated_calendar(account.charter, composition, period_delta)
            try:
                book.append(
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
        with self._database.writing() as book:
            if read_account(book, name).charter.closed:
                raise BadInput(f"Account {name!r} is closed already.")
            book.append("close", account=name, body={"by": by, "reason": reason})

    def account(self, name: str) -> Account:
        """Return an account with its balance.

        Raises:
            BadInput: if there is none of that name, naming the nearest.
        """
        with self._database.reading() as book:
            return read_account(book, name)

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
        with self._database.writing() as book:
            if book.approved(plan) == (kind == "approve"):
                word = "approved already" if kind == "approve" else "not approved"
                raise BadInput(f"Plan {plan} is {word}.")
            book.append(kind, about=plan, body={"plan": plan, "by": by, "reason": reason})

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
        with database.reading() as book:
            known = [entry.body for entry in book.find(kinds=("key",))]
        first = not known
        if any(body["fingerprint"] == signer.fingerprint for body in known):
            raise BadInput(f"The ledger knows key {signer.fingerprint} already; make a new one.")
        if replaces is not None and replaces not in valid_keys(known):
            raise BadInput(
                f"Key {replaces} does not sign this ledger, so nothing can replace it;"
                f" these do: {', '.join(sorted(valid_keys(known))) or 'none'}."
            )
        if first:
            database = Database(database.url, signer)
        with database.writing() as book:
            body: dict[str, object] = {
                "public_key": signer.public,
                "fingerprint": signer.fingerprint,
                "replaces": replaces,
                "by": by,
                "reason": reason,
            }
            # The new key vouches for all that it takes over: who trusts it need not know the old.
            body["proof"] = signer.sign(key_proof(body, book.link()))
            book.append("key", about=signer.fingerprint, body=body)


def _open_account(book: Transaction, name: str) -> Account:
    account = read_account(book, name)
    if account.charter.closed:
        raise BadInput(f"Account {name!r} is closed; nothing of it changes any more.")
    return account


def _check_above(book: Transaction, name: str, neighbours: Neighbours, unit: str) -> None:
    above = _open_account(book, name).charter
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
