"""The ledger's rules: which running totals an entry changes, and when it is refused.

The database applies them before it adds an entry, and an audit applies them again to every recorded
entry. Each of the two computes its own running totals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from types import SimpleNamespace
from typing import assert_never, cast

from dp_core.kernel.cost.composition import NOTHING
from dp_core.kernel.exact import exact_fraction
from dp_core.kernel.extensions import DRAWN, DRAWN_BY, EXTENSIONS
from dp_core.kernel.ledger.account_terms import (
    Charter,
    Promise,
    UsedMeasurements,
    amended,
    charged_event,
    promise_of,
    unknown_terms,
)
from dp_core.kernel.ledger.entries import Entry
from dp_core.kernel.ledger.receipts import UNKNOWN_KIND, Receipt, known_kind
from dp_core.kernel.ledger.running_totals import (
    OF_RULES,
    Balance,
    Book,
    Use,
    account_total,
    balance,
    balance_text,
    lineage,
    other_columns,
    other_owner,
    promised,
    recounted,
    reservation_total,
    settled,
    use,
    use_text,
)
from dp_core.kernel.questions import CORE

OUTCOMES = ("finished", "abandoned", "returned", "withdrawn", "failed-thresholds")
"""Possible outcomes of a release."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What an agency adds to the rules: it can only refuse entries that the rules accept.

    It has running totals of its own, which no rule reads, and it is asked after the rules have
    decided. So whatever the ledger accepts with policies it accepts without them.

    Attributes:
        name: Name of the policy.
        refused: Returns why an entry is refused in a ledger so far, or None. The text continues a
            sentence about the entry.
        totals: Returns the policy's own running totals after an entry that is not refused, by
            subject.
        prefixes: Beginnings of the subjects of its totals; no rule or other policy has one that
            begins alike. Empty (the default) for a policy without totals.
    """

    name: str
    refused: Callable[[Entry, Book], str | None]
    totals: Callable[[Entry, Book], Mapping[str, str]]
    prefixes: tuple[str, ...] = ()


def judged(
    entry: Entry, book: Book, policies: Sequence[Policy]
) -> tuple[str | None, dict[str, str]]:
    """Return whether an entry is refused, and the running totals that it changes.

    Args:
        entry: The entry.
        book: The ledger before the entry.
        policies: What is asked after the rules.

    Returns:
        Which rule or policy the entry breaks, as a text that continues a sentence about the entry,
        and None if it breaks none. The text of each changed total after the entry, by subject;
        empty if the entry is refused.

    Raises:
        ValueError: if a policy writes a total that is not its own.
    """
    broken = broken_rule(entry, book)
    if broken is not None:
        return broken, {}
    # privacy: what the rules need of the entry and the book is taken before a policy sees either.
    found = changes(entry, book)
    for policy in policies:
        broken = policy.refused(entry, _as_shown(book))
        if broken is not None:
            return broken, {}
    _check_prefixes(policies)
    for policy in policies:
        for subject, text in policy.totals(entry, _as_shown(book)).items():
            own = type(subject) is str and subject.startswith(policy.prefixes)
            if not own or type(text) is not str:
                raise ValueError(f"The policy {policy.name!r} writes a total that is not its own.")
            found[subject] = text
    return None, found


_QUESTIONS = tuple(name for name in vars(Book) if not name.startswith("_"))


def _as_shown(book: Book) -> Book:
    """Return what a policy has of a book: the methods of `Book`, and nothing that it could write.

    It is made anew for each policy.
    """
    return cast(Book, SimpleNamespace(**{name: getattr(book, name) for name in _QUESTIONS}))


def _check_prefixes(policies: Sequence[Policy]) -> None:
    owned = sorted([*OF_RULES, *(each for policy in policies for each in policy.prefixes)])
    for first, second in pairwise(owned):
        if second.startswith(first):
            raise ValueError(f"Two policies, or a policy and the rules, write totals {second!r}.")


# -- what an entry changes


def changes(entry: Entry, book: Book) -> dict[str, str]:
    """Return the running totals of the rules that an entry changes.

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
            return _balances(book, promise, lambda payer: Balance(promised(payer, promise)))
        case "charge":
            assert entry.reservation is not None
            before = use(book, entry.reservation)
            cost, event = charged_event(entry.receipt)
            stage = str(entry.body["stage"])
            stages = {**before.stages, stage: before.of(stage) + cost}
            after = Use(before.tally.plus(cost, event), before.results, stages)
            return {reservation_total(entry.reservation): use_text(after)}
        case "commit":
            assert entry.reservation is not None
            before = use(book, entry.reservation)
            after = replace(before, results=before.results + 1)
            return {reservation_total(entry.reservation): use_text(after)}
        case "settle":
            assert entry.reservation is not None
            ended, used = book.promise(entry.reservation), use(book, entry.reservation)
            assert ended is not None
            return _balances(
                book,
                ended,
                lambda payer: Balance(
                    NOTHING - promised(payer, ended), settled(payer, ended, used, entry.receipt)
                ),
            )
        case "restate":
            old = book.charter(entry.receipt.account)
            assert old is not None
            # Recomputed from the account's whole history under the new terms.
            state = recounted(book, amended(old, entry.receipt))
            return {account_total(old.name): balance_text(state)}
        case None:
            raise ValueError(f"An entry ({entry.kind:.20}) {UNKNOWN_KIND}.")
        case _:
            return {}


