"""Decisions of people about a ledger: accounts, plans and signing keys.

Each decision is one ledger entry with a name and a reason. People open, raise, restate and close
accounts, approve plans or withdraw the approval, open and close question desks, and add signing
keys.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from fractions import Fraction
from types import MappingProxyType
from typing import Literal

from dp_core.accounts.signatures import Signer, key_proof
from dp_core.errors import BadInput, BudgetRefused, LedgerCorrupt
from dp_core.kernel.cost.composition import Composition, Terms
from dp_core.kernel.ledger.account_terms import Charter
from dp_core.kernel.ledger.running_totals import other_owner
from dp_core.kernel.privacy import Neighbours
from dp_core.policies.budget_periods import Calendar, calendar_of, is_raised
from dp_core.policies.refused_attempts import (
    MOST_REFUSED,
    Attempts,
    attempts_of,
    attempts_of_family,
    examined_by_desk,
)
from dp_core.policies.tried_schemas import TriedSchemas, tried_schemas
from dp_core.schema.definition import Schema
from tasks.ledger.accounts import Account, read_account
from tasks.ledger.anchors.ledger_anchor import LedgerAnchor
from tasks.ledger.database.ledger_database import Database, reads
from tasks.ledger.database.transaction import Transaction
from tasks.ledger.reservation_check import (
    check_new_attempt,
    open_in_words,
    refused_in_family,
    tried_parts,
)
from tasks.support.budget_refusals import show


def new_attempts(book: Transaction, name: str) -> int:
    """Return the number of attempts that an account and its family may begin now."""
    found = attempts_of_family(book, name)
    return max(0, MOST_REFUSED - found.recent - found.open)


def schemas_tried(book: Transaction, name: str) -> TriedSchemas:
    """Return the schemas that the family of an account has tried on its data."""
    return tried_schemas(book, name, book.today())


class Decisions:
    """The decisions about one ledger, in one database."""

    def __init__(
        self,
        url: str,
        signer: Signer | None = None,
        anchor: LedgerAnchor | None = None,
        *,
        demo: bool = False,
    ) -> None:
        """Open the ledger; create it if the database is empty.

        Args:
            url: SQLAlchemy URL of SQLite or PostgreSQL.
            signer: Key that signs new entries; required if the ledger has keys.
            anchor: Notes that every write checks and moves; None (the default) without them.
            demo: Whether a new ledger is that of a demo; False by default.
        """
        self._database = Database(url, signer, anchor, demo=demo)
        self.anchor = anchor

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
        core_only: bool = False,
    ) -> Account:
        """Open an account and fix its total.

        Args:
            name: Unique in the ledger.
            terms: Total and composition.
            neighbours: Neighbouring relation of all its releases.
            unit: Unit of privacy, `row` (the default) or `person`.
            by: Person who opens it.
            reason: Reason for the decision.
            owner: Person responsible for it; defaults to `by`.
            calendar: Allowance per period, starting on the day of opening; None (the default)
                without one.
            within: Account above, whose total covers this one too; None (the default) without one.
            approved_only: Whether plans must be approved before they run; by default not.
            core_only: Whether plans that may ask the kernel's extensions are refused; by default
                not.

        Returns:
            The account with its balance.

        Raises:
            BadInput: if the name is taken, or the account above does not exist, is closed, or has
                another neighbouring relation or unit.
        """
        with self._database.writing() as book:
            if book.charter(name) is not None:
                raise BadInput(
                    f"Account {name!r} is open already; `dp-release ledger show {name}` shows it."
                )
            if within is not None:
                _check_above(book, within, neighbours, unit)
            if calendar is not None:
                # An earlier start would carry over the allowance of periods before the opening.
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
                    **({"core_only": True} if core_only else {}),
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

        Args:
            name: Name of the account.
            epsilon: New total epsilon; None (the default) to keep it.
            delta: New total delta; None (the default) to keep it.
            calendar: New allowance per period; None (the default) to keep it.
            by: Person who decides.
            reason: Reason for the decision.

        Raises:
            BadInput: if there is no such account, it is closed, or the new values are not a raise.
        """
        with self._database.writing() as book:
            account = _open_account(book, name)
            terms = account.terms
            epsilon = terms.epsilon if epsilon is None else epsilon
            delta = terms.delta if delta is None else delta
            before = account.calendar
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
                    f"The periods of account {name!r} cannot be changed and their allowance can"
                    " only be raised; a calendar cannot be added after the opening."
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
        """Change an account's composition, and recompute the cost of its whole history under it.

        Args:
            name: Name of the account.
            composition: Composition from now on.
            own_delta: Part of delta set aside for the events' own deltas (zcdp).
            period_delta: Allowance per period: delta (basic) or own delta (zcdp). Required if the
                account has a calendar and the composition changes; None (the default) otherwise.
            by: Person who decides.
            reason: Reason for the decision.

        Raises:
            BadInput: if there is no such account, it is closed, or the terms are invalid.
            BudgetRefused: if the history exceeds the total under the new terms.
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
                    f"What account {name!r} has reserved and spent exceeds its total under"
                    f" {composition} composition; it keeps its terms."
                ) from None
        return self.account(name)

    def close_account(self, name: str, *, by: str, reason: str) -> None:
        """Close an account to new reservations.

        Raises:
            BadInput: if there is no such account, or it is closed already.
        """
        with self._database.writing() as book:
            if read_account(book, name).charter.closed:
                raise BadInput(f"Account {name!r} is closed already.")
            book.append("close", account=name, body={"by": by, "reason": reason})

    def allow_retry(self, name: str, *, by: str, reason: str) -> Attempts:
        """Allow further attempts on an account that refused attempts have stopped.

        The refused attempts of this account no longer count; those of its family still do. The
        schemas that its family tried no longer count either.

        Args:
            name: Name of the account.
            by: Person who decides.
            reason: Reason for the decision.

        Returns:
            The account's attempts after the decision.

        Raises:
            BadInput: if there is no such account, or refused attempts have not stopped it.
        """
        with self._database.writing() as book:
            read_account(book, name)
            if not schemas_tried(book, name).is_full:
                _require_stopped(book, name)
            book.append("allow-retry", account=name, body={"by": by, "reason": reason})
            return attempts_of(book, name)

    new_attempts = reads(new_attempts)
    tried_schemas = reads(schemas_tried)
    attempts = reads(attempts_of)
    account = reads(read_account)

    # -- plans

    def approve(self, plan: str, *, by: str, reason: str) -> None:
        """Approve a plan by its hash.

        Raises:
            BadInput: if it is approved already.
        """
        self._decide(plan, "approve", by=by, reason=reason)

    def withdraw(self, plan: str, *, by: str, reason: str) -> None:
        """Withdraw the approval of a plan; an existing reservation for it stays open.

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

    # -- question desks

    def open_desk(
        self,
        account: str,
        terms: str,
        schema: Schema,
        *,
        by: str,
        reason: str,
        examines: str | None = None,
        fits: str | None = None,
    ) -> None:
        """Record that a person opens a question desk, or opens it again under other terms.

        Args:
            account: Account of the desk.
            terms: Hash of its terms.
            schema: Its schema, which counts as a tried schema unless it was tried before.
            by: Person who decides.
            reason: Reason for the decision.
            examines: Keyed hash of its data, if they are opened next to check whether they fit the
                schema. The desk takes no questions until `fits` is recorded. None by default.
            fits: Keyed hash of its data, if they were checked and fit the schema. Questions about
                these data then do not count. None (the default) if they were not checked.

        Raises:
            BudgetRefused: if there is no such account, it may not try a further schema, or refused
                attempts have stopped it.
            StageFailed: if the account takes no attempt until open ones are over.
        """
        self._end_other_opening(account, f"{terms} {examines or fits}", by=by, reason=reason)
        data = {"examines": examines, "fits": fits}
        self._of_desk("open-desk", account, terms, schema, by=by, reason=reason, data=data)

    def close_desk(self, account: str, terms: str, *, by: str, reason: str) -> None:
        """Record that a person closes a question desk.

        Args:
            account: Account of the desk.
            terms: Hash of the terms under which it was open.
            by: Person who decides.
            reason: Reason for the decision.

        Raises:
            BudgetRefused: if there is no such account.
        """
        self._of_desk("close-desk", account, terms, None, by=by, reason=reason)

    def desk_data_owner(self, account: str, hashes: Collection[str]) -> str | None:
        """Return the account of another family that the data of a desk belong to; None without one.

        The answer closes the desk, which counts as a refused attempt of its account, once for each
        opening. A stopped account recognises no data: the answer is None.

        Args:
            account: Account of the desk.
            hashes: Keyed hash of the data, and of each part of them.

        Privacy:
            The answer is exact, so it is recorded before it is given.
        """

        def found(book: Transaction) -> tuple[str, str] | None:
            owners = ((other_owner(book, one, account), one) for one in hashes)
            return next(((owner, one) for owner, one in owners if owner is not None), None)

        with self._database.reading() as book:
            if found(book) is None:
                return None
        with self._database.writing() as book:
            other = found(book)
            assert other is not None, "The account of an input never leaves its family."
            last = book.latest(kinds=("open-desk", "close-desk"), account=account)
            assert last is not None, "Only a desk that was opened is looked up."
            if last.body.get("refused") not in hashes:
                if attempts_of_family(book, account).is_full:
                    return None
                body = {name: last.body[name] for name in ("terms", "by", "reason")}
                body["refused"] = other[1]
                book.append("close-desk", account=account, about=last.about, body=body)
            return other[0]

    def _end_other_opening(self, account: str, opening: str, *, by: str, reason: str) -> None:
        """Count an opening that was interrupted, of other terms or data, as a refused attempt."""
        with self._database.writing() as book:
            examined = examined_by_desk(book, account)
            if examined not in (None, opening):
                terms = str(examined).partition(" ")[0]
                body = {"terms": terms, "by": by, "reason": reason}
                book.append("close-desk", account=account, about=terms, body=body)

    def _of_desk(
        self,
        kind: Literal["open-desk", "close-desk"],
        account: str,
        terms: str,
        schema: Schema | None,
        *,
        by: str,
        reason: str,
        data: Mapping[str, str | None] = MappingProxyType({}),
    ) -> None:
        body: dict[str, object] = {"terms": terms, "by": by, "reason": reason}
        with self._database.writing() as book:
            if book.charter(account) is None:
                raise BudgetRefused(f"There is no account {account!r}.", row="no-account")
            if schema is not None:
                known = {name: one for name, one in data.items() if one}
                hashed = next(iter(known.values()), "")
                # privacy: a stopped account recognises no data, and the opening looks them up.
                if examined_by_desk(book, account) != f"{terms} {hashed}":
                    check_new_attempt(book, account)
                body |= {"schema": tried_parts(book, account, schema, hashed), **known}
            book.append(kind, account=account, about=terms, body=body)

    # -- keys

    def add_key(self, signer: Signer, *, replaces: str | None, by: str, reason: str) -> None:
        """Add a signing key; from then on every entry must be signed.

        The first key signs its own entry; a valid key signs the entry of a later one. Each key
        also signs, inside its entry, the link of the preceding entry.

        Args:
            signer: The new key.
            replaces: Fingerprint of a key that may no longer sign, or None.
            by: Person who made the key.
            reason: Reason for the decision.

        Raises:
            BadInput: if the key is known already, `replaces` is not a valid key, or the ledger has
                keys and this process has none of them.
        """
        with self._database.writing() as book:
            known = [entry.body for entry in book.find(kinds=("key",))]
            valid = book.valid_keys()
            if any(body["fingerprint"] == signer.fingerprint for body in known):
                raise BadInput(
                    f"The ledger knows key {signer.fingerprint} already; make a new one."
                )
            if replaces is not None and replaces not in valid:
                raise BadInput(
                    f"Key {replaces} does not sign this ledger, so it cannot be replaced;"
                    f" these do: {', '.join(sorted(valid)) or 'none'}."
                )
            body: dict[str, object] = {
                "public_key": signer.public,
                "fingerprint": signer.fingerprint,
                "replaces": replaces,
                "by": by,
                "reason": reason,
            }
            # The new key signs the history so far, so trusting it does not require the old key.
            body["proof"] = signer.sign(key_proof(body, book.head().link))
            if not known:
                book.signer = signer
            book.append("key", about=signer.fingerprint, body=body)


