"""How accounts stand, for forecasts and statements: also as if they were restated."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from dp_core.errors import BadInput
from dp_core.wall.accounting.composition import Composition, Tally, Terms
from dp_core.wall.accounting.currency import Currency
from dp_core.wall.ledger.account_balance import Standing
from dp_core.wall.ledger.account_terms import Charter
from dp_core.wall.ledger.running_totals import lineage, recounted, standing, subtree, use
from tasks.ledger.database.transaction import Rows
from tasks.ledger.refusals import account_names, no_account


def read_standings(
    rows: Rows, name: str, composition: Composition | None = None
) -> tuple[Standing, ...]:
    """Return how an account stands today, and each that it stands within, the nearest first.

    Args:
        rows: Of the ledger.
        name: Of the account.
        composition: As if all of them were restated to it, with their whole history; None as they
            are. What a period then allows of delta is supposed to be the whole of it.

    Raises:
        BadInput: if there is no such account, or one of them cannot be restated.
    """
    accounts = lineage(rows, name)
    if not accounts:
        raise BadInput(no_account(account_names(rows), name), row="no-account")
    today = rows.today()
    return tuple(
        standing(rows, charter, today)
        if composition is None or composition == charter.terms.composition
        else _restated(rows, charter, composition)
        for charter in accounts
    )


def read_tallies(rows: Rows, name: str) -> tuple[tuple[Currency, Tally], ...]:
    """Return the currency and the charges of every release that an account pays for."""
    return tuple(
        (promise.currency, use(rows, promise.position).tally)
        for promise, _ in rows.promises_of(subtree(rows, name))
    )


def _restated(rows: Rows, charter: Charter, composition: Composition) -> Standing:
    old = charter.terms
    if composition == "zcdp" and old.delta == 0:
        raise BadInput(f"account {charter.name!r} has delta 0, and zcdp needs one above 0")
    terms = Terms(composition, old.epsilon, old.delta, Fraction(0))
    calendar = charter.calendar
    if calendar is not None:
        # Its delta would be stated anew; supposed is the most that makes sense.
        calendar = replace(calendar, delta=terms.delta if terms.is_basic else terms.own_delta)
    other = replace(charter, terms=terms, calendar=calendar)
    balance, in_period = recounted(rows, other)
    used = balance.used
    if not used.within(other.terms.limit):
        raise BadInput(f"the history of account {charter.name!r} comes to more than its total")
    return Standing(
        terms=other.terms,
        calendar=other.calendar,
        limit=other.terms.limit,
        used=used,
        used_in_period=in_period,
        name=other.name,
    )
