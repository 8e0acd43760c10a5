"""The answer of `dp-release ledger forecast`: how many more releases of a spec fit."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import repeat
from typing import Any

from dp_core.errors import BadInput
from dp_core.kernel.cost.composition import NOTHING, Amount, Composition
from dp_core.plan.plan import Plan
from dp_core.policies.account_balance import Standing, promise, room, stops, total_stops
from dp_core.policies.budget_periods import MONTHS, Period
from dp_core.text.pages.answer import CommandAnswer
from dp_core.text.pages.number_texts import number
from dp_core.text.pages.page import Block, Listing, Sentence, Title, numbers, texts
from tasks.ledger.ledger import Ledger
from tasks.ledger.reservation_check import check_terms

COMPOSITIONS: tuple[Composition, ...] = ("basic", "zcdp")
YEARS = 100
"""Number of years that a forecast covers."""

MOST_DAYS = 1000
"""Most days that a forecast lists."""


def forecast_answer(ledger: Ledger, plan: Plan, *, every: Period | None) -> CommandAnswer:
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
    forecasts: list[dict[str, Any]] = [_forecast(composition, now, plan, today, cadence)]
    for other in COMPOSITIONS:
        if kinds == {other}:
            continue
        try:
            balances = ledger.balances(spec.account, other)
        except BadInput as error:
            # The accounts cannot be restated to it.
            forecasts.append({"composition": other, "now": False, "impossible": error.message})
            continue
        forecasts.append(_forecast(other, balances, plan, today, cadence, now=False))
    values = {
        "release": spec.release,
        "account": spec.account,
        "accounts": [one.name for one in now],
        "epsilon": float(spec.privacy.epsilon),
        "delta": float(spec.privacy.delta),
        "currency": plan.currency.kind,
        "from": today,
        "every": cadence,
        "forecasts": forecasts,
    }
    return CommandAnswer(values, (*_page(values),))


def _page(answer: Mapping[str, Any]) -> Iterator[Block]:
    every, forecasts = answer["every"], answer["forecasts"]
    cadence = f", one each {every} from {answer['from']}" if every else ""
    yield Title(
        answer["release"],
        f": epsilon {number(answer['epsilon'])}, delta {number(answer['delta'])}, from account"
        f" {answer['account']!r}{cadence}",
    )
    rows = []
    for each in forecasts:
        last = [each.get("last") or "-"] if every else []
        stops = each["stopped_by"] + each["note"] if "releases" in each else ""
        stops = stops or f"not possible: {each['impossible']}"
        word = each["composition"] + (" (now)" if each["now"] else "")
        rows.append((word, each.get("releases", "-"), *last, stops))
    after = texts(*(["last"] if every else []), "stopped by")
    yield Listing((*texts("composition"), *numbers("releases"), *after), rows)
    if any("releases" in each for each in forecasts[1:]):
        restated = " and ".join(repr(name) for name in answer["accounts"])
        several = "s" if len(answer["accounts"]) > 1 else ""
        yield Sentence(
            f"The other rows assume that account{several} {restated} had that composition from the"
            " start. Do not base a change of composition on released values."
        )


@dataclass(frozen=True, slots=True)
class FittingReleases:
    """How many more releases of one size fit in an account.

    Attributes:
        releases: Number of releases that fit.
        days: Days of the first `MOST_DAYS` of them; empty without a cadence.
        last: Day of the last one, or None if none fits.
        stopped_by: Why one more does not fit, as the end of the sentence "stopped by ...".
    """

    releases: int
    days: tuple[date, ...]
    last: date | None
    stopped_by: str


def releases_that_fit(
    standings: Sequence[Standing],
    asked: Sequence[Amount],
    *,
    today: date,
    every: Period | None,
    most: int = 1000,
) -> FittingReleases:
    """Return how many more releases fit in an account and its parent accounts.

    The forecast assumes that every release spends its whole reservation. It skips a day on which
    the allowance of a period has no room, and ends when a total has none.

    Args:
        standings: Balances of the account and of its parents; a release must fit in each.
        asked: Amount that one release takes from each, in the same order.
        today: Day of the first release.
        every: Interval between releases (a month, quarter or year), on the same day of the month
            or its last day; None to make all of them today.
        most: Number at which counting ends.

    Raises:
        ValueError: if an amount is negative, or there is not one for each account.
    """
    if not standings or len(standings) != len(asked):
        raise ValueError("A forecast needs at least one account, and one amount for each.")
    if not all(NOTHING.within(amount) for amount in asked):
        raise ValueError("The amount that a release takes must not be negative.")
    now = list(standings)
    count, days, last = 0, list[date](), None
    waiting_for = ""
    for day in _days(today, every):
        if count >= most:
            stopped_by = f"the end of the count, {most}"
            break
        pairs = list(zip(now, asked, strict=True))
        stopped_by = _first(total_stops(*pair) for pair in pairs)
        if stopped_by:
            break
        short = _first(stops(*pair, day) for pair in pairs)
        if short and every is None:
            stopped_by = short
            break
        if short:
            # Keep the reason of the first period without room; later ones repeat it.
            waiting_for = waiting_for or short
            continue
        waiting_for = ""
        now = [promise(*pair, day) for pair in pairs]
        count, last = count + 1, day
        if every is not None and count <= MOST_DAYS:
            days.append(day)
    else:
        stopped_by = waiting_for or f"the end of the forecast, which looks {YEARS} years ahead"
    return FittingReleases(count, tuple(days), last, stopped_by)


def _first(sentences: Iterator[str]) -> str:
    return next(filter(None, sentences), "")


def _days(today: date, every: Period | None) -> Iterator[date]:
    """Yield the days of the releases; without a cadence, today repeatedly."""
    if every is None:
        yield from repeat(today)
        return
    for months in range(0, 12 * YEARS, MONTHS[every]):
        # Counted from the first day, not the previous one: 31 January, 28 February, 31 March.
        year, month = divmod(12 * today.year + today.month - 1 + months, 12)
        if year > date.max.year:
            return
        yield date(year, month + 1, min(today.day, monthrange(year, month + 1)[1]))


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


def _forecast(
    composition: str,
    balances: Sequence[Standing],
    plan: Plan,
    today: date,
    every: Period | None,
    *,
    now: bool = True,
) -> dict[str, Any]:
    asked = [asked_of(one, plan) for one in balances]
    found = releases_that_fit(balances, asked, today=today, every=every)
    return {
        "composition": composition,
        "now": now,
        "releases": found.releases,
        "last": found.last if every else None,
        "days": found.days,
        "stopped_by": found.stopped_by,
        "note": "" if now else _assumed_delta(balances),
    }


def _assumed_delta(balances: Sequence[Standing]) -> str:
    """Return the delta that a restated calendar is assumed to allow, if it must be stated."""
    supposed = max((one.calendar.delta for one in balances if one.calendar), default=0)
    return f" (with --period-delta {float(supposed):g})" if supposed else ""
