"""The balance of an account on a day, and the check of what it can still promise.

Both the ledger, before it reserves, and the forecast of future days use this check, so they agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date

from dp_core.kernel.cost.composition import NOTHING, Amount, Terms
from dp_core.kernel.ledger.budget_periods import Calendar, allowance


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
    return left.lesser(calendar.room(index, once, standing.used, in_period))


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