def _open_account(book: Transaction, name: str) -> Account:
    account = read_account(book, name)
    if account.charter.closed:
        raise BadInput(f"Account {name!r} is closed and cannot be changed.")
    return account


def _require_stopped(book: Transaction, name: str) -> None:
    """Raise BadInput unless refused attempts on an account have stopped it."""
    if not attempts_of_family(book, name).is_full:
        raise BadInput(
            f"Refused attempts have not stopped account {name!r}, so there is nothing to allow;"
            f" `dp-release ledger show {name}` shows how many there were."
        )
    others = refused_in_family(book, name)
    if not others:
        raise BadInput(
            f"The data have refused no attempt on account {name!r} since further ones were last"
            f" allowed, so there is nothing to allow. {open_in_words(book, name)}"
        )
    if name not in others:
        raise BadInput(
            f"No attempt on account {name!r} was refused since further ones were last allowed; in"
            f" its family these have refused attempts: {', '.join(others)}. Type `dp-release ledger"
            f" allow-retry {next(iter(others))} --by NAME --reason TEXT`."
        )


def _check_above(book: Transaction, name: str, neighbours: Neighbours, unit: str) -> None:
    above = _open_account(book, name).charter
    if (above.neighbours, above.unit) != (neighbours, unit):
        raise BadInput(
            f"Account {name!r} protects one {above.unit} under {above.neighbours}; an account"
            " within it must do the same."
        )


def _restated_calendar(
    charter: Charter, composition: Composition, delta: Fraction | None
) -> Calendar | None:
    calendar = calendar_of(charter)
    if calendar is None:
        if delta is not None:
            raise BadInput(
                f"Account {charter.name!r} has no calendar, so a delta per period cannot be set."
            )
        return None
    if delta is None:
        if composition != charter.terms.composition:
            raise BadInput(
                f"Account {charter.name!r} has an allowance per {calendar.period}. Its delta has"
                f" another meaning under {composition} composition, so a new one must be given."
            )
        return calendar
    return replace(calendar, delta=delta)
