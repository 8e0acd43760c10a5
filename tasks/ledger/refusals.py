"""Why a release may not begin: who waits for whom, what is left, who used it, what still fits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

from dp_core.errors import AwaitsApproval, BadInput, BudgetRefused, nearest
from dp_core.spec.plan import Plan, make_plan
from dp_core.wall.accounting.composition import (
    NOTHING,
    Amount,
    Terms,
    largest_epsilon,
    most_sets,
    six_digits,
)
from dp_core.wall.accounting.currency import Currency
from dp_core.wall.ledger.account_terms import Charter, promise_of
from dp_core.wall.ledger.entries import Entry
from dp_core.wall.ledger.running_totals import balance, lineage, room_on, subtree, taken
from tasks.ledger.database.transaction import Transaction

_MOST_USERS = 5


def check_reservation(book: Transaction, plan: Plan) -> None:
    """Raise unless every account that pays allows the plan today.

    Raises:
        BadInput: if there is no such account, naming the nearest.
        BudgetRefused: if terms or balance do not allow it, or the plan waits for approval.
    """
    accounts = lineage(book, plan.spec.account)
    if not accounts:
        raise BadInput(no_account(account_names(book), plan.spec.account), row="no-account")
    _check_revised(book, plan)
    for charter in accounts:
        check_terms(charter, plan)
    for charter in accounts:
        if charter.approved_only and not book.approved(plan.hash):
            raise AwaitsApproval(
                f"Account {charter.name!r} runs approved plans only: plan {plan.hash} of release"
                f" {plan.spec.release!r} waits for {charter.owner}; once it is read, `dp-release"
                f" ledger approve {plan.hash} --by NAME --reason TEXT`.",
                row="waits-for-approval",
            )
    for charter in accounts:
        _check_room(book, charter, plan, accounts)


def no_account(known: Sequence[str], name: str) -> str:
    """Return the sentence about an account that is not there.

    Args:
        known: Names of those that are.
        name: That was asked for.
    """
    hint = nearest(name, known) or " None is open yet."
    sentence = f"There is no account {name!r}.{hint}"
    if "Did you mean" in hint:
        # To open one under a misspelt name would give the same people a second budget.
        return sentence
    return (
        f"{sentence} Open one with `dp-release ledger open {name} --epsilon E --delta D --by NAME"
        " --reason TEXT`."
    )


def account_names(book: Transaction) -> list[str]:
    """Return the names of all accounts, in the order of their opening."""
    return [entry.receipt.account for entry in book.find(kinds=("open",))]


def _check_revised(book: Transaction, plan: Plan) -> None:
    revised = plan.spec.revises
    if revised is None:
        return
    end = book.latest(kinds=("settle",), release=revised, account=plan.spec.account)
    if end is None or end.body["outcome"] != "finished":
        raise BadInput(
            f"revises: {revised!r} is no finished release of account {plan.spec.account!r};"
            " `dp-release status` lists the releases."
        )


_OTHER_UNIT = {
    "row": "name an account that was opened with `--unit person`.",
    "person": "write `unit: {column: ..., max_rows: ...}` in the schema, or name another account.",
}
"""What to do where an account protects another unit, by the account's."""


def check_terms(charter: Charter, plan: Plan) -> None:
    """Raise BudgetRefused where an account takes no such release, however small it is."""
    if charter.closed:
        raise BudgetRefused(
            f"Account {charter.name!r} is closed: no more releases can be made from it.",
            row="account-closed",
        )
    if plan.spec.privacy.neighbours != charter.neighbours:
        raise BudgetRefused(
            f"Account {charter.name!r} protects under {charter.neighbours}, but the spec asks for"
            f" {plan.spec.privacy.neighbours}; set privacy.neighbours to {charter.neighbours}.",
            row="other-relation",
        )
    if plan.spec.privacy.unit != charter.unit:
        raise BudgetRefused(
            f"Account {charter.name!r} protects one {charter.unit}, but the schema's unit is one"
            f" {plan.spec.privacy.unit}; {_OTHER_UNIT[charter.unit]}",
            row="other-relation",
        )


def _check_room(
    book: Transaction, charter: Charter, plan: Plan, accounts: Sequence[Charter]
) -> None:
    privacy, terms, today = plan.spec.privacy, charter.terms, book.today()
    asked = terms.promised(plan.currency, privacy.epsilon, privacy.delta)
    left = room_on(book, charter, today)
    if asked.within(left):
        return
    total = terms.limit - balance(book, charter.name).used
    by_period = charter.calendar is not None and not total.within(left)
    where = f"account {charter.name!r}"
    if charter.name != plan.spec.account:
        where += f" (above {plan.spec.account!r})"
    if by_period and charter.calendar is not None:
        where += f" in {charter.calendar.label(charter.calendar.index(today))}"
    if asked.main > left.main:
        word = "epsilon" if terms.is_basic else "rho"
        wants, has, whole = (_words(terms, amount) for amount in (asked, left, terms.limit))
    else:
        word = "delta" if terms.is_basic else "own delta"
        sums = asked.delta, left.delta, terms.limit.delta
        wants, has, whole = (show(max(value, Fraction(0))) for value in sums)
    of = "" if by_period else f" of {whole}"
    raised = f"{charter.owner} answers for it: `dp-release ledger raise {charter.name}` raises it."
    if not terms.is_basic and asked.main <= left.main:
        # An own delta is part of the total's delta, and set apart from the rest by restating.
        raised = f"{charter.owner} answers for it."
    raise BudgetRefused(
        f"Release {plan.spec.release!r} asks for {word} {wants}, but {where} has {has} left{of}."
        f" {_users(book, charter)} {raised}{_advice(book, accounts, plan)}",
        row="budget-used-up",
    )


