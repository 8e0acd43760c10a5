"""The ledger's rules: which running totals an entry changes, and when it is refused.

The database applies them before it adds an entry, and an audit applies them again to every recorded
entry. Each of the two computes its own running totals.
"""

from __future__ import annotations

import datetime
from dataclasses import replace
from fractions import Fraction
from typing import assert_never

from dp_core.kernel.cost.composition import Amount
from dp_core.kernel.exact import exact_fraction
from dp_core.kernel.ledger.account_terms import (
    Charter,
    Promise,
    UsedMeasurements,
    amended,
    charged_event,
    promise_of,
)
from dp_core.kernel.ledger.approval import broken_by_gate, gate_of, gate_total, passed
from dp_core.kernel.ledger.budget_periods import Calendar
from dp_core.kernel.ledger.entries import Entry
from dp_core.kernel.ledger.ledger_position import broken_adoption, whereabouts
from dp_core.kernel.ledger.receipts import UNKNOWN_KIND, Receipt, known_kind
from dp_core.kernel.ledger.refused_attempts import attempts_after, broken_by_attempts
from dp_core.kernel.ledger.running_totals import (
    Balance,
    Book,
    Use,
    account_total,
    amount_text,
    balance,
    balance_text,
    barred_by,
    lineage,
    period_total,
    promised,
    recounted,
    reservation_total,
    room_on,
    settled,
    use,
    use_text,
    used_in_period,
)
from dp_core.kernel.ledger.tried_schemas import broken_by_schemas, tried_after

OUTCOMES = ("finished", "abandoned", "returned", "withdrawn", "failed-thresholds")
"""Possible outcomes of a release."""


# -- what an entry changes


def changes(entry: Entry, book: Book) -> dict[str, str]:
    """Return the running totals that an entry changes.

    Args:
        entry: An entry that breaks no rule.
        book: The ledger before the entry.

    Returns:
        The text of each changed total after the entry, by subject.

    Raises:
        ValueError: if the entry's kind is unknown.
    """
    match known_kind(entry.kind):
        case "open":
            return {account_total(entry.receipt.account): balance_text(Balance())}
        case "reserve":
            promise = promise_of(entry.position, entry.receipt)
            return _reserve(promise, book) | tried_after(entry, book)
        case "charge":
            assert entry.reservation is not None
            before = use(book, entry.reservation)
            cost, event = charged_event(entry.receipt)
            stage = str(entry.body["stage"])
            stages = {**(before.stages or {}), stage: before.of(stage) + cost}
            after = Use(before.tally.plus(cost, event), before.results, stages)
            found = {reservation_total(entry.reservation): use_text(after)}
            return found | attempts_after(entry, book)
        case "commit":
            assert entry.reservation is not None
            before = use(book, entry.reservation)
            after = replace(before, results=before.results + 1)
            return {reservation_total(entry.reservation): use_text(after)}
        case "hold" | "look" | "decide":
            assert entry.reservation is not None
            after_it = passed(gate_of(book, entry.reservation), entry.receipt)
            return {gate_total(entry.reservation): after_it.text()}
        case "examine" | "verdict" | "refuse-public" | "close-desk":
            return attempts_after(entry, book)
        case "allow-retry" | "open-desk":
            return attempts_after(entry, book) | tried_after(entry, book)
        case "input":
            return tried_after(entry, book)
        case "settle":
            return _settle(entry, book) | attempts_after(entry, book)
        case "restate":
            return _restate(entry, book)
        case "ledger" | "key" | "raise" | "close" | "approve" | "withdraw" | "attempt":
            return {}
        case "adopt" | "declare-public":
            return {}
        case None:
            raise ValueError(f"An entry ({entry.kind:.20}) {UNKNOWN_KIND}.")
        case other:
            assert_never(other)


def _reserve(promise: Promise, book: Book) -> dict[str, str]:
    found: dict[str, str] = {}
    for charter in lineage(book, promise.account):
        amount = promised(charter, promise)
        state = balance(book, charter.name)
        state = replace(state, reserved=state.reserved + amount)
        found[account_total(charter.name)] = balance_text(state)
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
        found[account_total(charter.name)] = balance_text(state)
        found |= _in_period(book, charter, promise.day, kept - held)
    return found


def _in_period(book: Book, charter: Charter, day: datetime.date, amount: Amount) -> dict[str, str]:
    if charter.calendar is None:
        return {}
    index = charter.calendar.index(day)
    after = used_in_period(book, charter.name, index) + amount
    return {period_total(charter.name, index): amount_text(after)}


