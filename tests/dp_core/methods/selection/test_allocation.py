from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_core.methods.selection.budget.allocation import normalise, shares, weight

CELLS = st.lists(st.integers(1, 10**9), min_size=1, max_size=30)


def test_the_shares_of_8_27_and_64_cells_are_4_9_and_16_parts():
    assert shares([8, 27, 64]) == (Fraction(4, 29), Fraction(9, 29), Fraction(16, 29))


def test_under_pure_epsilon_shares_go_as_square_roots():
    assert shares([4, 9, 25], "epsilon") == (Fraction(2, 10), Fraction(3, 10), Fraction(5, 10))


def test_equal_shares_do_not_look_at_cells():
    assert shares([1, 1000], "equal") == (Fraction(1, 2), Fraction(1, 2))


@given(CELLS, st.sampled_from(["rho", "epsilon", "equal"]))
def test_shares_are_positive_and_sum_to_exactly_one(cells, allocation):
    found = shares(cells, allocation)
    assert sum(found) == 1
    assert all(share > 0 for share in found)


@given(st.integers(1, 10**12))
def test_a_weight_is_the_root_to_six_decimals(cells):
    assert weight(cells) ** 3 <= cells**2 * 10**18 < (weight(cells) + 1) ** 3
    assert weight(cells, "epsilon") ** 2 <= cells * 10**12 < (weight(cells, "epsilon") + 1) ** 2


@given(CELLS)
def test_no_other_division_has_less_summed_noise(cells):
    best = shares(cells)

    def noise(parts):
        return sum(c * float(part) ** -0.5 for c, part in zip(cells, parts, strict=True))

    for other in (shares(cells, "equal"), shares(cells, "epsilon"), normalise(cells)):
        assert noise(best) <= noise(other) * (1 + 1e-9)


def test_a_table_without_cells_is_refused():
    with pytest.raises(ValueError, match="at least one cell"):
        shares([3, 0])
