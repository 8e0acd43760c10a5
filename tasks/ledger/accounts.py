"""Accounts for display: total, reserved, spent, left, and the amount that each release took."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, replace
from fractions import Fraction

from dp_core.accounts.largest_release import epsilon_of
from dp_core.errors import BadInput
from dp_core.kernel.cost.composition import NOTHING, Amount, Composition, Tally, Terms
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.ledger.account_terms import Charter, promise_of
from dp_core.kernel.ledger.running_totals import Balance, balance, lineage, recounted, subtree, use
from dp_core.policies.account_balance import Standing, recounted_periods, room_on, standing, taken
from dp_core.policies.budget_periods import Calendar, calendar_of
from tasks.ledger.database.transaction import Transaction
from tasks.support.budget_refusals import RecentUse, no_account


@dataclass(frozen=True, slots=True)
class Used:
    """The amount that one release took of an account's total.

    Attributes:
        release: Name of the release.
        account: Account in its spec: this one, or one within it.
        amount: Reserved or spent amount, in the account's composition.
        epsilon, delta: Guarantee of the release alone; 0 if the release was returned.
        outcome: Outcome of its settlement; `reserved` before it.
        day: Day of its reservation, in UTC.
        measurements: The release whose results it used at no cost; None if it measured.
    """

    release: str
    account: str
    amount: Amount
    epsilon: Fraction
    delta: Fraction
    outcome: str
    day: datetime.date
    measurements: str | None = None


@dataclass(frozen=True, slots=True)
class Above:
    """An account above another one that has less left than that one.

    Attributes:
        name: Name of the account.
        terms: Terms of the account; they determine the unit of `left`.
        left: Amount that it can promise today.
    """

    name: str
    terms: Terms
    left: Amount


@dataclass(frozen=True, slots=True)
class Account:
    """The account of one protected population: its terms and its balance.

    Attributes:
        charter: Current terms.
        balance: Reserved and spent amounts.
        left: Amount that it can promise today, by its own total and calendar.
        above: The account above it with the least left; None if none has less left than `left`.
        day: The ledger's current day, in UTC.
    """

    charter: Charter
    balance: Balance
    left: Amount
    above: Above | None
    day: datetime.date

    @property
    def name(self) -> str:
        """Name of the account, unique in the ledger."""
        return self.charter.name

    @property
    def terms(self) -> Terms:
        """Total and composition."""
        return self.charter.terms

    @property
    def calendar(self) -> Calendar | None:
        """Allowance per period; None without one."""
        return calendar_of(self.charter)

    @property
    def total_left(self) -> Amount:
        """Amount left of its own total, without the limit of its calendar."""
        return self.terms.limit - self.balance.used


def account_names(book: Transaction) -> list[str]:
    """Return the names of all accounts, in the order of their opening."""
    return [entry.receipt.account for entry in book.find(kinds=("open",))]


def read_lineage(book: Transaction, name: str) -> tuple[Charter, ...]:
    """Return the terms of an account and of every account above it, the nearest first.

    Raises:
        BadInput: if there is no such account.
    """
    found = lineage(book, name)
    if not found:
        raise BadInput(no_account(account_names(book), name), row="no-account")
    return found


def read_account(book: Transaction, name: str) -> Account:
    """Return an account with its balance.

    Raises:
        BadInput: if there is no such account.
    """
    accounts, today = read_lineage(book, name), book.today()
    charter = accounts[0]
    left = room_on(book, charter, today)
    others = [Above(above.name, above.terms, room_on(book, above, today)) for above in accounts[1:]]
    less = [other for other in others if _leaves_less(other, charter.terms, left)]
    least = min(less, key=lambda other: epsilon_of(other.terms, other.left), default=None)
    return Account(charter, balance(book, name), left, least, today)


def find_account(book: Transaction, name: str) -> Account | None:
    """Return an account with its balance; None if it does not exist."""
    return None if book.charter(name) is None else read_account(book, name)


def all_accounts(book: Transaction) -> tuple[Account, ...]:
    """Return every account, in the order of their opening."""
    return tuple(read_account(book, name) for name in account_names(book))


def paying_accounts(book: Transaction, name: str) -> tuple[Account, ...]:
    """Return an account and every account above it, the nearest first.

    Raises:
        BadInput: if there is no such account.
    """
    return tuple(read_account(book, charter.name) for charter in read_lineage(book, name))


def covered_accounts(book: Transaction, name: str) -> tuple[str, ...]:
    """Return the names of an account and of all accounts within it, at any depth.

    Raises:
        BadInput: if there is no such account.
    """
    return tuple(subtree(book, read_lineage(book, name)[0].name))


def _leaves_less(above: Above, terms: Terms, left: Amount) -> bool:
    """Return whether an account above has less left; compare epsilons unless both are basic."""
    if above.terms.composition == terms.composition == "basic":
        return not left.within(above.left)
    return epsilon_of(above.terms, above.left) < epsilon_of(terms, left)


def read_uses(book: Transaction, name: str) -> tuple[Used, ...]:
    """Return the amount that every release took of an account, in the order of reservation.

    Raises:
        BadInput: if there is no such account.
    """
    charter = read_lineage(book, name)[0]
    found: list[tuple[int, Used]] = []
    for promise, settlement in book.promises_of(subtree(book, name)):
        amount = taken(book, charter, promise, settlement)
        outcome = "reserved" if settlement is None else str(settlement.body["outcome"])
        epsilon, delta = promise.epsilon, promise.delta
        if outcome == "returned":
            epsilon, delta = Fraction(0), Fraction(0)
        named = promise.measurements
        used_by = Used(
            promise.release,
            promise.account,
            amount,
            epsilon,
            delta,
            outcome,
            promise.day,
            measurements=named.release if named else None,
        )
        found.append((promise.position, used_by))
    return tuple(used for _, used in sorted(found, key=lambda item: item[0]))


def read_recent_uses(book: Transaction, charter: Charter, most: int) -> list[RecentUse]:
    """Return the latest releases that took a positive amount of an account, newest first.

    Args:
        book: The ledger, inside a transaction.
        charter: The account.
        most: Largest number of releases to return.
    """
    entries = [
        entry
        for account in subtree(book, charter.name)
        for entry in book.find(kinds=("reserve",), account=account, last=10 * most)
    ]
    found: list[RecentUse] = []
    for entry in sorted(entries, key=lambda entry: entry.position, reverse=True):
        promise = promise_of(entry.position, entry.receipt)
        end = book.settlement_of(entry.position)
        amount = taken(book, charter, promise, end.receipt if end else None)
        if amount != NOTHING:
            found.append(RecentUse(promise.release, amount, promise.day, end is not None))
        if len(found) == most:
            break
    return found


def read_balances(
    book: Transaction, name: str, composition: Composition | None = None
) -> tuple[Standing, ...]:
    """Return today's balance of an account and of every account above it, the nearest first.

    Args:
        book: The ledger, inside a transaction.
        name: Name of the account.
        composition: Composition under which to compute all balances, from the whole history and
            with the largest possible delta per period; None (the default) for the accounts' own.

    Raises:
        BadInput: if there is no such account, or one of them cannot be restated.
    """
    accounts, today = read_lineage(book, name), book.today()
    return tuple(
        standing(book, charter, today)
        if composition is None or composition == charter.terms.composition
        else _restated(book, charter, composition)
        for charter in accounts
    )


def read_tallies(book: Transaction, name: str) -> tuple[tuple[Currency, Tally], ...]:
    """Return the currency and the charges of every release that an account pays for."""
    return tuple(
        (promise.currency, use(book, promise.position).tally)
        for promise, _ in book.promises_of(subtree(book, name))
    )


def _restated(book: Transaction, charter: Charter, composition: Composition) -> Standing:
    old = charter.terms
    if composition == "zcdp" and old.delta == 0:
        raise BadInput(f"account {charter.name!r} has delta 0, but zcdp needs a positive delta")
    terms = Terms(composition, old.epsilon, old.delta, Fraction(0))
    calendar = calendar_of(charter)
    if calendar is not None:
        # A restatement states the calendar's delta; this assumes the largest possible one.
        calendar = replace(calendar, delta=terms.delta if terms.is_basic else terms.own_delta)
    stated = None if calendar is None else calendar.to_json()
    other = replace(charter, terms=terms, calendar=stated)
    used = recounted(book, other).used
    if not used.within(other.terms.limit):
        raise BadInput(f"the history of account {charter.name!r} exceeds its total")
    return Standing(
        terms=other.terms,
        calendar=calendar,
        limit=other.terms.limit,
        used=used,
        used_in_period=recounted_periods(book, other),
        name=other.name,
    )