def _restate(entry: Entry, book: Book) -> dict[str, str]:
    """Return the account's totals, recomputed from its whole history under the new terms."""
    old = book.charter(entry.receipt.account)
    assert old is not None
    state, periods = recounted(book, amended(old, entry.receipt))
    found = {account_total(old.name): balance_text(state)}
    return found | {
        period_total(old.name, index): amount_text(amount) for index, amount in periods.items()
    }


# -- what an entry must not break


def broken_rule(entry: Entry, book: Book) -> str | None:
    """Return which rule of the ledger an entry breaks; None if it breaks none.

    The text continues a sentence about the entry. Code that writes entries checks the same
    conditions earlier, with messages that tell the user what to do.

    Args:
        entry: The entry.
        book: The ledger before the entry.
    """
    receipt = entry.receipt
    match known_kind(entry.kind):
        case "ledger" | "key" | "approve" | "withdraw" | "declare-public":
            return None
        case "adopt":
            return broken_adoption(entry)
        case "open":
            within = receipt.body["within"]
            if within is not None and book.charter(str(within)) is None:
                return "opens an account within one that does not exist"
        case "raise" | "restate" | "close":
            charter = book.charter(receipt.account)
            if charter is None or charter.closed:
                return "concerns an account that is not open"
            return _broken_by_terms(entry, charter, book)
        case "open-desk" | "close-desk":
            if book.charter(receipt.account) is None:
                return "concerns an unknown account"
            return broken_by_schemas(entry, book) or broken_by_attempts(entry, book)
        case "allow-retry" | "refuse-public":
            known = book.charter(receipt.account) is not None
            return broken_by_attempts(entry, book) if known else "concerns an unknown account"
        case "reserve":
            promise = promise_of(entry.position, receipt)
            broken = _broken_by_promise(promise, receipt, book)
            return broken or broken_by_schemas(entry, book)
        case "input" | "charge" | "attempt" | "commit" | "hold" | "look" | "decide" | "settle":
            return _broken_in_release(entry, book)
        case "examine" | "verdict":
            return _broken_in_release(entry, book)
        case None:
            return UNKNOWN_KIND
        case other:
            assert_never(other)
    return None


def _broken_by_terms(entry: Entry, charter: Charter, book: Book) -> str | None:
    if entry.kind == "close":
        return None
    after = amended(charter, entry.receipt)
    if entry.kind == "raise":
        if not charter.terms.limit.within(after.terms.limit):
            return "lowers the total of its account"
        grows = is_raised(charter.calendar, after.calendar)
        return None if grows else "lowers or replaces the calendar of its account"
    if not is_same_but_delta(charter.calendar, after.calendar):
        return "changes the periods of its account"
    used = recounted(book, after)[0].used
    return None if used.within(after.terms.limit) else "restates a history that exceeds the total"


def is_raised(before: Calendar | None, after: Calendar | None) -> bool:
    """Return whether a calendar allows at least as much as before, in the same periods.

    The use of each period is stored by the period's index, so an index must keep its period.

    Args:
        before: Calendar before the change, None without one.
        after: Calendar after the change; None only if `before` is None.
    """
    if before is None or after is None:
        return before is after
    same = replace(after, epsilon=before.epsilon, delta=before.delta) == before
    return same and after.epsilon >= before.epsilon and after.delta >= before.delta


def is_same_but_delta(before: Calendar | None, after: Calendar | None) -> bool:
    """Return whether only the delta of a calendar changed; the composition decides its meaning."""
    if before is None or after is None:
        return before is after
    return replace(after, delta=before.delta) == before


def _broken_by_promise(promise: Promise, receipt: Receipt, book: Book) -> str | None:
    if book.is_used(promise.release):
        return "reserves under a name that is used"
    costs = promise.costs.values()
    if sum(costs, Fraction(0)) > promise.currency.limit or any(cost < 0 for cost in costs):
        return "states costs of stages that are negative or exceed its total"
    if promise.measurements is not None:
        broken = _broken_by_use(promise, promise.measurements, book)
        if broken is not None:
            return broken
    elif not _is_implied(promise):
        return "reserves a total that does not imply its epsilon and delta"
    accounts = lineage(book, promise.account)
    if not accounts or any(charter.closed for charter in accounts):
        return "reserves from an account that is not open"
    for charter in accounts:
        protects = receipt.body["neighbours"], receipt.body["unit"]
        if protects != (charter.neighbours, charter.unit):
            return f"has another neighbouring relation or unit than account {charter.name!r}"
        if charter.approved_only and not book.approved(promise.plan):
            return "reserves for a plan that was not approved"
        if not promised(charter, promise).within(room_on(book, charter, promise.day)):
            return f"promises more than account {charter.name!r} has left"
    return None


