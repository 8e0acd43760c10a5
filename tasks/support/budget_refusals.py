"""Sentences that refuse a release: what it needs, what is left, who used it, what would fit.

Nothing here decides or reads the ledger. `tasks.ledger.reservation_check` decides, and passes what
the sentences say.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from dp_core.accounts.largest_release import epsilon_of, largest_epsilon, most_sets, six_digits
from dp_core.errors import BadInput, nearest
from dp_core.kernel.cost.composition import Amount, Terms
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.ledger.account_terms import Charter, Promise
from dp_core.plan.plan import Plan, make_plan, with_gaussian_noise
from dp_core.policies.budget_periods import calendar_of

MOST_USES = 5
"""Releases that a refusal names as users of an account."""


@dataclass(frozen=True, slots=True)
class Room:
    """What an account that pays has left today.

    Attributes:
        terms: Of the account.
        left: What it can promise.
    """

    terms: Terms
    left: Amount


@dataclass(frozen=True, slots=True)
class RecentUse:
    """What a recent release took of an account.

    Attributes:
        release: Name.
        amount: What it reserved, or spent if it is settled.
        day: Day of its reservation.
        settled: Whether the release is over.
    """

    release: str
    amount: Amount
    day: datetime.date
    settled: bool


def no_account(known: Sequence[str], name: str, unit: str = "row") -> str:
    """Return the sentence about an account that does not exist.

    Args:
        known: Names of all accounts.
        name: Name in the spec or on the command line.
        unit: Unit that the account has to protect; by default a row, as for an account that is
            opened without `--unit`.
    """
    hint = nearest(name, known) or " No account is open yet."
    sentence = f"There is no account {name!r}.{hint}"
    if "Did you mean" in hint:
        # An account opened under a misspelt name would give the same people a second budget.
        return sentence
    return (
        f"{sentence} Open one with `dp-release ledger open {name} --epsilon E --delta D"
        f"{'' if unit == 'row' else f' --unit {unit}'} --by NAME --reason TEXT`."
    )


_OTHER_UNIT = {
    "row": "name an account that was opened with `--unit {unit}`, or open one; an account keeps its"
    " unit.",
    "person": "write `unit: {{column: ..., max_rows: ...}}` in the schema, or name another"
    " account.",
    "household": "state `tables` with households and persons in the schema, or name another"
    " account.",
}
"""What to do if an account protects another unit, by the account's unit."""


def other_neighbours(plan: Plan, charter: Charter) -> str:
    """Return the sentence about an account with another neighbouring relation."""
    return (
        f"Account {charter.name!r} protects under {charter.neighbours}, but the spec asks for"
        f" {plan.spec.privacy.neighbours}; set privacy.neighbours to {charter.neighbours}."
    )


def other_unit(plan: Plan, charter: Charter) -> str:
    """Return the sentence about an account that protects another unit of privacy."""
    unit = plan.spec.privacy.unit
    return (
        f"Account {charter.name!r} protects one {charter.unit}, but the schema's unit is one"
        f" {unit}; {_OTHER_UNIT[charter.unit].format(unit=unit)}"
    )


def other_identity(plan: Plan, earlier: Promise) -> str:
    """Return the sentence about an earlier release that identifies units by other columns."""
    protects, before = plan.spec.privacy.protects, dict(earlier.columns)
    key = next(key for key, name in protects.columns.items() if before.get(key, name) != name)
    return (
        f"The schema identifies a {protects.word} by {protects.columns[key]!r}, but release"
        f" {earlier.release!r} of account {earlier.account!r} by {before[key]!r}, so their costs do"
        " not add up for one of them; use the same column, under the same name, or another account."
    )


def no_room(
    plan: Plan,
    charter: Charter,
    asked: Amount,
    room: Room,
    total_left: Amount,
    today: datetime.date,
    uses: Sequence[RecentUse],
    rooms: Sequence[Room],
) -> str:
    """Return the sentence about an account that has no room for a release.

    Args:
        plan: Plan of the release.
        charter: The account that has no room.
        asked: Cost of the release to this account.
        room: What this account has left today.
        total_left: What its total leaves, without the limit of a period.
        today: The ledger's day.
        uses: Latest uses of the account, newest first; `MOST_USES` of them are named.
        rooms: What every account that pays has left, for what would fit.
    """
    terms, left = charter.terms, room.left
    calendar = calendar_of(charter)
    by_period = calendar is not None and not total_left.within(left)
    where = f"account {charter.name!r}"
    if charter.name != plan.spec.account:
        where += f" (above {plan.spec.account!r})"
    if by_period and calendar is not None:
        where += f" in {calendar.label(calendar.index(today))}"
    if asked.main > left.main:
        word = "epsilon" if terms.is_basic else "rho"
        wants, has, whole = (_words(terms, amount) for amount in (asked, left, terms.limit))
    else:
        word = "delta" if terms.is_basic else "own delta"
        sums = asked.delta, left.delta, terms.limit.delta
        wants, has, whole = (show(max(value, Fraction(0))) for value in sums)
    of = "" if by_period else f" of {whole}"
    raised = f"Its owner, {charter.owner}, can raise it: `dp-release ledger raise {charter.name}`."
    if not terms.is_basic and asked.main <= left.main:
        # An own delta is part of the total's delta; restating the account changes that part.
        raised = f"Its owner is {charter.owner}."
    return (
        f"Release {plan.spec.release!r} needs {word} {wants}, but {where} has {has} left{of}."
        f" {_users(uses)} {raised}{_advice(plan, rooms)}"
    )


