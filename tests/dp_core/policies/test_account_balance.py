from __future__ import annotations

from dataclasses import replace
from datetime import date
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from dp_core.kernel.cost.composition import NOTHING, Amount, Terms
from dp_core.policies.account_balance import Standing, promise, room, stops, total_left, total_stops
from dp_core.policies.budget_periods import Calendar

TERMS = Terms("basic", Fraction(3), Fraction(3, 10**9))
MONTHLY = Calendar("month", Fraction(1), Fraction(1, 10**9), False, date(2026, 11, 20))
ONE = Amount(Fraction(1), Fraction(0))
TODAY = date(2026, 11, 20)


def standing(calendar=MONTHLY, **values):
    return replace(Standing(TERMS, calendar, TERMS.limit, NOTHING), **values)


def test_without_a_calendar_there_is_room_for_what_is_left_of_the_total():
    account = standing(None, used=ONE)
    assert room(account, TODAY) == total_left(account) == Amount(Fraction(2), Fraction(3, 10**9))


def test_with_a_calendar_the_smaller_of_total_and_period_is_free_in_each_part():
    account = standing(used=Amount(Fraction(5, 2), Fraction(0)))
    assert room(account, TODAY) == Amount(Fraction(1, 2), Fraction(1, 10**9))
    account = standing(used_in_period={0: ONE}, used=ONE)
    assert room(account, TODAY) == Amount(Fraction(0), Fraction(1, 10**9))
    assert room(account, date(2026, 12, 1)) == Amount(Fraction(1), Fraction(1, 10**9))


def test_with_carry_over_what_a_month_left_is_free_in_the_next():
    account = standing(replace(MONTHLY, carry_over=True))
    assert room(account, TODAY).main == 1
    assert room(account, date(2026, 12, 31)).main == 2
    assert room(account, date(2030, 1, 1)).main == 3  # the total


def test_the_limit_that_has_no_room_is_named():
    account = standing()
    assert stops(account, ONE, TODAY) == ""
    assert stops(account, ONE.times(2), TODAY) == "the allowance of 2026-11"
    assert stops(account, ONE.times(4), TODAY) == total_stops(account, ONE.times(4))
    assert total_stops(account, ONE.times(4)) == "the account's total"
    assert total_stops(account, ONE.times(2)) == ""
    named = replace(account, name="registry")
    assert stops(named, ONE.times(2), TODAY) == "the allowance of 2026-11 of account 'registry'"
    assert stops(named, ONE.times(4), TODAY) == "the total of account 'registry'"


def test_a_promise_counts_in_the_total_and_in_its_period():
    account = promise(promise(standing(), ONE, TODAY), ONE, date(2026, 12, 1))
    assert account.used == ONE.times(2)
    assert account.used_in_period == {0: ONE, 1: ONE}
    assert promise(standing(None), ONE, TODAY).used_in_period == {}


@given(
    carry_over=st.booleans(),
    asked=st.lists(st.tuples(st.integers(0, 8), st.integers(1, 150)), max_size=25),
)
def test_promises_that_nothing_stops_stay_within_total_and_period(carry_over, asked):
    account = standing(replace(MONTHLY, carry_over=carry_over))
    for months, hundredths in asked:
        day = account.calendar.last_day(months)
        amount = Amount(Fraction(hundredths, 100), Fraction(0))
        if stops(account, amount, day):
            assert not amount.within(room(account, day))
            continue
        account = promise(account, amount, day)
        assert NOTHING.within(room(account, day))
    assert account.used.within(account.limit)
    assert sum((a.main for a in account.used_in_period.values()), Fraction(0)) == account.used.main
    if not carry_over:
        assert all(a.main <= 1 for a in account.used_in_period.values())
