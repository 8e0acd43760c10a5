from __future__ import annotations

from fractions import Fraction

import pytest

from dp_core.accounting.currency import THEOREMS, Currency, largest_limit
from dp_core.accounting.events import Event, GaussianEvent, LaplaceEvent, NoisyMaxEvent
from dp_core.accounting.loss_distribution import THEOREM, tightest_epsilon
from dp_core.accounting.statement import Statement, at_delta, tightest

BILLIONTH = Fraction(1, 10**9)
ONE = Fraction(1)


def tables(currency: Currency, count: int) -> list[Event]:
    return [currency.noise_event(currency.limit / count, l1=1, l2_squared=1)] * count


def test_gaussian_tables_fixed_beforehand_are_stated_by_their_losses():
    currency = Currency("zcdp", largest_limit("zcdp", ONE, BILLIONTH))
    events = tables(currency, 20)
    stated = tightest(events, "add-remove", currency, (ONE, BILLIONTH), fixed_beforehand=True)
    assert stated == Statement(
        tightest_epsilon(events, "add-remove", BILLIONTH), BILLIONTH, THEOREM
    )
    assert stated.epsilon < Fraction(97, 100)


def test_what_was_chosen_on_the_way_is_stated_by_its_currency():
    currency = Currency("zcdp", largest_limit("zcdp", ONE, BILLIONTH))
    events = tables(currency, 20)[:1]
    stated = tightest(events, "add-remove", currency, (ONE, BILLIONTH), fixed_beforehand=False)
    # The total was fixed; that less was spent was not.
    assert stated.theorem == THEOREMS["zcdp"]
    assert Fraction(999_999, 10**6) < stated.epsilon <= 1
    fixed = tightest(events, "add-remove", currency, (ONE, BILLIONTH), fixed_beforehand=True)
    assert fixed.epsilon < Fraction(1, 4)


def test_a_total_below_what_was_enforced_is_stated_by_what_it_implies():
    limit = largest_limit("gaussian", Fraction(1, 2), BILLIONTH)
    currency = Currency("gaussian", limit)
    events = tables(currency, 3)
    stated = tightest(events, "add-remove", currency, (ONE, BILLIONTH), fixed_beforehand=False)
    assert stated.theorem == THEOREMS["gaussian"]
    assert float(stated.epsilon) == pytest.approx(0.5, rel=1e-6)


def test_scores_under_gaussian_noise_fall_back_on_the_sum_of_their_costs():
    limit = largest_limit("gaussian", ONE, BILLIONTH)
    currency = Currency("gaussian", limit)
    scores = currency.noise_event(limit / 4, l1=40, l2_squared=160)
    events = [scores, currency.noise_event(limit / 4, l1=1, l2_squared=1)]
    stated = tightest(events, "add-remove", currency, (ONE, BILLIONTH), fixed_beforehand=True)
    assert stated.theorem == THEOREMS["gaussian"]
    assert stated.epsilon < Fraction(3, 4)
    assert at_delta(events, "add-remove", BILLIONTH, fixed_beforehand=True) is None


def test_a_pure_release_stays_pure_and_may_be_given_a_second_statement():
    currency = Currency("pure", ONE)
    events = [*tables(currency, 100)]
    pure = (ONE, Fraction(0))
    stated = tightest(events, "add-remove", currency, pure, fixed_beforehand=True)
    assert stated == Statement(ONE, Fraction(0), THEOREMS["pure"])

    second = at_delta(events, "add-remove", Fraction(1, 10**6), fixed_beforehand=True)
    assert second is not None
    assert second.theorem == THEOREM
    assert float(second.epsilon) == pytest.approx(0.3923, rel=1e-3)
    assert at_delta(events, "add-remove", Fraction(1, 10**6), fixed_beforehand=False) is None


def test_laplace_noise_bought_at_a_delta_is_stated_pure_unless_the_delta_gains_something():
    currency = Currency("pure", ONE)
    enforced = (ONE, BILLIONTH)
    events = tables(currency, 100)
    many = tightest(events, "add-remove", currency, enforced, fixed_beforehand=True)
    assert (many.delta, many.theorem) == (BILLIONTH, THEOREM)
    assert many.epsilon < Fraction(2, 3)
    chosen = tightest(events, "add-remove", currency, enforced, fixed_beforehand=False)
    assert chosen == Statement(ONE, Fraction(0), THEOREMS["pure"])


def test_gumbel_choices_keep_the_discount_that_concentrated_privacy_gives_them():
    limit = largest_limit("zcdp", ONE, BILLIONTH)
    currency = Currency("zcdp", limit)
    scale = Fraction(round(float(1 / (2 * limit / 50)) ** 0.5 * 1000) + 1, 1000)
    events = [NoisyMaxEvent(scale, 1, gumbel=True)] * 50
    stated = tightest(events, "add-remove", currency, (ONE, BILLIONTH), fixed_beforehand=True)
    assert stated.theorem == THEOREMS["zcdp"]


def test_events_beyond_the_total_are_never_stated():
    currency = Currency("pure", ONE)
    with pytest.raises(ValueError, match="more than the total"):
        tightest(
            [LaplaceEvent(Fraction(1, 2), 1)],
            "add-remove",
            currency,
            (ONE, Fraction(0)),
            fixed_beforehand=True,
        )
    with pytest.raises(ValueError, match="no cost"):
        tightest(
            [GaussianEvent(Fraction(9), 1)],
            "add-remove",
            currency,
            (ONE, Fraction(0)),
            fixed_beforehand=False,
        )
