"""How many more releases of one spec fit, as accounts are and as if they were restated."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from dp_core.errors import BadInput
from dp_core.spec.account_forecast import forecast
from dp_core.spec.plan import Plan
from dp_core.wall.accounting.composition import Amount, Composition
from dp_core.wall.ledger.account_balance import Standing, room
from tasks.ledger.ledger import Ledger
from tasks.ledger.reservation_check import check_terms

if TYPE_CHECKING:
    from datetime import date

    from dp_core.wall.ledger.budget_periods import Period

COMPOSITIONS: tuple[Composition, ...] = ("basic", "zcdp")


def forecast_facts(ledger: Ledger, plan: Plan, *, every: Period | None) -> dict[str, object]:
    """Return how many more releases of a plan fit, and until when; records nothing.

    Args:
        ledger: Whose accounts pay.
        plan: Of one such release.
        every: How often one is made; None for the period of the account's own calendar, or of the
            nearest account above that has one, and without any for all of them today.

    Raises:
        BadInput: if there is no such account.
        BudgetRefused: if an account takes no such release, however small.
    """
    spec = plan.spec
    for account in ledger.lineage(spec.account):
        check_terms(account.charter, plan)
    now = ledger.balances(spec.account)
    calendars = [one.calendar.period for one in now if one.calendar is not None]
    cadence = every or (calendars[0] if calendars else None)
    today = ledger.account(spec.account).day
    kinds = {one.terms.composition for one in now}
    composition = now[0].terms.composition if len(kinds) == 1 else "as they are"
    forecasts = [_row(composition, now, plan, today, cadence)]
    for other in COMPOSITIONS:
        if kinds == {other}:
            continue
        try:
            balances = ledger.balances(spec.account, other)
        except BadInput as error:
            forecasts.append({"composition": other, "now": False, "impossible": error.message})
            continue
        forecasts.append(_row(other, balances, plan, today, cadence, now=False))
    return {
        "release": spec.release,
        "account": spec.account,
        "accounts": [one.name for one in now],
        "epsilon": float(spec.privacy.epsilon),
        "delta": float(spec.privacy.delta),
        "currency": plan.currency.kind,
        "from": today.isoformat(),
        "every": cadence,
        "forecasts": forecasts,
    }


def fitting_now(standing: Standing, plan: Plan, day: date) -> int:
    """Return how many releases of a plan fit in an account on one day, by total and allowance."""
    return _count(room(standing, day), asked_of(standing, plan))


def asked_of(standing: Standing, plan: Plan) -> Amount:
    """Return what one release of a plan takes of an account."""
    privacy = plan.spec.privacy
    return standing.terms.promised(plan.currency, privacy.epsilon, privacy.delta)


def _count(left: Amount, asked: Amount) -> int:
    parts = [(left.main, asked.main), (left.delta, asked.delta)]
    if any(has < 0 for has, _ in parts):
        return 0
    return int(min(has // wants for has, wants in parts if wants > Fraction(0)))


def _row(
    composition: str,
    balances: Sequence[Standing],
    plan: Plan,
    today: date,
    every: Period | None,
    *,
    now: bool = True,
) -> dict[str, object]:
    asked = [asked_of(one, plan) for one in balances]
    found = forecast(balances, asked, today=today, every=every)
    return {
        "composition": composition,
        "now": now,
        "releases": found.releases,
        "last": found.last.isoformat() if found.last and every else None,
        "days": [day.isoformat() for day in found.days],
        "stopped_by": found.stopped_by,
        "note": "" if now else _supposed(balances),
    }


def _supposed(balances: Sequence[Standing]) -> str:
    """Return what a restated calendar is supposed to allow of delta, where that is to be stated."""
    supposed = {
        float(one.calendar.delta)
        for one in balances
        if one.calendar is not None and one.calendar.delta
    }
    return f" (with --period-delta {max(supposed):g})" if supposed else ""
