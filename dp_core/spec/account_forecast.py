"""Forecast of how many more releases of one size fit in an account, and until when."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import repeat

from dp_core.wall.accounting.composition import NOTHING, Amount
from dp_core.wall.ledger.account_balance import Standing, promise, stops, total_stops
from dp_core.wall.ledger.budget_periods import MONTHS, Period

YEARS = 100
"""Horizon of a forecast."""

MOST_DAYS = 1000
"""Most days that a forecast lists."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """How many more releases fit.

    Attributes:
        releases: Number of releases that fit.
        days: Days of the first 1000 of them; empty without a cadence.
        last: Day of the last one, or None if none fits.
        stopped_by: Why one more does not fit, as the end of a sentence "stopped by ...".
    """

    releases: int
    days: tuple[date, ...]
    last: date | None
    stopped_by: str


def forecast(
    standings: Sequence[Standing],
    asked: Sequence[Amount],
    *,
    today: date,
    every: Period | None,
    most: int = 1000,
) -> Forecast:
    """Return how many more releases fit in an account and its parent accounts.

    The forecast assumes that every release spends its whole reservation. It skips a day on which
    the allowance of a period has no room, and ends when a total has none.

    Args:
        standings: Balances of the account and of its parents; all must have room.
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
    return Forecast(count, tuple(days), last, stopped_by)


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