def _words(terms: Terms, amount: Amount) -> str:
    """Return the main part of an amount; rho with the epsilon that it implies by itself."""
    main = show(max(amount.main, Fraction(0)))
    return main if terms.is_basic else f"{main} (epsilon {show(epsilon_of(terms, amount))})"


def _users(uses: Sequence[RecentUse]) -> str:
    if not uses:
        return "No release has used it yet."
    named = []
    for use in uses[:MOST_USES]:
        state = "" if use.settled else ", unfinished"
        named.append(f"{use.release} ({show(use.amount.main)} on {use.day}{state})")
    more = " and earlier ones" if len(uses) > MOST_USES else ""
    return f"Used by: {', '.join(reversed(named))}{more}."


def _advice(plan: Plan, accounts: Sequence[Room]) -> str:
    """Return what would fit in all accounts that pay, not only in the refusing one."""
    rooms = [(room.terms, room.left) for room in accounts]
    # A basic account takes epsilon and delta, whatever the noise.
    basic = all(terms.is_basic for terms, _ in rooms)
    gaussian = None if basic else with_gaussian_noise(plan)
    if gaussian is not None and all(
        terms.promised(gaussian.currency, *gaussian.promise).within(left) for terms, left in rooms
    ):
        return (
            f"{_what_fits(plan, rooms, None)} With `measure: {{noise: gaussian}}` it fits as it is."
        )
    return _what_fits(plan, rooms, gaussian)


def _what_fits(plan: Plan, rooms: Sequence[tuple[Terms, Amount]], gaussian: Plan | None) -> str:
    """Return the largest epsilon or delta that fits, also with Gaussian noise if that is larger."""
    privacy, spec = plan.spec.privacy, plan.spec
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
                " This method spends delta on thresholds, for which a zcdp account sets a part of"
                " its total aside: `dp-release ledger restate` sets that part (--own-delta)."
            )
        main = all(left.main > 0 and left.delta >= 0 for _, left in rooms)
        if main and delta < privacy.delta and currency(privacy.epsilon) is None:
            return (
                f" Only delta {show(delta)} is left, and Gaussian noise needs more. With"
                " measure.noise laplace and privacy.delta 0, epsilon is left to spend."
            )
        return " Nothing is left to spend."
    if delta < privacy.delta and privacy.epsilon <= largest:
        if delta > 0:
            return f" The largest privacy.delta that still fits is {show(delta)}."
        return " With privacy.delta 0 it fits."
    if delta < privacy.delta:
        return (
            f" The largest that still fits is privacy.epsilon {exact(largest)} with privacy.delta"
            f" {show(delta)}."
        )
    advice = f" The largest privacy.epsilon that still fits is {exact(largest)}"
    if spec.mode == "split" and spec.sets > 1:
        sets = min(
            most_sets(terms, left, plan.currency, privacy.delta, spec.sets) for terms, left in rooms
        )
        advice += f"; {_sets(plan, sets, largest)}"
    if gaussian is not None:
        by_gaussian = _currency_of(gaussian, delta)
        more = min(largest_epsilon(terms, left, delta, by_gaussian) for terms, left in rooms)
        if more > largest:
            advice += f"; with `measure: {{noise: gaussian}}` it is {exact(more)}"
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
    """Return an amount with six significant digits.

    >>> show(Fraction(1, 2)), show(Fraction("1e-9")), show(Fraction(3))
    ('0.5', '1e-09', '3')
    """
    return f"{float(value):.6g}"


def exact(value: Fraction) -> str:
    """Return an amount to write into a spec, exact.

    >>> exact(Fraction(1, 2)), exact(Fraction(2, 3))
    ('0.5', '2/3')
    """
    return show(value) if Fraction(show(value)) == value else str(value)
