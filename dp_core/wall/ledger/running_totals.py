"""Running totals: what the entries amount to, and what an account therefore has room for.

A `Book` is everything that the entries before this one amount to. The database is one
(`tasks.ledger.database.transaction`), and the audit builds another from the entries alone; what an
entry changes in it, and what an entry must not break, is in `dp_core.wall.ledger.rules`.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

from dp_core.documents.canonical import canonical_json
from dp_core.documents.exact import exact_fraction
from dp_core.wall.accounting.composition import NO_CHARGES, NOTHING, Amount, Tally
from dp_core.wall.ledger.account_balance import Standing, room
from dp_core.wall.ledger.account_terms import Charter, Promise
from dp_core.wall.ledger.receipts import Receipt


@dataclass(frozen=True, slots=True)
class Balance:
    """What became of an account's total.

    Attributes:
        reserved: Promised to releases that are not over.
        spent: Spent by releases that are.
    """

    reserved: Amount = NOTHING
    spent: Amount = NOTHING

    @property
    def used(self) -> Amount:
        """What no other release can be promised."""
        return self.reserved + self.spent


@dataclass(frozen=True, slots=True)
class Use:
    """What became of a reservation so far.

    Attributes:
        tally: Sums over its charges.
        results: Number of committed results.
        stages: Charged to each stage, in the release's currency.
    """

    tally: Tally = NO_CHARGES
    results: int = 0
    stages: Mapping[str, Fraction] | None = None

    def of(self, stage: str) -> Fraction:
        """Return what a stage was charged."""
        return (self.stages or {}).get(stage, Fraction(0))


class Book(Protocol):
    """Everything the entries before this one amount to."""

    def identity(self) -> str:
        """Return the ledger's own identifier."""

    def total(self, subject: str) -> str | None:
        """Return a running total as it was last written, None if it never was."""

    def charter(self, account: str) -> Charter | None:
        """Return an account, None if there is none of that name."""

    def promise(self, reservation: int) -> Promise | None:
        """Return a reservation by its position, None if there is none."""

    def promises_of(self, accounts: Sequence[str]) -> Iterator[tuple[Promise, Receipt | None]]:
        """Yield the reservations of accounts, each with its settlement if it is over."""

    def accounts_within(self, account: str) -> Sequence[str]:
        """Return the names of the accounts that stand directly within one."""

    def approved(self, plan: str) -> bool:
        """Return whether a plan is approved now."""

    def has(self, key: str) -> bool:
        """Return whether an entry with that unique key is there."""

    def charged(self, reservation: int, batch: str) -> bool:
        """Return whether a reservation was charged for a batch."""

    def is_used(self, release: str) -> bool:
        """Return whether a release of that name is under way or over; not if it was returned."""

    def account_of(self, input_hash: str) -> str | None:
        """Return the account that an input is known from, None if it is new."""


# -- subjects of running totals, and their spelling


def account_total(name: str) -> str:
    """Return the subject of an account's balance."""
    return f"account/{name}"


def period_total(name: str, index: int) -> str:
    """Return the subject of what an account used in one period."""
    return f"period/{name}/{index}"


def reservation_total(position: int) -> str:
    """Return the subject of what a reservation used."""
    return f"reservation/{position}"


def balance(book: Book, name: str) -> Balance:
    """Return the balance of an account."""
    text = book.total(account_total(name))
    if text is None:
        return Balance()
    reserved, spent = json.loads(text)
    return Balance(Amount.from_json(reserved), Amount.from_json(spent))


def used_in_period(book: Book, name: str, index: int) -> Amount:
    """Return what an account used in one period of its calendar."""
    text = book.total(period_total(name, index))
    return NOTHING if text is None else Amount.from_json(json.loads(text))


def use(book: Book, reservation: int) -> Use:
    """Return what a reservation used."""
    text = book.total(reservation_total(reservation))
    if text is None:
        return Use()
    return _use_of(text)


