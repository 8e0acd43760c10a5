"""The balance of an account on a day, its use in each period, and what it can still promise.

Both the ledger, before it reserves, and the forecast of future days use this check, so they agree.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date

from dp_core.kernel.canonical import canonical_json
from dp_core.kernel.cost.composition import NOTHING, Amount, Terms
from dp_core.kernel.ledger.account_terms import Charter, Promise, amended, promise_of
from dp_core.kernel.ledger.entries import Entry
from dp_core.kernel.ledger.receipts import Receipt
from dp_core.kernel.ledger.running_totals import (
    Book,
    balance,
    lineage,
    promised,
    settled,
    subtree,
    use,
)
from dp_core.policies.budget_periods import (
    Calendar,
    allowance,
    calendar_of,
    is_raised,
    is_same_but_delta,
)


@dataclass(frozen=True, slots=True)
class Standing:
    """An account's limits and the amounts used of them, as a promise is checked against.

    `dp_core.kernel.ledger.running_totals.Balance` holds the reserved and the spent amount apart.

    Attributes:
        terms: Composition and total of the account.
        calendar: Allowance per period, None without one.
        limit: Total of the account, including any raise.
        used: Amount reserved or spent since the account was opened.
        used_in_period: Amount reserved or spent by the releases that were reserved in each period,
            by the period's index; 0 for a period that is not listed.
        name: Name of the account for messages; empty by default.
    """

    terms: Terms
    calendar: Calendar | None
    limit: Amount
    used: Amount
    used_in_period: Mapping[int, Amount] = field(default_factory=dict)
    name: str = ""


def total_left(standing: Standing) -> Amount:
    """Return the amount left of the total; a negative part counts as 0."""
    return standing.limit - standing.used


def room(standing: Standing, day: date) -> Amount:
    """Return the amount that can still be promised on a day, by the total and by the period."""
    left = total_left(standing)
    calendar = standing.calendar
    if calendar is None:
        return left
    index = calendar.index(day)
    in_period = standing.used_in_period.get(index, NOTHING)
    once = allowance(standing.terms, calendar)
    room = calendar.room(index, once, standing.used, in_period)
    return Amount(min(left.main, room.main), min(left.delta, room.delta))


def total_stops(standing: Standing, asked: Amount) -> str:
    """Return a phrase that names the total if it is too small for an amount, otherwise "".

    A later period does not help in this case, because the total has no periods.
    """
    if asked.within(total_left(standing)):
        return ""
    return f"the total of account {standing.name!r}" if standing.name else "the account's total"


def stops(standing: Standing, asked: Amount, day: date) -> str:
    """Return a phrase that names the limit that is too small for an amount on a day, or ""."""
    total = total_stops(standing, asked)
    if total or asked.within(room(standing, day)):
        return total
    assert standing.calendar is not None
    label = standing.calendar.label(standing.calendar.index(day))
    whose = f" of account {standing.name!r}" if standing.name else ""
    return f"the allowance of {label}{whose}"


def promise(standing: Standing, asked: Amount, day: date) -> Standing:
    """Return the balance that an account would have after promising an amount on a day.

    This serves forecasts. `dp_core.kernel.ledger.account_terms.Promise` is a promise that the
    ledger has recorded.
    """
    used_in_period = dict(standing.used_in_period)
    if standing.calendar is not None:
        index = standing.calendar.index(day)
        used_in_period[index] = used_in_period.get(index, NOTHING) + asked
    return replace(standing, used=standing.used + asked, used_in_period=used_in_period)


# -- the use of each period, as the ledger records it


def period_total(name: str, index: int) -> str:
    """Return the subject of an account's use in one period."""
    return f"period/{name}/{index}"


def used_in_period(book: Book, name: str, index: int) -> Amount:
    """Return the amount that an account used in one period of its calendar."""
    text = book.total(period_total(name, index))
    return NOTHING if text is None else Amount.from_json(json.loads(text))


def standing(book: Book, charter: Charter, day: date) -> Standing:
    """Return the limits and the use of an account, with the use in the period of a day.

    `tasks.ledger.accounts.read_balances` does this for all accounts that pay for a release, also
    under another composition.
    """
    in_period: dict[int, Amount] = {}
    calendar = calendar_of(charter)
    if calendar is not None:
        index = calendar.index(day)
        in_period[index] = used_in_period(book, charter.name, index)
    return Standing(
        terms=charter.terms,
        calendar=calendar,
        limit=charter.terms.limit,
        used=balance(book, charter.name).used,
        used_in_period=in_period,
        name=charter.name,
    )


