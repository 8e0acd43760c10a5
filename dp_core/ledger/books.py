"""What entries amount to: accounts, promises, and the running totals that each entry changes.

The rules are here once: the database asks them before it adds an entry, and an audit asks them
again of every entry that is there. Neither trusts the totals of the other.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, Protocol, cast

from dp_core.accounting.composition import NO_CHARGES, NOTHING, Amount, Tally, Terms
from dp_core.accounting.currency import Currency
from dp_core.accounting.events import Event, event_from_json
from dp_core.canonical import canonical_json
from dp_core.exact import exact_fraction
from dp_core.ledger.entries import Entry
from dp_core.ledger.receipts import Receipt
from dp_core.periods import Calendar
from dp_core.privacy import Neighbours
from dp_core.standing import Standing, room

OUTCOMES = ("finished", "abandoned", "returned")
"""How a release ends."""

OF_ACCOUNT = ("open", "raise", "restate", "close")
"""Kinds that say what an account is."""


@dataclass(frozen=True, slots=True)
class Charter:
    """What an account is, as it stands now.

    Attributes:
        name: Unique in the ledger.
        terms: Total, and how releases add up.
        calendar: Allowance per period, None without one.
        neighbours: The relation every release of it uses.
        unit: Who is protected.
        within: Account whose total also covers this one, None for none.
        approved_only: Whether only approved plans run.
        owner: Who answers for it.
        opened: Day of opening.
        changes: Days of raising and restating, with the kind and the terms that held from then on.
        closed: Whether it takes no more releases.
    """

    name: str
    terms: Terms
    calendar: Calendar | None
    neighbours: Neighbours
    unit: str
    within: str | None
    approved_only: bool
    owner: str
    opened: datetime.date
    changes: tuple[tuple[datetime.date, str, Terms], ...] = ()
    closed: bool = False


@dataclass(frozen=True, slots=True)
class Promise:
    """What one reservation set aside for a release.

    Attributes:
        position: Of its entry.
        release: Name.
        account: Account that pays.
        plan: Hash of the plan.
        epsilon, delta: Guarantee of the release.
        currency: What the release pays in, and its total.
        costs: Of each stage, in that currency.
        day: On which it was made; its period pays.
    """

    position: int
    release: str
    account: str
    plan: str
    epsilon: Fraction
    delta: Fraction
    currency: Currency
    costs: Mapping[str, Fraction]
    day: datetime.date


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


def _balance_text(value: Balance) -> str:
    return _text([value.reserved.to_json(), value.spent.to_json()])


def _use_text(value: Use) -> str:
    tally = value.tally
    stages = {stage: str(spent) for stage, spent in (value.stages or {}).items()}
    sums = [tally.charges, str(tally.cost), str(tally.rho), str(tally.own_delta)]
    return _text([*sums, value.results, stages])


def _text(value: object) -> str:
    return canonical_json(value).decode()


# -- reading receipts


def charter_of(receipts: Sequence[Receipt]) -> Charter:
    """Return the account that its own receipts (opening, raising, ...) make, in order."""
    charter: Charter | None = None
    for receipt in receipts:
        charter = _amended(charter, receipt)
    if charter is None:
        raise ValueError("An account begins with its opening.")
    return charter


def _amended(charter: Charter | None, receipt: Receipt) -> Charter:
    body: Mapping[str, Any] = receipt.body
    day = datetime.date.fromisoformat(receipt.at)
    if receipt.kind == "open":
        if body["calendar"] and body["calendar"]["start"] != receipt.at:
            raise ValueError("A calendar begins on the day of opening.")
        return Charter(
            name=receipt.account,
            terms=Terms(
                composition=body["composition"],
                epsilon=exact_fraction(body["epsilon"]),
                delta=exact_fraction(body["delta"]),
                own_delta=exact_fraction(body["own_delta"]),
            ),
            calendar=Calendar.from_json(body["calendar"]) if body["calendar"] else None,
            neighbours=cast(Neighbours, body["neighbours"]),
            unit=body["unit"],
            within=body["within"],
            approved_only=body["approved_only"],
            owner=body["owner"],
            opened=day,
        )
    if charter is None:
        raise ValueError("An account begins with its opening.")
    terms, calendar = charter.terms, charter.calendar
    if receipt.kind == "close":
        return replace(charter, closed=True)
    if receipt.kind == "raise":
        terms = replace(
            terms, epsilon=exact_fraction(body["epsilon"]), delta=exact_fraction(body["delta"])
        )
        calendar = Calendar.from_json(body["calendar"]) if body["calendar"] else None
    else:
        own_delta = exact_fraction(body["own_delta"])
        terms = replace(terms, composition=body["composition"], own_delta=own_delta)
    changes = (*charter.changes, (day, receipt.kind, terms))
    return replace(charter, terms=terms, calendar=calendar, changes=changes)


def promise_of(position: int, receipt: Receipt) -> Promise:
    """Return what the receipt of a reservation promises."""
    body: Mapping[str, Any] = receipt.body
    currency = body["currency"]
    return Promise(
        position=position,
        release=receipt.release,
        account=receipt.account,
        plan=body["plan"],
        epsilon=exact_fraction(body["epsilon"]),
        delta=exact_fraction(body["delta"]),
        currency=Currency(currency["kind"], exact_fraction(currency["limit"])),
        costs={stage: exact_fraction(cost) for stage, cost in body["costs"].items()},
        day=datetime.date.fromisoformat(receipt.at),
    )


def charged_event(receipt: Receipt) -> tuple[Fraction, Event]:
    """Return the cost and the event of a charge."""
    return _charged(str(receipt.body["cost"]), canonical_json(receipt.body["event"]))


@lru_cache(maxsize=64)
def _charged(cost: str, event: bytes) -> tuple[Fraction, Event]:
    # As text, in which 1, 1.0 and true differ. Charges of one batch often have the same event.
    return exact_fraction(cost), event_from_json(json.loads(event))


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


def standing(book: Book, charter: Charter, day: datetime.date) -> Standing:
    """Return how an account stands, with the use of the period that a day is in."""
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
    """Return what a reservation takes of an account's total."""
    return charter.terms.promised(promise.currency, promise.epsilon, promise.delta)