def _words(terms: Terms, amount: Amount) -> str:
    """Return the main part of an amount; rho with the epsilon that it comes to by itself."""
    main = show(max(amount.main, Fraction(0)))
    return main if terms.is_basic else f"{main} (epsilon {show(terms.epsilon_of(amount))})"


def _users(book: Transaction, charter: Charter) -> str:
    found: list[str] = []
    more = False
    for entry in _recent(book, subtree(book, charter.name)):
        promise = promise_of(entry.position, entry.receipt)
        end = book.latest(kinds=("settle",), reservation=entry.position)
        amount = taken(book, charter, promise, end.receipt if end else None)
        if amount == NOTHING:
            continue
        if len(found) == _MOST_USERS:
            more = True
            break
        state = "" if end is not None else ", unfinished"
        found.append(f"{promise.release} ({show(amount.main)} on {promise.day}{state})")
    if not found:
        return "No release has used it yet."
    return f"Used by: {', '.join(reversed(found))}{' and earlier ones' if more else ''}."


def _recent(book: Transaction, accounts: list[str]) -> list[Entry]:
    entries = [
        entry
        for account in accounts
        for entry in book.find(kinds=("reserve",), account=account, last=10 * _MOST_USERS)
    ]
    return sorted(entries, key=lambda entry: entry.position, reverse=True)


def _advice(book: Transaction, accounts: Sequence[Charter], plan: Plan) -> str:
    """Return what would fit in all accounts that pay, not only in the one that refused."""
    privacy, spec = plan.spec.privacy, plan.spec
    rooms = [(charter.terms, room_on(book, charter, book.today())) for charter in accounts]
    deltas = [left.delta for terms, left in rooms if terms.is_basic]
    delta = max(Fraction(0), min([privacy.delta, *deltas]))
    if delta < privacy.delta:
        delta = six_digits(delta)
    currency = _currency_of(plan, delta)
    largest = min(largest_epsilon(terms, left, delta, currency) for terms, left in rooms)
    if largest <= 0:
        own = min((left.delta for terms, left in rooms if not terms.is_basic), default=None)
        if own is not None and own < plan.currency.own_delta:
            if own > 0:
                return f" The largest privacy.delta that still fits is {show(six_digits(own))}."
            return (
                " This method sets its delta aside for thresholds, and a zcdp account has a part of"
                " its total for that: `dp-release ledger restate` sets it (--own-delta)."
            )
        main = all(left.main > 0 and left.delta >= 0 for _, left in rooms)
        if main and delta < privacy.delta and currency(privacy.epsilon) is None:
            return (
                f" Only delta {show(delta)} is left, and Gaussian noise needs more: with"
                " measure.noise laplace and privacy.delta 0, epsilon is left to spend."
            )
        return " Nothing is left to spend."
    if delta < privacy.delta and privacy.epsilon <= largest:
        if delta > 0:
            return f" The largest privacy.delta that still fits is {show(delta)}."
        return " With privacy.delta 0 it fits."
    if delta < privacy.delta:
        return (
            f" What still fits is privacy.epsilon {exact(largest)} with privacy.delta"
            f" {show(delta)}."
        )
    advice = f" The largest privacy.epsilon that still fits is {exact(largest)}"
    if spec.mode == "split" and spec.sets > 1:
        sets = min(
            most_sets(terms, left, plan.currency, privacy.delta, spec.sets) for terms, left in rooms
        )
        advice += f"; {_sets(plan, sets, largest)}"
    return advice + "."


def _sets(plan: Plan, sets: int, largest: Fraction) -> str:
    if not sets:
        return "not even one set keeps its noise as planned"
    part = plan.currency.limit * sets / plan.spec.sets
    at = exact(part) if plan.currency.kind == "pure" else exact(largest)
    wanted = "with it" if at == exact(largest) else f"with privacy.epsilon {at}"
    return f"{wanted}, synthesize.sets: {sets} keeps each set's noise as planned"


def _currency_of(plan: Plan, delta: Fraction) -> Callable[[Fraction], Currency | None]:
    def currency(epsilon: Fraction) -> Currency | None:
        privacy = replace(plan.spec.privacy, epsilon=epsilon, delta=delta)
        try:
            return make_plan(replace(plan.spec, privacy=privacy)).currency
        except BadInput:
            return None

    return currency


def show(value: Fraction) -> str:
    """Return an exact amount as a person reads it.

    >>> show(Fraction(1, 2)), show(Fraction("1e-9")), show(Fraction(3))
    ('0.5', '1e-09', '3')
    """
    return f"{float(value):.6g}"


def exact(value: Fraction) -> str:
    """Return an amount that is to be written into a spec, without rounding it up.

    >>> exact(Fraction(1, 2)), exact(Fraction(2, 3))
    ('0.5', '2/3')
    """
    return show(value) if Fraction(show(value)) == value else str(value)