def room_on(book: Book, charter: Charter, day: date) -> Amount:
    """Return the amount that an account can promise on a day; a negative part counts as 0."""
    return room(standing(book, charter, day), day)


def recounted_periods(book: Book, charter: Charter) -> dict[int, Amount]:
    """Return the amount used in each period as if the account had always had the given terms.

    Args:
        book: The ledger with the account's history.
        charter: The account, with the terms and the calendar by which to compute.

    Returns:
        The amounts by the period's index; a period without reservations is not listed.
    """
    calendar, periods = calendar_of(charter), dict[int, Amount]()
    if calendar is not None:
        for promise, _, amount in taken_of(book, charter):
            index = calendar.index(promise.day)
            periods[index] = periods.get(index, NOTHING) + amount
    return periods


def periods_after(entry: Entry, book: Book) -> dict[str, str]:
    """Return the running totals that an entry changes: the use of the period of its reservation."""
    if entry.kind == "restate":
        old = book.charter(entry.receipt.account)
        assert old is not None
        periods = recounted_periods(book, amended(old, entry.receipt))
        return {period_total(old.name, index): _text(used) for index, used in periods.items()}
    if entry.kind not in ("reserve", "settle"):
        return {}
    assert entry.reservation is not None
    promise = (
        promise_of(entry.position, entry.receipt)
        if entry.kind == "reserve"
        else book.promise(entry.reservation)
    )
    assert promise is not None
    found: dict[str, str] = {}
    for charter in lineage(book, promise.account):
        calendar = calendar_of(charter)
        if calendar is None:
            continue
        amount = promised(charter, promise)
        if entry.kind == "settle":
            kept = settled(charter, promise, use(book, promise.position), entry.receipt)
            amount = kept - amount
        index = calendar.index(promise.day)
        after = used_in_period(book, charter.name, index) + amount
        found[period_total(charter.name, index)] = _text(after)
    return found


def broken_by_period(entry: Entry, book: Book) -> str | None:
    """Return how an entry exceeds or changes the allowance of a period; None if it does not."""
    receipt = entry.receipt
    if entry.kind == "open":
        calendar = calendar_of(amended(None, receipt))
        late = calendar is not None and calendar.start.isoformat() != receipt.at
        return "has a calendar that starts on another day than its account" if late else None
    if entry.kind in ("raise", "restate"):
        charter = book.charter(receipt.account)
        assert charter is not None
        before, after = calendar_of(charter), calendar_of(amended(charter, receipt))
        if entry.kind == "restate":
            same = is_same_but_delta(before, after)
            return None if same else "changes the periods of its account"
        grows = is_raised(before, after)
        return None if grows else "lowers or replaces the calendar of its account"
    if entry.kind == "reserve":
        promise = promise_of(entry.position, receipt)
        for charter in lineage(book, promise.account):
            if not promised(charter, promise).within(room_on(book, charter, promise.day)):
                return f"promises more than account {charter.name!r} has left in its period"
    return None


def _text(value: Amount) -> str:
    return canonical_json(value.to_json()).decode()


def taken(book: Book, charter: Charter, promise: Promise, settlement: Receipt | None) -> Amount:
    """Return the amount that a release takes from an account: reserved, or spent once settled.

    Args:
        book: The ledger.
        charter: The account, with the terms by which to compute the amount.
        promise: Promise of the release.
        settlement: Receipt that ended the release; None if it is not settled.
    """
    if settlement is None:
        return promised(charter, promise)
    return settled(charter, promise, use(book, promise.position), settlement)


def taken_of(book: Book, charter: Charter) -> Iterator[tuple[Promise, Receipt | None, Amount]]:
    """Yield every release that an account pays for: promise, settlement and amount taken.

    Args:
        book: The ledger with the account's history.
        charter: The account, with the terms by which to compute the amounts.
    """
    for promise, settlement in book.promises_of(subtree(book, charter.name)):
        yield promise, settlement, taken(book, charter, promise, settlement)