def _broken_by_use(promise: Promise, used: UsedMeasurements, book: Book) -> str | None:
    """Return what is wrong with a reservation that uses an earlier release's results.

    Privacy:
        It promises nothing, so no charge fits it, and it may not be bound to an input either
        (`_broken_in_release`): it computes from committed results only.
    """
    currency = promise.currency
    amounts = promise.epsilon, promise.delta, currency.limit, currency.own_delta
    if any(amounts) or any(promise.costs.values()):
        return "promises a cost, although it uses the results of an earlier release"
    end = book.settlement(used.release)
    if end is None or (end.hash, end.account) != (used.head, promise.account):
        return "uses the results of a release that its account does not have"
    if end.body["outcome"] != "finished":
        return "uses the results of a release that was not finished"
    return None


def _is_implied(promise: Promise) -> bool:
    """Return whether a reservation's total implies its guarantee.

    A relative tolerance of 1e-9 allows for floating-point differences between two machines.
    """
    if promise.epsilon <= 0 or not 0 <= promise.delta < 1:
        return False
    limit = promise.currency.limit * (1 - Fraction(1, 10**9))
    return replace(promise.currency, limit=limit).implies(promise.epsilon, promise.delta)


def _broken_in_release(entry: Entry, book: Book) -> str | None:
    promise = book.promise(entry.reservation) if entry.reservation is not None else None
    mine = entry.receipt.release, entry.receipt.account
    if promise is None or (promise.release, promise.account) != mine:
        return "belongs to no reservation of its release"
    over = book.has(f"settle/{promise.position}")
    if over and entry.kind != "look":
        return "comes after its release was settled"
    if promise.measurements is not None and entry.kind in ("input", "examine", "charge"):
        # privacy: a release that promises nothing never looks at data.
        return "looks at data, although its release uses the results of an earlier one"
    waits = promise.publish == "after-approval"
    gate = gate_of(book, promise.position)
    broken = broken_by_gate(entry.receipt, gate, over=over, after_approval=waits)
    broken = broken or broken_by_attempts(entry, book)
    if broken is not None:
        return broken
    body = entry.body
    match entry.kind:
        case "input":
            barred = barred_by(book, str(entry.about), promise.account, promise.plan)
            if barred is not None:
                return (
                    "is for data that belong to another account"
                    if barred[1] == "of another family"
                    else "is for data of an account whose plans need approval"
                )
            if book.has(f"input/{promise.position}"):
                # The input itself is the last: a release is bound to that one.
                return "names a table after the input it is part of"
            return broken_by_schemas(entry, book)
        case "charge":
            if not book.has(f"input/{promise.position}"):
                return "charges before the input is known"
            cost, event = charged_event(entry.receipt)
            if cost <= 0 or promise.currency.cost(event) > cost:
                return "costs less than its event"
            before = use(book, promise.position)
            # privacy: an own delta beyond the reservation would not be counted in the account.
            if before.tally.own_delta + event.own_delta() > promise.currency.own_delta:
                return "has an own delta that its reservation does not cover"
            stage = str(body["stage"])
            if before.of(stage) + cost > promise.costs.get(stage, 0):
                return f"charges more than stage {stage!r} has"
            # privacy: on the Gaussian curve a choice needs what is left after it.
            left = promise.currency.limit - before.tally.cost - cost
            if not promise.currency.allows(event, left):
                return "leaves too little of its promise for a choice on the Gaussian curve"
        case "attempt" | "commit":
            if not book.charged(promise.position, str(body["batch"])):
                return "is for a result that was not charged"
            if entry.kind == "attempt" and book.has(f"commit/{promise.position}/{entry.about}"):
                return "draws a committed result again"
        case "settle":
            used = use(book, promise.position)
            if exact_fraction(body["spent"]) != used.tally.cost:
                return "states another sum than the charges have"
            stated = whereabouts(book, promise.account)
            if {name: body.get(name) for name in (*stated, "adopted")} != {
                "adopted": None,
                **stated,
            }:
                return "states another ledger, or other totals, than those that paid"
            if body["outcome"] not in OUTCOMES or not isinstance(body["seen"], bool):
                return "has no valid outcome"
            if body["outcome"] == "returned" and used.tally.charges:
                return "returns a reservation that has charges"
            if used.results and not body["seen"]:
                return "states that no result was seen, although one was committed"
    return None
