from __future__ import annotations

from datetime import date, timedelta
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_core.kernel.cost.composition import NOTHING, Amount, Terms
from dp_core.kernel.cost.curves import zcdp_limit
from dp_core.policies.budget_periods import Calendar, allowance

PERIODS = ("month", "quarter", "year")
days = st.dates(min_value=date(1990, 1, 1), max_value=date(2150, 12, 31))
HALF = Amount(Fraction(1, 2), Fraction(1, 10**9))


def calendar(period="month", *, carry_over=False, start=date(2026, 11, 20)):
    return Calendar(period, Fraction(1, 2), Fraction(1, 10**9), carry_over, start)


@given(period=st.sampled_from(PERIODS), start=days, day=days)
def test_every_day_from_the_first_on_lies_in_its_period(period, start, day):
    budget = calendar(period, start=start)
    index = budget.index(day)
    assert day <= budget.last_day(index)
    if index:
        assert budget.last_day(index - 1) < day
    if day < start:
        assert index == 0


@given(period=st.sampled_from(PERIODS), start=days, index=st.integers(0, 500))
def test_periods_follow_one_another_without_a_gap(period, start, index):
    budget = calendar(period, start=start)
    last = budget.last_day(index)
    assert budget.index(last) == index
    assert budget.index(last + timedelta(days=1)) == index + 1
    assert budget.label(index) != budget.label(index + 1)


def test_the_first_period_is_that_of_the_opening():
    for period in PERIODS:
        assert calendar(period).index(date(2026, 11, 20)) == 0
        assert calendar(period).index(date(2020, 1, 1)) == 0
        assert calendar(period).index(date(2026, 12, 31)) == (1 if period == "month" else 0)
        assert calendar(period).index(date(2027, 1, 1)) == {"month": 2}.get(period, 1)


def test_a_leap_day_ends_its_february():
    budget = calendar(start=date(2028, 1, 31))
    assert budget.last_day(1) == date(2028, 2, 29)
    assert budget.index(date(2028, 2, 29)) == 1
    assert budget.index(date(2028, 3, 1)) == 2
    assert calendar(start=date(2100, 1, 1)).last_day(1) == date(2100, 2, 28)
    assert calendar("year", start=date(2028, 2, 29)).index(date(2029, 2, 28)) == 1


def test_quarters_begin_in_january_april_july_and_october():
    budget = calendar("quarter", start=date(2026, 1, 1))
    assert [budget.last_day(index) for index in range(5)] == [
        date(2026, 3, 31),
        date(2026, 6, 30),
        date(2026, 9, 30),
        date(2026, 12, 31),
        date(2027, 3, 31),
    ]
    assert budget.index(date(2026, 3, 31)) == 0
    assert budget.index(date(2026, 4, 1)) == 1


def test_the_calendar_runs_to_the_last_day_there_is():
    for period in PERIODS:
        budget = calendar(period)
        assert budget.last_day(budget.index(date.max)) == date.max


def test_periods_are_named_as_people_name_them():
    assert [calendar(period).label(0) for period in PERIODS] == ["2026-11", "2026-Q4", "2026"]
    assert [calendar(period).label(2) for period in PERIODS] == ["2027-01", "2027-Q2", "2028"]
    with pytest.raises(ValueError, match="at least 0"):
        calendar().label(-1)


def test_without_carry_over_only_the_period_itself_counts():
    budget = calendar()
    used = Amount(Fraction(9), Fraction(0))
    assert budget.room(7, HALF, used, NOTHING) == HALF
    part = Amount(Fraction(1, 3), Fraction(0))
    assert budget.room(7, HALF, used, part) == Amount(Fraction(1, 6), HALF.delta)
    assert budget.room(7, HALF, used, HALF.times(2)) == NOTHING - HALF


def test_with_carry_over_the_allowances_so_far_count_less_everything_used():
    budget = calendar(carry_over=True)
    assert budget.room(0, HALF, NOTHING, NOTHING) == HALF
    assert budget.room(3, HALF, NOTHING, NOTHING) == HALF.times(4)
    assert budget.room(3, HALF, HALF.times(3), HALF) == HALF
    # A raise taken early is paid back later.
    assert budget.room(1, HALF, HALF.times(4), NOTHING) == NOTHING - HALF.times(2)


@given(
    carry_over=st.booleans(),
    asked=st.lists(st.tuples(st.integers(0, 9), st.integers(1, 60)), max_size=30),
)
def test_what_fits_in_the_room_never_passes_the_allowances_so_far(carry_over, asked):
    budget = calendar(carry_over=carry_over)
    used, in_period = NOTHING, {}
    for index, hundredths in sorted(asked):
        amount = Amount(Fraction(hundredths, 100), Fraction(0))
        spent = in_period.get(index, NOTHING)
        if amount.within(budget.room(index, HALF, used, spent)):
            used, in_period[index] = used + amount, spent + amount
        assert used.within(HALF.times(index + 1))
        if not carry_over:
            assert in_period.get(index, NOTHING).within(HALF)


def test_the_allowance_is_in_what_the_account_adds_up():
    budget = calendar()
    basic = Terms("basic", Fraction(10), Fraction(1, 10**6))
    assert allowance(basic, budget) == HALF
    zcdp = Terms("zcdp", Fraction(10), Fraction(1, 10**6), Fraction(1, 10**7))
    rho = zcdp_limit(Fraction(1, 2), Fraction(9, 10**7))
    assert allowance(zcdp, budget) == Amount(rho, Fraction(1, 10**9))


@pytest.mark.parametrize("period", PERIODS)
@pytest.mark.parametrize("carry_over", [False, True])
def test_calendars_survive_being_written_down(period, carry_over):
    budget = calendar(period, carry_over=carry_over)
    assert Calendar.from_json(budget.to_json()) == budget


@pytest.mark.parametrize(
    "change",
    [
        {"period": "week"},
        {"period": None},
        {"epsilon": "0"},
        {"epsilon": "0.5"},
        {"epsilon": "1/0"},
        {"delta": "1"},
        {"delta": "-1/2"},
        {"carry_over": "yes"},
        {"carry_over": 0},
        {"start": "20261120"},
        {"start": "2026-02-29"},
        {"extra": 1},
    ],
)
def test_what_is_not_a_calendar_is_not_read_as_one(change):
    with pytest.raises(ValueError, match=r"."):
        Calendar.from_json(calendar().to_json() | change)
    with pytest.raises(ValueError, match="KeyError"):
        Calendar.from_json({"period": "month"})