@lru_cache(maxsize=64)
def _use_of(text: str) -> Use:
    # The rules and the new total of each charge ask for the same one.
    charges, cost, rho, own_delta, results, stages = json.loads(text)
    tally = Tally(charges, exact_fraction(cost), exact_fraction(rho), exact_fraction(own_delta))
    return Use(tally, results, {stage: exact_fraction(spent) for stage, spent in stages.items()})


def balance_text(value: Balance) -> str:
    """Return a balance as its running total spells it."""
    return _text([value.reserved.to_json(), value.spent.to_json()])


def use_text(value: Use) -> str:
    """Return what a reservation used as its running total spells it."""
    tally = value.tally
    stages = {stage: str(spent) for stage, spent in (value.stages or {}).items()}
    sums = [tally.charges, str(tally.cost), str(tally.rho), str(tally.own_delta)]
    return _text([*sums, value.results, stages])


def amount_text(value: Amount) -> str:
    """Return what a period used as its running total spells it."""
    return _text(value.to_json())


def _text(value: object) -> str:
    return canonical_json(value).decode()


# -- what an account has room for


def lineage(book: Book, account: str) -> tuple[Charter, ...]:
    """Return an account, the one it stands within, and so on: all of them pay for its releases."""
    found: list[Charter] = []
    name: str | None = account
    while name is not None:
        charter = book.charter(name)
        if charter is None:
            break
        found.append(charter)
        name = charter.within
    return tuple(found)


def subtree(book: Book, account: str) -> list[str]:
    """Return the names of an account and of all that stand within it: it pays for all of them."""
    found = [account]
    for name in found:
        found += book.accounts_within(name)
    return found


def standing(book: Book, charter: Charter, day: datetime.date) -> Standing:
    """Return how an account stands, with the use of the period that a day is in.

    For one account as it is; `tasks.ledger.balances` reads it for all that pay, also as if they
    were restated.
    """
    in_period: dict[int, Amount] = {}
    if charter.calendar is not None:
        index = charter.calendar.index(day)
        in_period[index] = used_in_period(book, charter.name, index)
    return Standing(
        terms=charter.terms,
        calendar=charter.calendar,
        limit=charter.terms.limit,
        used=balance(book, charter.name).used,
        used_in_period=in_period,
        name=charter.name,
    )


def room_on(book: Book, charter: Charter, day: datetime.date) -> Amount:
    """Return what an account can promise on a day; a negative part means nothing."""
    return room(standing(book, charter, day), day)


def promised(charter: Charter, promise: Promise) -> Amount:
    """Return what a reservation takes of an account's total while its release is under way."""
    return charter.terms.promised(promise.currency, promise.epsilon, promise.delta)


def settled(charter: Charter, promise: Promise, used: Use, settlement: Receipt) -> Amount:
    """Return what a release that is over took of an account's total."""
    return charter.terms.spent(
        used.tally,
        promise.currency,
        promise.epsilon,
        promise.delta,
        seen=bool(settlement.body["seen"]),
    )


def taken(book: Book, charter: Charter, promise: Promise, settlement: Receipt | None) -> Amount:
    """Return what a release takes of an account's total: its promise, or what it took in the end.

    Args:
        book: That knows what it used.
        charter: The account, with the terms to count by.
        promise: Of the release.
        settlement: How it ended, None while it is under way.
    """
    if settlement is None:
        return promised(charter, promise)
    return settled(charter, promise, use(book, promise.position), settlement)


def recounted(book: Book, charter: Charter) -> tuple[Balance, dict[int, Amount]]:
    """Count the whole history of an account by its terms, as if it had always had them.

    Args:
        book: That holds the history.
        charter: The account, with the terms and the calendar to count by.

    Returns:
        Its balance, and what it used in each period in which anything was.
    """
    state, periods = Balance(), dict[int, Amount]()
    for promise, settlement in book.promises_of(subtree(book, charter.name)):
        amount = taken(book, charter, promise, settlement)
        if settlement is None:
            state = replace(state, reserved=state.reserved + amount)
        else:
            state = replace(state, spent=state.spent + amount)
        if charter.calendar is not None:
            index = charter.calendar.index(promise.day)
            periods[index] = periods.get(index, NOTHING) + amount
    return state, periods
