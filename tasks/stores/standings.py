"""How accounts stand, for forecasts and statements: also as if they were restated."""

from __future__ import annotations

import datetime
from dataclasses import replace
from fractions import Fraction

from dp_core.accounting.composition import NOTHING, Amount, Composition, Tally, Terms
from dp_core.accounting.currency import Currency
from dp_core.errors import BadInput
from dp_core.ledger.books import Balance, lineage, standing, use
from dp_core.ledger.charters import Charter
from dp_core.standing import Standing
from tasks.stores.accounts import Account, read_uses
from tasks.stores.refusals import no_account
from tasks.stores.rows import Rows


def read_standings(
    rows: Rows, name: str, composition: Composition | None = None
) -> tuple[Standing, ...]:
    """Return how an account stands today, and each that it stands within, the nearest first.

    Args:
        rows: Of the ledger.
        name: Of the account.
        composition: As if all of them were restated to it, with their whole history; None as they
            are.

    Raises:
        BadInput: if there is no such account, or one of them cannot be restated.
    """
    accounts = lineage(rows, name)
    if not accounts:
        raise BadInput(no_account(rows, name))
    today = rows.today()
    return tuple(
        standing(rows, charter, today)
        if composition in (None, charter.terms.composition)
        else _restated(rows, charter, composition, today)
        for charter in accounts
    )


def read_tallies(rows: Rows, name: str) -> tuple[tuple[Currency, Tally], ...]:
    """Return the currency and the charges of every release that an account pays for."""
    names = [name]
    for found in names:
        names += rows.accounts_within(found)
    return tuple(
        (promise.currency, use(rows, promise.position).tally)
        for promise, _ in rows.promises_of(names)
    )


def _restated(
    rows: Rows, charter: Charter, composition: Composition | None, today: datetime.date
) -> Standing:
    assert composition is not None
    old = charter.terms
    if composition == "zcdp" and old.delta == 0:
        raise BadInput(f"account {charter.name!r} has delta 0, and zcdp needs one above 0")
    other = replace(charter, terms=Terms(composition, old.epsilon, old.delta, Fraction(0)))
    used, in_period = NOTHING, dict[int, Amount]()
    for item in read_uses(rows, Account(other, Balance(), NOTHING, today)):
        used = used + item.amount
        if other.calendar is not None:
            index = other.calendar.index(item.day)
            in_period[index] = in_period.get(index, NOTHING) + item.amount
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
