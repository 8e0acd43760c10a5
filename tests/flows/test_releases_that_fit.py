from dataclasses import replace
from datetime import date
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_core.accounts.largest_release import of_kind
from dp_core.kernel.cost.composition import NOTHING, Amount, Terms
from dp_core.policies.account_balance import Standing
from dp_core.policies.budget_periods import Calendar
from flows.answers.forecast_answers import releases_that_fit

TODAY = date(2026, 11, 20)
NANO = Fraction(1, 10**9)
ONE = Amount(Fraction(1), Fraction(0))


def account(epsilon, calendar=None, **values):
    terms = Terms("basic", Fraction(epsilon), Fraction(1, 10**6))
    return replace(Standing(terms, calendar, terms.limit, NOTHING), **values)


def allowed(period, epsilon, *, carry_over=False):
    return Calendar(period, Fraction(epsilon), Fraction(0), carry_over, TODAY)


def test_all_today_is_the_whole_part_of_what_is_left():
    found = releases_that_fit([account("10.5")], [ONE], today=TODAY, every=None)
    assert (found.releases, found.days, found.last) == (10, (), TODAY)
    assert found.stopped_by == "the account's total"

    used = account("10.5", used=Amount(Fraction(8), Fraction(0)))
    assert releases_that_fit([used], [ONE], today=TODAY, every=None).releases == 2
    none = releases_that_fit([account("0.5")], [ONE], today=TODAY, every=None)
    assert (none.releases, none.last) == (0, None)


@pytest.mark.parametrize(
    ("kind", "basic", "zcdp"), [("zcdp", 10, 102), ("gaussian", 10, 92), ("pure", 10, 3)]
)
def test_many_releases_fit_better_in_a_zcdp_account(kind, basic, zcdp):
    currency = of_kind(kind, NANO)(Fraction(1))
    found = []
    for composition in ("basic", "zcdp"):
        terms = Terms(composition, Fraction(10), Fraction(1, 10**6))
        asked = terms.promised(currency, Fraction(1), NANO)
        standing = Standing(terms, None, terms.limit, NOTHING)
        found.append(releases_that_fit([standing], [asked], today=TODAY, every=None).releases)
    assert found == [basic, zcdp]


def test_one_a_month_falls_on_the_same_day_or_the_last():
    found = releases_that_fit([account(5)], [ONE], today=date(2027, 12, 31), every="month")
    assert found.days == (
        date(2027, 12, 31),
        date(2028, 1, 31),
        date(2028, 2, 29),
        date(2028, 3, 31),
        date(2028, 4, 30),
    )
    assert found.last == date(2028, 4, 30)
    yearly = releases_that_fit([account(5)], [ONE], today=date(2028, 2, 29), every="year")
    assert [day.day for day in yearly.days] == [29, 28, 28, 28, 29]
    quarterly = releases_that_fit([account(3)], [ONE], today=TODAY, every="quarter")
    assert quarterly.days == (TODAY, date(2027, 2, 20), date(2027, 5, 20))


def test_with_carry_over_a_release_waits_until_enough_has_come_together():
    calendar = allowed("month", "0.4", carry_over=True)
    found = releases_that_fit([account(3, calendar)], [ONE], today=TODAY, every="month")
    # 0.4 a month: 1.2 in the third, 2 in the fifth, 3.2 in the eighth.
    assert found.days == (date(2027, 1, 20), date(2027, 3, 20), date(2027, 6, 20))


def test_without_a_cadence_the_period_of_today_ends_the_count():
    found = releases_that_fit([account(9, allowed("quarter", 2))], [ONE], today=TODAY, every=None)
    assert (found.releases, found.stopped_by) == (2, "the allowance of 2026-Q4")


def test_what_was_used_in_a_period_counts():
    used = Amount(Fraction(1), Fraction(0))
    standing = account(9, allowed("month", 1), used=used, used_in_period={0: used})
    found = releases_that_fit([standing], [ONE], today=TODAY, every="month", most=1)
    assert found.days == (date(2026, 12, 20),)


def test_all_accounts_that_it_stands_within_must_have_room():
    child = account(9, name="survey")
    parent = account(5, name="people")
    both = [ONE, ONE.times(2)]
    found = releases_that_fit([child, parent], both, today=TODAY, every=None)
    assert (found.releases, found.stopped_by) == (2, "the total of account 'people'")
    # The end of one total is told before the short month of another.
    short = account(9, allowed("month", "0.5"), name="survey")
    empty = replace(parent, used=parent.limit)
    found = releases_that_fit([short, empty], [ONE, ONE], today=TODAY, every="month")
    assert found.stopped_by == "the total of account 'people'"


def test_the_count_and_the_years_end_somewhere():
    found = releases_that_fit([account(10**6)], [ONE], today=TODAY, every="month", most=7)
    assert (found.releases, found.stopped_by) == (7, "the end of the count, 7")
    found = releases_that_fit([account(10**6)], [ONE], today=TODAY, every="year")
    assert (found.releases, found.last) == (100, date(2125, 11, 20))
    assert "100 years" in found.stopped_by
    late = releases_that_fit([account(10**6)], [ONE], today=date(9998, 5, 31), every="year")
    assert late.last == date(9999, 5, 31)
    many = releases_that_fit([account(10**6)], [ONE], today=TODAY, every="month", most=1100)
    assert (many.releases, len(many.days)) == (1100, 1000)
    assert many.last > many.days[-1]


@given(
    total=st.integers(1, 400),
    monthly=st.integers(1, 100),
    asked=st.integers(1, 60),
    carry_over=st.booleans(),
    every=st.sampled_from(["month", "quarter", "year"]),
)
def test_a_forecast_keeps_to_total_and_allowances_and_stops_only_without_room(
    total, monthly, asked, carry_over, every
):
    calendar = allowed("quarter", Fraction(monthly, 100), carry_over=carry_over)
    one = Amount(Fraction(asked, 100), Fraction(0))
    found = releases_that_fit(
        [account(Fraction(total, 100), calendar)], [one], today=TODAY, every=every
    )

    assert found.releases * asked <= total
    assert list(found.days) == sorted(set(found.days))
    for day in found.days:
        upto = [other for other in found.days if other <= day]
        inside = [other for other in upto if calendar.index(other) == calendar.index(day)]
        if carry_over:
            assert len(upto) * asked <= monthly * (calendar.index(day) + 1)
        else:
            assert len(inside) * asked <= monthly
    if found.stopped_by == "the account's total":
        assert (found.releases + 1) * asked > total
    elif "allowance" in found.stopped_by and not carry_over:
        assert asked > monthly


def test_a_forecast_needs_an_amount_for_each_account_and_none_negative():
    for asked in ([], [ONE, ONE]):
        with pytest.raises(ValueError, match="one amount for each"):
            releases_that_fit([account(1)], asked, today=TODAY, every=None)
    with pytest.raises(ValueError, match="negative"):
        releases_that_fit([account(1)], [NOTHING - ONE], today=TODAY, every=None)
