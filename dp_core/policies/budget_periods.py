"""Budgets per period: what an account may promise in each month, quarter or year.

Periods are calendar months, quarters or years. The first one is the period in which the account was
opened; it has the whole allowance, however late the opening was. The account's total applies in
addition.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from typing import Literal, get_args

from dp_core.kernel.cost.composition import Amount, Terms
from dp_core.kernel.exact import exact_fraction
from dp_core.kernel.ledger.account_terms import Charter

Period = Literal["month", "quarter", "year"]

MONTHS: Mapping[Period, int] = {"month": 1, "quarter": 3, "year": 12}
"""Number of months in each kind of period."""


@dataclass(frozen=True, slots=True)
class Calendar:
    """The allowance of an account in each period.

    Attributes:
        period: Length of a period: `month`, `quarter` or `year`.
        epsilon: Epsilon of one period.
        delta: Delta (basic) or own delta of events (zcdp) of one period.
        carry_over: Whether the unused part of a period can be used in later ones.
        start: Day on which the account was opened.

    Raises:
        ValueError: if a value is outside its range.
    """

    period: Period
    epsilon: Fraction
    delta: Fraction
    carry_over: bool
    start: date

    def __post_init__(self) -> None:
        if self.period not in get_args(Period):
            raise ValueError(f"A period must be month, quarter or year, not {self.period!r}.")
        if self.epsilon <= 0:
            raise ValueError(f"The epsilon of a period must be positive, not {self.epsilon}.")
        if not 0 <= self.delta < 1:
            raise ValueError(
                f"The delta of a period must be at least 0 and below 1, not {self.delta}."
            )

    def index(self, day: date) -> int:
        """Return the index of the period of a day; 0 for the period of `start` and earlier days."""
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
        """Return the amount that can still be promised in a period; a negative part counts as 0.

        Args:
            index: Index of the period.
            allowance: Allowance of one period, from the function `allowance`.
            used_total: Amount reserved or spent since the account was opened.
            used_in_period: Amount reserved or spent by releases that were reserved in the period.
        """
        if self.carry_over:
            # Use in later periods counts too, so a clock that was set back never allows more.
            return allowance.times(index + 1) - used_total
        return allowance - used_in_period

    def to_json(self) -> dict[str, object]:
        """Return the calendar as plain JSON values, with exact numbers as text."""
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
            ValueError: if `values` is not exactly what `to_json` writes.
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
            raise ValueError("The calendar is not written as the ledger writes it.")
        return calendar

    def _count(self, day: date) -> int:
        """Return the number of periods from year 0 up to the period of a day."""
        return (12 * day.year + day.month - 1) // MONTHS[self.period]

    def _month(self, index: int) -> tuple[int, int]:
        """Return year and month in which a period begins."""
        if index < 0:
            raise ValueError(f"A period's index must be at least 0, not {index}.")
        year, month = divmod((self._count(self.start) + index) * MONTHS[self.period], 12)
        return year, month + 1


def allowance(terms: Terms, calendar: Calendar) -> Amount:
    """Return the allowance of one period as an amount of the account.

    In a zcdp account it is the rho that implies the period's epsilon at the account's conversion
    delta. Because rho grows about with the square of epsilon, a period with 1/n of the account's
    epsilon has less than 1/n of its rho.
    """
    return terms.allowance(calendar.epsilon, calendar.delta)


def calendar_of(charter: Charter) -> Calendar | None:
    """Return the allowance of an account per period; None without one.

    Raises:
        ValueError: if the account's receipt does not state it as `Calendar.to_json` writes it.
    """
    return None if charter.calendar is None else Calendar.from_json(charter.calendar)


def is_raised(before: Calendar | None, after: Calendar | None) -> bool:
    """Return whether a calendar allows at least as much as before, in the same periods.

    The use of each period is stored by the period's index, so an index must keep its period.

    Args:
        before: Calendar before the change, None without one.
        after: Calendar after the change; None only if `before` is None.
    """
    if before is None or after is None:
        return before is after
    same = replace(after, epsilon=before.epsilon, delta=before.delta) == before
    return same and after.epsilon >= before.epsilon and after.delta >= before.delta


def is_same_but_delta(before: Calendar | None, after: Calendar | None) -> bool:
    """Return whether only the delta of a calendar changed; the composition decides its meaning."""
    if before is None or after is None:
        return before is after
    return replace(after, delta=before.delta) == before