def settled(charter: Charter, promise: Promise, used: Use, settlement: Receipt) -> Amount:
    """Return what a release that is over took of an account's total."""
    return charter.terms.spent_of(
        used.tally,
        promise.currency,
        promise.epsilon,
        promise.delta,
        seen=bool(settlement.body["seen"]),
    )


# -- what an entry changes


def changes(entry: Entry, book: Book) -> dict[str, str]:
    """Return the running totals that an entry changes, by subject, as they are after it."""
    match entry.kind:
        case "open":
            return {account_total(entry.receipt.account): _balance_text(Balance())}
        case "reserve":
            return _reserve(promise_of(entry.position, entry.receipt), book)
        case "charge":
            assert entry.reservation is not None
            before = use(book, entry.reservation)
            cost, event = charged_event(entry.receipt)
            stage = str(entry.body["stage"])
            stages = {**(before.stages or {}), stage: before.of(stage) + cost}
            after = Use(before.tally.plus(cost, event), before.results, stages)
            return {reservation_total(entry.reservation): _use_text(after)}
        case "commit":
            assert entry.reservation is not None
            before = use(book, entry.reservation)
            after = replace(before, results=before.results + 1)
            return {reservation_total(entry.reservation): _use_text(after)}
        case "settle":
            return _settle(entry, book)
        case "restate":
            return _restate(entry, book)
    return {}


def _reserve(promise: Promise, book: Book) -> dict[str, str]:
    found: dict[str, str] = {}
    for charter in lineage(book, promise.account):
        amount = promised(charter, promise)
        state = balance(book, charter.name)
        state = replace(state, reserved=state.reserved + amount)
        found[account_total(charter.name)] = _balance_text(state)
        found |= _in_period(book, charter, promise.day, amount)
    return found


def _settle(entry: Entry, book: Book) -> dict[str, str]:
    assert entry.reservation is not None
    promise = book.promise(entry.reservation)
    assert promise is not None
    used = use(book, entry.reservation)
    found: dict[str, str] = {}
    for charter in lineage(book, promise.account):
        held, kept = promised(charter, promise), settled(charter, promise, used, entry.receipt)
        state = balance(book, charter.name)
        state = Balance(state.reserved - held, state.spent + kept)
        found[account_total(charter.name)] = _balance_text(state)
        found |= _in_period(book, charter, promise.day, kept - held)
    return found


def _in_period(book: Book, charter: Charter, day: datetime.date, amount: Amount) -> dict[str, str]:
    if charter.calendar is None:
        return {}
    index = charter.calendar.index(day)
    after = used_in_period(book, charter.name, index) + amount
    return {period_total(charter.name, index): _text(after.to_json())}


def _restate(entry: Entry, book: Book) -> dict[str, str]:
    """Count the whole history of an account again under its new terms; nothing is forgotten."""
    old = book.charter(entry.receipt.account)
    assert old is not None
    charter = _amended(old, entry.receipt)
    state, periods = Balance(), dict[int, Amount]()
    for promise, settlement in book.promises_of(_subtree(book, charter.name)):
        if settlement is None:
            amount = promised(charter, promise)
            state = replace(state, reserved=state.reserved + amount)
        else:
            amount = settled(charter, promise, use(book, promise.position), settlement)
            state = replace(state, spent=state.spent + amount)
        if charter.calendar is not None:
            index = charter.calendar.index(promise.day)
            periods[index] = periods.get(index, NOTHING) + amount
    found = {account_total(charter.name): _balance_text(state)}
    found |= {
        period_total(charter.name, index): _text(amount.to_json())
        for index, amount in periods.items()
    }
    return found


