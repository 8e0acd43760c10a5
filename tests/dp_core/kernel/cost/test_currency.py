from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_core.kernel.cost.currency import Currency, largest_limit
from dp_core.kernel.cost.sensitivity import count_l1, count_l2_squared
from dp_core.kernel.extensions.column_draws import PerturbedDrawsEvent
from dp_core.kernel.mechanisms.additive_noise import GaussianEvent, LaplaceEvent
from dp_core.kernel.mechanisms.event_reading import event_from_json
from dp_core.kernel.mechanisms.private_choice import NoisyMaxEvent
from dp_core.kernel.privacy import Relation
from dp_core.methods.drawn_events import LEAST_DRAW, VIRTUAL_PARTS, draws_event
from dp_core.plan.currency_choice import choose_currency

costs = st.fractions(min_value=Fraction(1, 10**6), max_value=10, max_denominator=10**9)
scales = st.floats(0.01, 1e9).map(Fraction)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@given(cost=costs)
def test_a_charge_is_the_formula_of_its_mechanism_and_never_more_than_was_set_aside(
    neighbours, cost
):
    l1, l2_squared = count_l1(Relation(neighbours)), count_l2_squared(Relation(neighbours))
    assert (l1, l2_squared) == ((1, 1) if neighbours == "add-remove" else (2, 2))

    laplace = Currency("pure", Fraction(10)).noise_event(cost, l1=l1, l2_squared=l2_squared)
    assert laplace.epsilon() == l1 / laplace.scale
    assert cost * (1 - Fraction(1, 10**15)) <= laplace.epsilon() <= cost

    gaussian = Currency("zcdp", Fraction(10)).noise_event(cost, l1=l1, l2_squared=l2_squared)
    assert gaussian.rho() == l2_squared / (2 * gaussian.scale**2)
    assert cost * (1 - Fraction(1, 10**14)) <= gaussian.rho() <= cost

    curve = Currency("gaussian", Fraction(10))
    smoothed = curve.noise_event(cost, l1=l1, l2_squared=l2_squared)
    assert curve.cost(smoothed) == l2_squared / (2 * (smoothed.scale**2 - 2))
    assert curve.cost(smoothed) <= cost


@given(scale=scales)
def test_zcdp_charges_pure_mechanisms_by_the_books(scale):
    zcdp = Currency("zcdp", Fraction(1))
    assert zcdp.cost(LaplaceEvent(scale, 1)) == 1 / (2 * scale**2)
    assert zcdp.cost(NoisyMaxEvent(scale, 1, True)) == (2 / scale) ** 2 / 8
    assert zcdp.cost(NoisyMaxEvent(scale, 1, False)) == (2 / scale) ** 2 / 2


def test_an_event_without_a_cost_in_the_currency_is_refused():
    with pytest.raises(ValueError, match="not purely private"):
        Currency("pure", Fraction(1)).cost(GaussianEvent(Fraction(3), 1))
    with pytest.raises(ValueError, match="has no cost"):
        Currency("gaussian", Fraction(1)).cost(LaplaceEvent(Fraction(3), 1))
    with pytest.raises(ValueError, match="too small"):
        Currency("gaussian", Fraction(1)).cost(GaussianEvent(Fraction(1), 1))


@pytest.mark.parametrize("scale", [Fraction(0), Fraction(-1)])
def test_a_scale_of_zero_never_becomes_an_event(scale):
    for make in (LaplaceEvent, GaussianEvent):
        with pytest.raises(ValueError, match="scale must be positive"):
            make(scale, 1)
    with pytest.raises(ValueError, match="scale must be positive"):
        NoisyMaxEvent(scale, 1, True)


@given(scale=scales, sensitivity=st.integers(1, 50), gumbel=st.booleans())
def test_events_survive_being_written_down(scale, sensitivity, gumbel):
    for event in (
        LaplaceEvent(scale, sensitivity),
        GaussianEvent(scale, sensitivity),
        NoisyMaxEvent(scale, sensitivity, gumbel),
    ):
        assert event_from_json(event.to_json()) == event


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"mechanism": "magic", "scale": "1"},
        {"mechanism": "discrete-laplace", "scale": "1/0", "l1_sensitivity": 1},
        {"mechanism": "discrete-laplace", "scale": "1", "l1_sensitivity": True},
        {"mechanism": "discrete-laplace", "scale": "1", "l1_sensitivity": 1, "extra": 1},
    ],
)
def test_what_is_not_an_event_is_not_read_as_one(values):
    with pytest.raises(ValueError, match=r"."):
        event_from_json(values)


def test_the_currency_is_the_one_with_the_least_noise():
    few = [(Fraction(1, 3), 1, 1, 10.0)] * 3
    many = [(Fraction(1, 90), 1, 1, 10.0)] * 90
    epsilon, delta = Fraction(1), Fraction("1e-9")
    assert choose_currency(epsilon, delta, noise="auto", statistics=few).kind == "pure"
    assert choose_currency(epsilon, delta, noise="auto", statistics=many).kind == "gaussian"
    assert choose_currency(epsilon, Fraction(0), noise="auto", statistics=many).kind == "pure"
    tiny = choose_currency(Fraction(50), delta, noise="gaussian", statistics=few)
    assert tiny.kind == "zcdp"  # noise of about one record: the smoothing would cost too much
    with pytest.raises(ValueError, match="No currency"):
        choose_currency(Fraction(1), Fraction(0), noise="gaussian", statistics=few)


def test_spent_budget_is_stated_as_epsilon_rounded_up():
    epsilon, delta = Fraction(2), Fraction("1e-6")
    for kind in ("pure", "zcdp", "gaussian"):
        currency = Currency(kind, largest_limit(kind, epsilon, delta))
        half = currency.epsilon(currency.limit / 2, delta)
        assert currency.epsilon(Fraction(0), delta) == 0
        assert (
            0 < half < currency.epsilon(currency.limit, delta) <= epsilon * Fraction(1000001, 10**6)
        )


@pytest.mark.parametrize("draws", [1, 7, 10**6])
@pytest.mark.parametrize("kind", ["pure", "zcdp"])
@pytest.mark.parametrize("each", [10**9, 900, 64, 8, 6, 1, Fraction(1, 10**6), Fraction(1, 10**17)])
def test_draws_cost_at_most_what_was_given_and_nearly_that_down_to_one_virtual_part(
    kind, each, draws
):
    """Without end: of what a draw costs beyond log(1025), at one part of a record, much is left."""
    cost = draws * (Fraction(each) if kind == "pure" else Fraction(each) ** 2 / 2)
    currency = Currency(kind, cost)
    event = draws_event(currency, cost, draws)
    assert event.draws == draws
    assert currency.cost(event) <= cost
    fewer = event.scale * Fraction(10**6 - 1, 10**6) - Fraction(1, VIRTUAL_PARTS)
    assert (fewer <= 0) == (each > math.log(1 + VIRTUAL_PARTS))
    assert fewer <= 0 or currency.cost(PerturbedDrawsEvent(fewer, draws)) > cost


@pytest.mark.parametrize("each", [Fraction(LEAST_DRAW) / 2, Fraction(1, 10**250)])
def test_draws_that_could_not_be_told_from_even_ones_are_refused(each):
    for kind, cost in (("pure", each * 3), ("zcdp", each**2 / 2 * 3)):
        with pytest.raises(ValueError, match="1e-18 or more"):
            draws_event(Currency(kind, cost), cost, 3)
