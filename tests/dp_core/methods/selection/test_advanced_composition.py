from __future__ import annotations

import math
from fractions import Fraction

import pytest

from dp_core.methods.selection.advanced_composition import round_epsilon
from dp_core.wall.accounting.currency import largest_limit


@pytest.mark.parametrize(
    ("rounds", "expected"), [(10, 0.1), (30, 0.033541), (100, 0.018376), (1000, 0.005812)]
)
def test_a_round_may_cost_what_advanced_composition_leaves(rounds, expected):
    assert round_epsilon(1, 1e-6, rounds) == pytest.approx(expected, abs=5e-7)


def test_without_a_delta_it_is_an_equal_part():
    assert round_epsilon(2, 0, 8) == 0.25


def test_zcdp_leaves_each_of_many_rounds_more():
    # Half a round's epsilon for the choice, rho = (e/2)^2/8, and half for Laplace noise of the same
    # epsilon, whose rho is at most (e/2)^2/2.
    rounds, delta = 100, 1e-6
    rho = float(largest_limit("zcdp", Fraction(1), Fraction("1e-6"))) / rounds
    assert math.sqrt(rho / (1 / 32 + 1 / 8)) > 1.3 * round_epsilon(1, delta, rounds)


@pytest.mark.parametrize("wrong", [(0, 0.1, 1), (1, 1, 1), (1, -0.1, 1), (1, 0.1, 0)])
def test_what_is_no_budget_is_refused(wrong):
    with pytest.raises(ValueError, match="epsilon is positive"):
        round_epsilon(*wrong)
