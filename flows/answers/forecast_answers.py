"""The answer of `dp-release ledger forecast`: how many more releases of a spec fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from dp_core.display.answer import Answer
from dp_core.errors import BadInput
from dp_core.spec.account_forecast import forecast
from dp_core.spec.plan import Plan
from dp_core.wall.accounting.composition import Amount, Composition
from dp_core.wall.ledger.account_balance import Standing, room
from tasks.ledger.ledger import Ledger
from tasks.ledger.reservation_check import check_terms

if TYPE_CHECKING:
    from dp_core.wall.ledger.budget_periods import Period

COMPOSITIONS: tuple[Composition, ...] = ("basic", "zcdp")


@dataclass(frozen=True, slots=True)
class CompositionForecast(Answer):
    """How many releases fit under one composition, and what stops the next one."""

    composition: str
    now: bool
    releases: int
    last: date | None
    days: tuple[date, ...]
    stopped_by: str
    note: str


@dataclass(frozen=True, slots=True)
class ImpossibleComposition(Answer):
    """A composition that the accounts cannot be restated to, and why."""

    composition: str
    now: bool
    impossible: str


@dataclass(frozen=True, slots=True)
class Forecast(Answer):
    """How many more releases of a plan fit, under each composition."""

    release: str
    account: str
    accounts: list[str]
    epsilon: float
    delta: float
    currency: str
    from_: date
    every: str | None
    forecasts: tuple[CompositionForecast | ImpossibleComposition, ...]


def forecast_answer(ledger: Ledger, plan: Plan, *, every: Period | None) -> Forecast:
    """Return how many more releases of a plan fit, and until when; records nothing.

    Args:
        ledger: The ledger of the paying accounts.
        plan: The plan of one release.
        every: How often a release is made. The default is the period of the account's calendar, or
            of the nearest account above it with one; without any, all releases are made today.

    Raises:
        BadInput: if there is no such account, or the release costs nothing.
        BudgetRefused: if an account takes no such release, however small.
    """
    spec = plan.spec
    if spec.measurements is not None:
        raise BadInput(
            f"Release {spec.release!r} uses the tables of {spec.measurements.release!r} and costs"
            " nothing, so there is nothing to forecast."
        )
    for account in ledger.lineage(spec.account):
        check_terms(account.charter, plan)
    now = ledger.balances(spec.account)
    calendars = [one.calendar.period for one in now if one.calendar is not None]
    cadence = every or (calendars[0] if calendars else None)
    today = ledger.account(spec.account).day
    kinds = {one.terms.composition for one in now}
    composition = now[0].terms.composition if len(kinds) == 1 else "as they are"
    forecasts: list[CompositionForecast | ImpossibleComposition] = [
        _row(composition, now, plan, today, cadence)
    ]
    for other in COMPOSITIONS:
        if kinds == {other}:
            continue
        try:
            balances = ledger.balances(spec.account, other)
        except BadInput as error:
            forecasts.append(ImpossibleComposition(other, False, error.message))
            continue
        forecasts.append(_row(other, balances, plan, today, cadence, now=False))
    return Forecast(
        release=spec.release,
        account=spec.account,
        accounts=[one.name for one in now],
        epsilon=float(spec.privacy.epsilon),
        delta=float(spec.privacy.delta),
        currency=plan.currency.kind,
        from_=today,
        every=cadence,
        forecasts=tuple(forecasts),
    )


def fitting_now(standing: Standing, plan: Plan, day: date) -> int:
    """Return how many releases of a plan fit in an account on one day, by total and allowance."""
    return _count(room(standing, day), asked_of(standing, plan))


def asked_of(standing: Standing, plan: Plan) -> Amount:
    """Return what one release of a plan takes of an account."""
    return standing.terms.promised(plan.currency, *plan.promise)


def _count(left: Amount, asked: Amount) -> int:
    parts = [(left.main, asked.main), (left.delta, asked.delta)]
    if any(has < 0 for has, _ in parts):
        return 0
    return int(min(has // wants for has, wants in parts if wants > 0))


def _row(
    composition: str,
    balances: Sequence[Standing],
    plan: Plan,
    today: date,
    every: Period | None,
    *,
    now: bool = True,
) -> CompositionForecast:
    asked = [asked_of(one, plan) for one in balances]
    found = forecast(balances, asked, today=today, every=every)
    return CompositionForecast(
        composition=composition,
        now=now,
        releases=found.releases,
        last=found.last if every else None,
        days=found.days,
        stopped_by=found.stopped_by,
        note="" if now else _supposed(balances),
    )


def _supposed(balances: Sequence[Standing]) -> str:
    """Return the delta that a restated calendar is assumed to allow, if it must be stated."""
    supposed = max((one.calendar.delta for one in balances if one.calendar), default=0)
    return f" (with --period-delta {float(supposed):g})" if supposed else ""
