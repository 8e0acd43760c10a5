from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import pytest

from dp_core.accounts.guarantee import (
    PLD,
    SECOND_DELTA,
    THEOREMS,
    Guarantee,
    implied,
    second,
    shown,
    tightest,
)
from dp_core.accounts.loss_distribution import tightest_epsilon
from dp_core.accounts.requested import Privacy
from dp_core.kernel.cost.currency import Currency, largest_limit
from dp_core.kernel.mechanisms.additive_noise import LaplaceEvent
from dp_core.kernel.mechanisms.event import Event
from dp_core.kernel.mechanisms.private_choice import NoisyMaxEvent
from dp_core.kernel.privacy import Relation

BILLIONTH = Fraction(1, 10**9)
ONE = Fraction(1)
PURE = Privacy(epsilon=ONE, delta=Fraction(0), neighbours="add-remove")
AT_A_BILLIONTH = Privacy(epsilon=ONE, delta=BILLIONTH, neighbours="add-remove")


def tables(currency: Currency, count: int) -> list[tuple[Event, Mapping[str, object]]]:
    event = currency.noise_event(currency.limit / count, l1=1, l2_squared=1)
    return [(event, {"name": "table"})] * count


@pytest.mark.parametrize("kind", ["zcdp", "gaussian"])
def test_what_the_total_implies_is_never_weaker_than_what_was_enforced(kind):
    limit = largest_limit(kind, ONE, BILLIONTH)
    assert implied(Currency(kind, limit), AT_A_BILLIONTH).epsilon <= 1
    less = implied(Currency(kind, limit / 4), AT_A_BILLIONTH)
    assert less.epsilon < Fraction(6, 10)
    assert less.theorem == THEOREMS[kind]


@pytest.mark.parametrize(("kind", "most"), [("zcdp", "0.97"), ("gaussian", "1")])
def test_gaussian_tables_are_stated_by_their_losses(kind, most):
    currency = Currency(kind, largest_limit(kind, ONE, BILLIONTH))
    events = tables(currency, 20)
    stated = tightest(currency, AT_A_BILLIONTH, events)
    assert (stated.delta, stated.theorem) == (BILLIONTH, PLD)
    assert stated.epsilon < Fraction(most)
    assert second(currency, AT_A_BILLIONTH, events) is None

    exact = tightest_epsilon(events, Relation("add-remove"), BILLIONTH)
    # Rounded up, so that a result that differs in its tenth digit still shows it.
    assert exact * (1 + BILLIONTH) <= stated.epsilon <= exact * (1 + Fraction(1, 10**5))
    assert shown(events, Relation("add-remove"), stated.epsilon, BILLIONTH)
    assert not shown(events, Relation("add-remove"), exact * (1 - BILLIONTH), BILLIONTH)


def test_a_choice_is_stated_by_its_currency():
    currency = Currency("zcdp", largest_limit("zcdp", ONE, BILLIONTH))
    choice = NoisyMaxEvent(Fraction(400), 1, gumbel=True), {"name": "indif"}
    charges = [choice, *tables(currency, 2)[:1]]
    assert tightest(currency, AT_A_BILLIONTH, charges) == implied(currency, AT_A_BILLIONTH)
    assert not shown(charges, Relation("add-remove"), Fraction(100), BILLIONTH)


@pytest.mark.parametrize("asks", [None, [], {}, {"name": ["table"]}, {"name": None}])
def test_a_question_that_cannot_be_read_is_no_table(asks):
    """A receipt may say anything; ten charged checks are not ten tables."""
    charges = [(LaplaceEvent(Fraction(20), 2), asks)] * 10
    relation = Relation("replace-one")
    assert not shown(charges, relation, Fraction("0.8721"), SECOND_DELTA)
    assert shown(charges, relation, Fraction("0.9993"), SECOND_DELTA)


def test_a_pure_release_stays_pure_and_gets_a_second_statement():
    currency = Currency("pure", ONE)
    events = tables(currency, 100)
    pure = Guarantee(epsilon=ONE, delta=Fraction(0), theorem=THEOREMS["pure"])
    assert tightest(currency, PURE, events) == pure
    assert not shown(events, Relation("add-remove"), ONE, Fraction(0))  # read at a delta only

    found = second(currency, PURE, events)
    assert found is not None
    assert (found.delta, found.theorem) == (SECOND_DELTA, PLD)
    assert float(found.epsilon) == pytest.approx(0.3923, rel=1e-3)


def test_laplace_noise_that_was_bought_at_a_delta_is_read_at_that_delta():
    currency = Currency("pure", ONE)
    events = tables(currency, 100)
    assert tightest(currency, AT_A_BILLIONTH, events) == implied(currency, AT_A_BILLIONTH)
    found = second(currency, AT_A_BILLIONTH, events)
    assert found is not None
    assert found.delta == BILLIONTH
    assert float(found.epsilon) == pytest.approx(0.51996, rel=1e-3)


@pytest.mark.parametrize(
    ("count", "zcdp", "gaussian", "billionth", "millionth"),
    [
        (1, 0.948, 0.968, None, None),
        (10, 0.949, 0.997, None, None),
        (100, 0.949, 1.000, 0.520, 0.392),
        (1000, 0.949, 1.000, 0.161, 0.116),
    ],
)
def test_the_documentation_states_what_is_gained(count, zcdp, gaussian, billionth, millionth):
    for kind, expected in (("zcdp", zcdp), ("gaussian", gaussian)):
        currency = Currency(kind, largest_limit(kind, ONE, BILLIONTH))
        stated = tightest(currency, AT_A_BILLIONTH, tables(currency, count))
        assert round(float(stated.epsilon), 3) == expected
    pure = Currency("pure", ONE)
    for privacy, epsilon in ((AT_A_BILLIONTH, billionth), (PURE, millionth)):
        also = second(pure, privacy, tables(pure, count))
        assert (also and round(float(also.epsilon), 3)) == epsilon