def _balances(book: Book, promise: Promise, change: Callable[[Charter], Balance]) -> dict[str, str]:
    """Return the text of the balance of each account that pays for a release, after a change."""
    return {
        account_total(payer.name): balance_text(balance(book, payer.name) + change(payer))
        for payer in lineage(book, promise.account)
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
        case "ledger" | "adopt" | "key" | "approve" | "withdraw" | "declare-public":
            return None
        case "open":
            within = receipt.body["within"]
            if within is not None and book.charter(str(within)) is None:
                return "opens an account within one that does not exist"
            return None
        case "raise" | "restate" | "close":
            charter = book.charter(receipt.account)
            if charter is None or charter.closed:
                return "concerns an account that is not open"
            return _broken_by_terms(entry, charter, book)
        case "open-desk" | "close-desk" | "allow-retry" | "refuse-public":
            known = book.charter(receipt.account) is not None
            return None if known else "concerns an unknown account"
        case "reserve":
            return _broken_by_promise(promise_of(entry.position, receipt), receipt, book)
        case (
            "input" | "examine" | "verdict" | "charge" | "attempt" | "commit" | "settle"
            | "hold" | "look" | "decide"
        ):  # fmt: skip
            return _broken_in_release(entry, book)
        case None:
            return UNKNOWN_KIND
        case other:
            assert_never(other)


def _broken_by_terms(entry: Entry, charter: Charter, book: Book) -> str | None:
    if entry.kind == "close":
        return None
    after = amended(charter, entry.receipt)
    if entry.kind == "raise":
        raises = charter.terms.limit.within(after.terms.limit)
        return None if raises else "lowers the total of its account"
    used = recounted(book, after).used
    return None if used.within(after.terms.limit) else "restates a history that exceeds the total"


def _broken_by_promise(promise: Promise, receipt: Receipt, book: Book) -> str | None:
    # privacy: a term that this program does not know could be one that it does not enforce.
    if unknown_terms(receipt):
        return f"reserves on unknown terms ({', '.join(unknown_terms(receipt)):.60})"
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
        left = charter.terms.limit - balance(book, charter.name).used
        if not promised(charter, promise).within(left):
            return f"promises more than account {charter.name!r} has left"
    # privacy: amounts add up over one unit, and a unit is what one column identifies.
    other = other_columns(book, promise.account, dict(promise.columns))
    if other is not None:
        return f"identifies its units by other columns than release {other.release!r}"
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
    body = entry.body
    match entry.kind:
        case "input":
            if other_owner(book, str(entry.about), promise.account) is not None:
                return "is for data that belong to another account"
            if book.has(f"input/{promise.position}"):
                # The input itself is the last: a release is bound to that one.
                return "names a table after the input it is part of"
        case "charge":
            if not book.has(f"input/{promise.position}"):
                return "charges before the input is known"
            cost, event = charged_event(entry.receipt)
            if cost <= 0 or promise.currency.cost(event) > cost:
                return "costs less than its event"
            asked, mechanism = str(body["asks"]["name"]), str(body["event"]["mechanism"])
            if asked not in CORE and asked not in EXTENSIONS:
                return "asks a question that the kernel does not have"
            if asked in EXTENSIONS and asked not in promise.extensions:
                return "asks an extension that its reservation does not name"
            if asked not in DRAWN_BY.get(mechanism, {asked} - DRAWN):
                return "draws otherwise than its question says"
            from dp_core.kernel.questions.calibration import calibrated  # which only a charge needs

            if not calibrated(deepcopy(body["asks"]), event, promise.relation):
                return "assumes a smaller effect of one unit than its question can have"
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
            if body["outcome"] not in OUTCOMES or not isinstance(body["seen"], bool):
                return "has no valid outcome"
            if body["outcome"] == "returned" and used.tally.charges:
                return "returns a reservation that has charges"
            if used.results and not body["seen"]:
                return "states that no result was seen, although one was committed"
    return None
