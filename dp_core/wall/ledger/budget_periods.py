"""A calendar of budgets: what an account may promise in each month, quarter or year.

Periods are those of the calendar; the first one is the period in which the account was opened, and
has a whole allowance however late in it that was. The account's total holds beside the calendar.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from typing import Literal, get_args

from dp_core.documents.exact import exact_fraction
from dp_core.wall.accounting.composition import Amount, Terms

Period = Literal["month", "quarter", "year"]

MONTHS: Mapping[Period, int] = {"month": 1, "quarter": 3, "year": 12}
"""Months of each period."""


@dataclass(frozen=True, slots=True)
class Calendar:
    """What an account allows in each period.

    Attributes:
        period: How long one is.
        epsilon: Allowance of one period.
        delta: Allowance of one period: delta (basic) or own delta of events (zcdp).
        carry_over: Whether what a period did not use stays for those after it.
        start: Day the account was opened.

    Raises:
        ValueError: if no calendar can have these values.
    """

    period: Period
    epsilon: Fraction
    delta: Fraction
    carry_over: bool
    start: date

    def __post_init__(self) -> None:
        if self.period not in get_args(Period):
            raise ValueError(f"A period is month, quarter or year, not {self.period!r}.")
        if self.epsilon <= 0:
            raise ValueError(f"The epsilon of a period is positive, got {self.epsilon}.")
        if not 0 <= self.delta < 1:
            raise ValueError(f"The delta of a period is from 0 to below 1, got {self.delta}.")

    def index(self, day: date) -> int:
        """Return which period a day is in; 0 for that of `start`, and for any day before it."""
        return max(0, self._count(day) - self._count(self.start))

    def last_day(self, index: int) -> date:
        """Return the last day of a period."""
        year, month = self._month(index)
        month += MONTHS[self.period] - 1
        return date(year, month, monthrange(year, month)[1])

    def label(self, index: int) -> str:
        """Return a period's name: `2026-11`, `2026-Q4` or `2026`."""
        year, month = self._month(index)
        if self.period == "year":
            return f"{year:04d}"
        if self.period == "quarter":
            return f"{year:04d}-Q{(month + 2) // 3}"
        return f"{year:04d}-{month:02d}"

    def room(
        self, index: int, allowance: Amount, used_total: Amount, used_in_period: Amount
    ) -> Amount:
        """Return what may still be promised in a period; a negative part means nothing.

        Args:
            index: Of the period.
            allowance: Of one period, as `allowance` gives it.
            used_total: Reserved or spent since the account was opened.
            used_in_period: Reserved or spent by releases that were reserved in that period.
        """
        if self.carry_over:
            # Use in later periods counts too: a clock that went back finds less, never more.
            return allowance.times(index + 1) - used_total
        return allowance - used_in_period

    def to_json(self) -> dict[str, object]:
        """Return the calendar in plain values, exact."""
        return {
            "period": self.period,
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "carry_over": self.carry_over,
            "start": self.start.isoformat(),
        }

    @classmethod
    def from_json(cls, values: Mapping[str, object]) -> Calendar:
        """Return the calendar that `to_json` wrote.

        Raises:
            ValueError: if it is not one, or not written as `to_json` writes it.
        """
        try:
            calendar = cls(
                period=values["period"],  # type: ignore[arg-type]  # checked when made
                epsilon=exact_fraction(values["epsilon"]),
                delta=exact_fraction(values["delta"]),
                carry_over=values["carry_over"] is True,
                start=date.fromisoformat(str(values["start"])),
            )
        except (KeyError, ZeroDivisionError, TypeError) as error:
            raise ValueError(f"Not a calendar: {type(error).__name__}.") from None
        if calendar.to_json() != dict(values) or not isinstance(values["carry_over"], bool):
            raise ValueError("Not a calendar as the ledger writes it.")
        return calendar

    def _count(self, day: date) -> int:
        """Return the number of periods before that of a day, from year 0 on."""
        return (12 * day.year + day.month - 1) // MONTHS[self.period]

    def _month(self, index: int) -> tuple[int, int]:
        """Return year and month in which a period begins."""
        if index < 0:
            raise ValueError(f"Periods are counted from 0, got {index}.")
        year, month = divmod((self._count(self.start) + index) * MONTHS[self.period], 12)
        return year, month + 1


def allowance(terms: Terms, calendar: Calendar) -> Amount:
    """Return what one period allows, in what releases of the account add up in.

    In a zcdp account it is the rho whose epsilon, at the account's conversion delta, is the
    period's: less than its part of the account's total, since rho grows with the square of epsilon.
    """
    return terms.allowance(calendar.epsilon, calendar.delta)
