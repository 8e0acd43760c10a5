"""How an account stands on a day: the one check of what it may still promise.

The ledger asks it before it reserves, and the forecast for days to come, so the two cannot differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date

from dp_core.wall.accounting.composition import NOTHING, Amount, Terms
from dp_core.wall.ledger.budget_periods import Calendar, allowance


@dataclass(frozen=True, slots=True)
class Standing:
    """An account's limits and what was taken of them: all that is asked of it for a promise.

    `dp_core.wall.ledger.running_totals.Balance` is what became of the total alone, reserved apart
    from spent.

    Attributes:
        terms: How its releases add up.
        calendar: Its budget over time, None without one.
        limit: Its total, raised or not.
        used: Reserved or spent since it was opened.
        used_in_period: The same for each period, by index, of the releases reserved in it;
            a period that is not named used nothing.
        name: Of the account, where several are told apart.
    """

    terms: Terms
    calendar: Calendar | None
    limit: Amount
    used: Amount
    used_in_period: Mapping[int, Amount] = field(default_factory=dict)
    name: str = ""


def total_left(standing: Standing) -> Amount:
    """Return what is left of the total; a negative part means nothing."""
    return standing.limit - standing.used


def room(standing: Standing, day: date) -> Amount:
    """Return what may still be promised on a day: within the total and within its period."""
    left = total_left(standing)
    calendar = standing.calendar
    if calendar is None:
        return left
    index = calendar.index(day)
    in_period = standing.used_in_period.get(index, NOTHING)
    once = allowance(standing.terms, calendar)
    return left.lesser(calendar.room(index, once, standing.used, in_period))


def total_stops(standing: Standing, asked: Amount) -> str:
    """Return the name of the total if it has no room, otherwise nothing. It never grows again."""
    if asked.within(total_left(standing)):
        return ""
    return f"the total of account {standing.name!r}" if standing.name else "the account's total"


def stops(standing: Standing, asked: Amount, day: date) -> str:
    """Return the name of the limit that has no room on a day, empty if all have."""
    total = total_stops(standing, asked)
    if total or asked.within(room(standing, day)):
        return total
    assert standing.calendar is not None
    label = standing.calendar.label(standing.calendar.index(day))
    whose = f" of account {standing.name!r}" if standing.name else ""
    return f"the allowance of {label}{whose}"


def promise(standing: Standing, asked: Amount, day: date) -> Standing:
    """Return how the account would stand after it promised an amount on a day.

    A supposition, for forecasts; what the ledger promised is a
    `dp_core.wall.ledger.account_terms.Promise`.
    """
    used_in_period = dict(standing.used_in_period)
    if standing.calendar is not None:
        index = standing.calendar.index(day)
        used_in_period[index] = used_in_period.get(index, NOTHING) + asked
    return replace(standing, used=standing.used + asked, used_in_period=used_in_period)