def _subtree(book: Book, account: str) -> list[str]:
    found = [account]
    for name in found:
        found += book.accounts_within(name)
    return found


# -- what an entry must not break


def broken_rule(entry: Entry, book: Book) -> str | None:
    """Return how an entry breaks the ledger's rules, None if it keeps them.

    Asked before the entry counts. Whoever writes asks for help with a better sentence first; this
    is the last word, and the audit's.
    """
    receipt = entry.receipt
    match entry.kind:
        case "ledger" | "key" | "approve" | "withdraw":
            return None
        case "open":
            within = receipt.body["within"]
            if within is not None and book.charter(str(within)) is None:
                return "stands within an account that is not open"
        case "raise" | "restate" | "close":
            charter = book.charter(receipt.account)
            if charter is None or charter.closed:
                return "concerns an account that is not open"
            return _broken_by_terms(entry, charter, book)
        case "reserve":
            return _broken_by_promise(promise_of(entry.position, receipt), receipt, book)
        case "input" | "charge" | "attempt" | "commit" | "settle":
            return _broken_in_release(entry, book)
        case _:
            return "is of a kind that this version does not know"
    return None


def _broken_by_terms(entry: Entry, charter: Charter, book: Book) -> str | None:
    if entry.kind == "close":
        return None
    after = _amended(charter, entry.receipt)
    if entry.kind == "raise":
        if not charter.terms.limit.within(after.terms.limit):
            return "lowers the total of its account"
        grows = is_raised(charter.calendar, after.calendar)
        return None if grows else "changes the calendar of its account otherwise than up"
    state = json.loads(_restate(entry, book)[account_total(charter.name)])
    used = Amount.from_json(state[0]) + Amount.from_json(state[1])
    return None if used.within(after.terms.limit) else "restates more than its account holds"


def is_raised(before: Calendar | None, after: Calendar | None) -> bool:
    """Return whether a calendar allows no less than before, in the same periods.

    What a period used is counted by its number, so the same number must stay the same period.
    """
    if before is None or after is None:
        return before is after
    same = replace(after, epsilon=before.epsilon, delta=before.delta) == before
    return same and after.epsilon >= before.epsilon and after.delta >= before.delta


def _broken_by_promise(promise: Promise, receipt: Receipt, book: Book) -> str | None:
    if book.is_used(promise.release):
        return "reserves under a name that is used"
    if sum(promise.costs.values(), Fraction(0)) > promise.currency.limit:
        return "sets aside more for its stages than it reserves"
    accounts = lineage(book, promise.account)
    if not accounts or any(charter.closed for charter in accounts):
        return "reserves from an account that is not open"
    for charter in accounts:
        protects = receipt.body["neighbours"], receipt.body["unit"]
        if protects != (charter.neighbours, charter.unit):
            return f"protects otherwise than account {charter.name!r}"
        if charter.approved_only and not book.approved(promise.plan):
            return "reserves for a plan that was not approved"
        if not promised(charter, promise).within(room_on(book, charter, promise.day)):
            return f"promises more than account {charter.name!r} has left"
    return None


def _broken_in_release(entry: Entry, book: Book) -> str | None:
    promise = book.promise(entry.reservation) if entry.reservation is not None else None
    if promise is None or promise.release != entry.receipt.release:
        return "belongs to no reservation of its release"
    if book.has(f"settle/{promise.position}"):
        return "comes after its release was settled"
    body = entry.body
    match entry.kind:
        case "charge":
            if not book.has(f"input/{promise.position}"):
                return "charges before the input is known"
            cost, event = charged_event(entry.receipt)
            if cost <= 0 or promise.currency.cost(event) > cost:
                return "costs less than its event"
            stage = str(body["stage"])
            if use(book, promise.position).of(stage) + cost > promise.costs.get(stage, 0):
                return f"charges more than stage {stage!r} has"
        case "attempt" | "commit":
            if not book.charged(promise.position, str(body["batch"])):
                return "is about a result that was not charged"
            if entry.kind == "attempt" and book.has(f"commit/{promise.position}/{entry.about}"):
                return "draws a committed result again"
        case "settle":
            used = use(book, promise.position)
            if exact_fraction(body["spent"]) != used.tally.cost:
                return "states another sum than was charged"
            if body["outcome"] not in OUTCOMES or not isinstance(body["seen"], bool):
                return "ends its release in no way there is"
            if body["outcome"] == "returned" and used.tally.charges:
                return "gives back what was charged"
            if used.results and not body["seen"]:
                return "states that no result was seen, and there is one"
    return None
