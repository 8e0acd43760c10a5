"""Private choices on the Gaussian curve: the bound against exact sums and against any strategy."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_core.accounts.guarantee import theorem_of
from dp_core.accounts.memory_session import MemorySession
from dp_core.errors import BudgetRefused
from dp_core.kernel.cost.covered_choices import COVER, choice_cost, choice_rho, covered
from dp_core.kernel.cost.currency import Currency, choice_event, largest_limit
from dp_core.kernel.extensions.column_draws import PerturbedDrawsEvent
from dp_core.kernel.mechanisms.additive_noise import GaussianEvent, LaplaceEvent
from dp_core.kernel.mechanisms.grant import Step
from dp_core.kernel.mechanisms.private_choice import NoisyMaxEvent
from dp_core.methods.drawn_events import draws_event, threshold_event, urn_event
from dp_core.plan.currency_choice import choose_currency
from tests.full import examples
from tests.gaussian_curve import gaussian_delta

BILLIONTH = Fraction(1, 10**9)
EPSILONS = np.concatenate([np.linspace(-3, 3, 61), np.linspace(-0.2, 0.2, 41)])


def curve(half_mu_squared: float, epsilon: float) -> float:
    """Return the delta of the continuous Gaussian mechanism."""
    if half_mu_squared == 0:
        return max(0.0, -math.expm1(epsilon))
    return gaussian_delta(math.sqrt(2 * half_mu_squared), epsilon)


def chosen(h: float, above: float, after, epsilon: float) -> float:
    """Return delta of a choice with the losses `above` and `above` - h, and of what follows it."""
    likely = -math.expm1(above - h) / -math.expm1(-h)  # of the larger loss, under P
    return likely * after(epsilon - above) + (1 - likely) * after(epsilon - above + h)


@pytest.mark.parametrize("h", [0.01, 0.1, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("times", [1.05, 1.5, 3.0, 9.0, 100.0])
def test_a_choice_before_gaussian_noise_is_on_the_curve(h, times):
    """Whatever the interval of its losses is, at every epsilon."""
    rho = h**2 / 8
    left = times * rho
    total = left + rho * left / (left - rho)
    for above, epsilon in itertools.product(np.linspace(0, h, 21), EPSILONS):
        found = chosen(h, above, lambda at: curve(left, at), epsilon)
        assert found <= curve(total, epsilon) * (1 + 1e-9) + 1e-14


def test_a_choice_alone_is_above_the_curve_of_its_rho():
    """Neither is one with little noise after it: that is why something must be left."""
    h = 0.4
    rho = h**2 / 8
    for left in (0.0, rho / 4):
        worst = chosen(h, h / 2, lambda at, left=left: curve(left, at), 0.0)
        assert worst > 1.005 * curve(left + float(choice_cost(Fraction(rho))), 0.0)


@pytest.mark.parametrize(
    "order", ["cg" * 3, "cccg", "gcccg", "ccg" * 2, "gcgcg", "cgccgg"], ids=str
)
def test_no_strategy_is_above_the_curve_of_the_total(order):
    """The best adversary chooses each interval by the losses so far: found by going backwards.

    The last noise covers each choice as the ledger demands, and no more.
    """
    h = 0.6
    choice = float(choice_cost(Fraction(h) ** 2 / 8))
    noise, last = 0.02, COVER * choice
    grid = np.linspace(-12, 12, 4801)
    step = grid[1] - grid[0]
    total = 0.0
    value = np.maximum(0.0, -np.expm1(grid))
    for place, event in enumerate(reversed(order)):
        if event == "c":
            assert covered(Fraction(choice), Fraction(total))
            total += choice
            best = np.zeros_like(value)
            for above in np.linspace(0, h, 31):
                likely = -math.expm1(above - h) / -math.expm1(-h)
                best = np.maximum(
                    best,
                    likely * at(grid, value, -above) + (1 - likely) * at(grid, value, h - above),
                )
            value = best
            continue
        cost = last if place == 0 else noise
        total += cost
        stddev = math.sqrt(2 * cost)
        nodes = np.arange(-8 * stddev, 8 * stddev + step / 2, step)
        weights = np.exp(-(nodes**2) / (2 * stddev**2))
        weights /= weights.sum()
        value = sum(w * at(grid, value, -(cost + n)) for w, n in zip(weights, nodes, strict=True))
    middle = np.abs(grid) < 3
    bound = np.array([curve(total, epsilon) for epsilon in grid[middle]])
    # The grid rounds by about the square of its distance.
    assert (value[middle] <= bound + 2e-5).all()
    assert value[len(grid) // 2] > 0.9 * curve(total, 0.0)


def at(grid, value, shift):
    """Return a function at shifted places, linear between those of the grid."""
    return np.interp(grid + shift, grid, value)


@pytest.mark.parametrize("sensitivity", [1, 2])
@pytest.mark.parametrize("noise", [3.0, 6.0])
def test_a_small_release_is_below_its_curve_exactly(sensitivity, noise):
    """A choice among three scores, then a noisy count that depends on it, summed exactly."""
    cost = Fraction(1, 2) / Fraction(noise**2 - 2)
    currency = Currency("mixed", cost + cost / COVER)
    event = choice_event(currency, cost / COVER, sensitivity)
    assert currency.cost(event) <= cost / COVER
    count = currency.noise_event(cost, l1=1, l2_squared=1)
    assert currency.allows(event, cost)
    z = np.arange(-60, 61)
    mass = np.exp(-((z / float(count.scale)) ** 2) / 2)
    mass /= mass.sum()
    scores = np.array([4, 3, 0])
    worst = 0.0
    for moves in itertools.product((-sensitivity, 0, sensitivity), repeat=3):
        weights = [
            np.exp((each - each.max()) / float(event.scale)) for each in (scores, scores + moves)
        ]
        p, q = (each / each.sum() for each in weights)
        for shifts in itertools.product((-1, 1), repeat=3):
            joint_p = np.concatenate([p[i] * mass for i in range(3)])
            joint_q = np.concatenate([q[i] * np.roll(mass, shifts[i]) for i in range(3)])
            for epsilon in (0.0, 0.05, 0.2, 0.5, 1.0):
                found = np.maximum(joint_p - math.exp(epsilon) * joint_q, 0).sum()
                assert found <= curve(float(currency.limit), epsilon)
                worst = max(worst, found / curve(float(currency.limit), epsilon))
    assert worst > 0.8


@given(cost=st.fractions(Fraction(1, 10**6), 1), sensitivity=st.integers(1, 1000))
def test_a_choice_costs_what_it_was_given_and_no_more(cost, sensitivity):
    mixed = Currency("mixed", Fraction(10))
    event = choice_event(mixed, cost, sensitivity)
    assert event.gumbel
    assert cost * (1 - Fraction(1, 10**14)) <= mixed.cost(event) <= cost
    assert mixed.cost(event) == choice_cost(event.rho())
    assert choice_rho(choice_cost(cost)) == cost


@settings(max_examples=examples(200))
@given(rho=st.fractions(Fraction(1, 10**6), 1), times=st.fractions(COVER, 1000))
def test_what_is_covered_meets_the_condition_of_the_proof(rho, times):
    cost = choice_cost(rho)
    left = times * cost
    assert covered(cost, left)
    assert not covered(cost, COVER * cost * Fraction(999, 1000))
    assert left > rho
    assert cost >= rho * left / (left - rho)


def test_other_mechanisms_have_no_cost_on_the_curve():
    mixed = Currency("mixed", Fraction(1))
    for event in (
        LaplaceEvent(Fraction(9), 1),
        NoisyMaxEvent(Fraction(9), 1, gumbel=False),
        PerturbedDrawsEvent(Fraction(9), 1),
    ):
        with pytest.raises(ValueError, match="Gaussian curve"):
            mixed.cost(event)
    with pytest.raises(ValueError, match="threshold"):
        threshold_event(mixed, Fraction(1), BILLIONTH, l1=1)
    with pytest.raises(ValueError, match="Draws"):
        draws_event(mixed, Fraction(1), 3)
    with pytest.raises(ValueError, match="Draws"):
        urn_event(mixed, Fraction(1), 3)


def choice_step(currency, cost):
    return Step("select", "choice", cost, choice_event(currency, cost, 1), shape=(1,))


def test_a_session_refuses_a_choice_that_leaves_too_little():
    currency = Currency("mixed", Fraction(1, 100))
    cost = currency.limit / (COVER + 1)
    noise = currency.noise_event(currency.limit / 1000, l1=1, l2_squared=1)

    def draw(grants):
        return [np.zeros(1, dtype=np.int64) for _ in grants]

    session = MemorySession(currency, "add-remove")
    session.perform("one", [choice_step(currency, cost)], draw)
    session = MemorySession(currency, "add-remove")
    measured = Step("measure", "count", currency.limit / 1000, noise, shape=(1,))
    session.perform("zero", [measured], draw)
    with pytest.raises(BudgetRefused, match="too little for a choice"):
        session.perform("one", [choice_step(currency, cost)], draw)
    assert len(session.charges) == 1
    # Two at once: the second one finds less left.
    session = MemorySession(currency, "add-remove")
    with pytest.raises(BudgetRefused, match="too little for a choice"):
        session.perform("two", [choice_step(currency, cost * Fraction(19, 20))] * 2, draw)


def test_the_curve_has_room_for_a_tenth_more_noise_than_zcdp():
    """The figures of the module and of docs/design.md."""
    mixed, zcdp = (largest_limit(kind, Fraction(1), BILLIONTH) for kind in ("mixed", "zcdp"))
    assert float(mixed / zcdp) == pytest.approx(1.106, abs=5e-4)
    # Standard deviation of a table, of a release with a tenth for choices.
    assert float(zcdp / mixed) ** 0.5 == pytest.approx(0.951, abs=5e-4)


@pytest.mark.parametrize(("is_covered", "kind"), [(True, "mixed"), (False, "zcdp")])
def test_the_currency_with_the_least_noise_is_taken_where_choices_are_covered(is_covered, kind):
    found = choose_currency(
        Fraction(1),
        BILLIONTH,
        noise="gaussian",
        statistics=[(Fraction(9, 10), 1, 1, 100.0)],
        choices=(Fraction(1, 10), 10),
        choices_covered=is_covered,
    )
    assert found.kind == kind
    assert found.implies(Fraction(1), BILLIONTH)


def test_smoothing_is_paid_for():
    mixed, gaussian = (Currency(kind, Fraction(1, 10)) for kind in ("mixed", "gaussian"))
    event = GaussianEvent(Fraction(30), 1)
    assert mixed.cost(event) == gaussian.cost(event) > Currency("zcdp", Fraction(1)).cost(event)
    assert theorem_of(mixed) != theorem_of(gaussian)
    assert mixed.epsilon(Fraction(1, 100), BILLIONTH) == gaussian.epsilon(
        Fraction(1, 100), BILLIONTH
    )
