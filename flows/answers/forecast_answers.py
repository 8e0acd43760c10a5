"""The answers of `dp-release plan` and `dp-release ledger forecast`."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import repeat
from typing import TYPE_CHECKING, Any

from dp_core.analysis.planned.plan_page import plan_page
from dp_core.analysis.planned.plan_values import plan_values
from dp_core.errors import BadInput, BudgetRefused
from dp_core.kernel.cost.composition import NOTHING, Amount, Composition
from dp_core.plan.forecast.stage_pace import REFERENCE, Machine
from dp_core.plan.plan import Plan, with_gaussian_noise
from dp_core.policies.account_balance import Standing, promise, room, stops, total_stops
from dp_core.policies.budget_periods import MONTHS, Period
from dp_core.text.pages.answer import CommandAnswer, known_values
from dp_core.text.pages.number_texts import number, plural
from dp_core.text.pages.page import Block, Fact, Listing, Sentence, Title, numbers, texts
from flows.answers.amounts import account_above, amount_left, left_words
from tasks.support.budget_refusals import no_account

if TYPE_CHECKING:
    from tasks.ledger.ledger import Ledger

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
    from tasks.ledger.reservation_check import check_terms

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
    # The delta that a restated calendar is assumed to allow, if it must be stated.
    supposed = max((one.calendar.delta for one in balances if one.calendar), default=0)
    found = releases_that_fit(balances, asked, today=today, every=every)
    return {
        "composition": composition,
        "now": now,
        "releases": found.releases,
        "last": found.last if every else None,
        "days": found.days,
        "stopped_by": found.stopped_by,
        "note": "" if now or not supposed else f" (with --period-delta {float(supposed):g})",
    }


def plan_answer(plan: Plan, ledger: Ledger | None, machine: Machine = REFERENCE) -> CommandAnswer:
    """Return a plan's cost, noise, size and time, and how many releases of it the account can pay.

    The exit code is 3 if the ledger would refuse the release.

    Args:
        plan: The plan of the release.
        ledger: The ledger of this home, None if there is none yet.
        machine: The machine that makes the release; by default that of the unit costs, with one
            processor.
    """
    values = plan_values(plan, machine, room=_account_room(plan, ledger))
    page = (*plan_page(values), *_account_page(values))
    return CommandAnswer(values, page, BudgetRefused.exit_code if values["refused"] else 0)


_NO_ROOM: dict[str, Any] = {
    "account_found": False,
    "account_missing": None,
    "account_closed": None,
    "left": None,
    "above": None,
    "more_such_releases": None,
    "approval": None,
    "refused": None,
}


def _account_room(plan: Plan, ledger: Ledger | None) -> dict[str, Any]:
    """Return what the account of a plan has left, and for how many releases of the plan.

    `more_such_releases` is 0 if the account refuses them; `more_with_gaussian_noise` is the same
    number if the spec stated `measure.noise: gaussian`, if it is larger. `refused` is why the
    ledger would refuse the release today, with a heading of the runbook; a plan that only waits for
    approval is not refused. `refused_attempts` are those of the account and its family since a
    person last allowed further ones.
    """
    account = ledger.find_account(plan.spec.account) if ledger else None
    if ledger is None or account is None:
        accounts = [one.name for one in ledger.accounts()] if ledger else []
        missing = no_account(accounts, plan.spec.account, plan.spec.privacy.unit)
        refused = {"error": missing, "runbook": "no-account"}
        return {**_NO_ROOM, "account_missing": missing, "refused": refused}
    # These need the database's packages, without which there is no ledger.
    from dp_core.policies.account_balance import room
    from flows.answers.ledger_answers import plan_approval, recent_refusals
    from tasks.ledger.accounts import Above

    refusal = ledger.refusal(plan)
    found = _NO_ROOM | {
        "account_found": True,
        "account_closed": any(one.charter.closed for one in ledger.lineage(account.name)),
        "left": amount_left(account.terms, account.left),
        "above": account_above(account.above),
        "approval": plan_approval(ledger, plan),
        "refused": {"error": refusal.message, "runbook": refusal.row} if refusal else None,
    }
    if plan.spec.measurements is not None:
        return found
    attempts = recent_refusals(ledger, account.name)
    standings = ledger.balances(account.name)
    counts = [fitting_now(one, plan, account.day) for one in standings]
    fits, least = min(counts), standings[counts.index(min(counts))]
    payable = refusal is None or refusal.row == "budget-used-up"
    gaussian = with_gaussian_noise(plan) if payable else None
    more = 0
    if gaussian is not None:
        more = min(fitting_now(one, gaussian, account.day) for one in standings)
    above = (
        None if least is standings[0] else Above(least.name, least.terms, room(least, account.day))
    )
    # A used name can be replaced; any other refusal holds for every such release.
    possible = refusal is None or isinstance(refusal, BadInput)
    return {
        **found,
        "above": account_above(above),
        "more_such_releases": fits if possible else 0,
        **known_values(
            more_with_gaussian_noise=more if more > fits else None,
            refused_attempts=attempts or None,
        ),
    }


def _account_page(plan: Mapping[str, Any]) -> Iterator[Block]:
    yield Sentence(f"Plan {plan['plan_hash']}")
    refused = plan["refused"]
    if plan["left"] is not None and not plan["account_closed"]:
        left = left_words(plan["account"], plan["left"], plan["above"])
        said = f"{left[0].upper()}{left[1:]}"
        if "measurements" in plan:
            said += ": this release takes nothing of it."
        elif refused and refused["runbook"] != "budget-used-up":
            said += "."  # however much is left
        elif more := plan["more_such_releases"]:
            said += f": enough for {plural(more, 'release')} of this plan."
        else:
            said += ": not enough for this release."
        if more := plan.get("more_with_gaussian_noise"):
            said += f" With `measure: {{noise: gaussian}}`, enough for {plural(more, 'release')}."
        yield Sentence(said)
    if approval := plan["approval"]:
        words = f"by {approval['by']} on {approval['day']}: {approval['reason']}"
        if not approval["approved"]:
            owners = " and ".join(approval["waits_for"])
            words = (
                f"required from {owners}: dp-release ledger approve SPEC --by NAME --reason TEXT"
            )
        yield Fact("Approval", words)
    if refused:
        row = f" (runbook: {refused['runbook']})" if refused["runbook"] else ""
        yield Sentence(f"The ledger would refuse this release. {refused['error']}{row}")
    elif attempts := plan.get("refused_attempts"):
        from flows.answers.ledger_answers import refusals_so_far

        yield Sentence(refusals_so_far(plan["account"], attempts))
