from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_core.client.released import Table
from dp_core.kernel.counting.domain import Domain
from dp_core.methods.reconstruction.estimates.raking import (
    gap,
    margin,
    possible_joint,
    rake,
    rake_among_zeros,
)
from dp_core.schema.structure.structural_zeros import Rule, StructuralZeros

DOMAIN = Domain(("a", "b", "c"), (2, 3, 4))


def tables_of(joint, cliques):
    whole = Table(DOMAIN, joint)
    return [Table(DOMAIN.project(clique), margin(whole, clique)) for clique in cliques]


def test_raking_keeps_zeros_and_reaches_the_margins():
    start = np.array([[1.0, 2.0, 0.0], [3.0, 1.0, 5.0]])
    margins = [(("a",), np.array([4.0, 8.0])), (("b",), np.array([5.0, 3.0, 4.0]))]
    found = rake(start, ("a", "b"), margins, rounds=200)
    np.testing.assert_allclose(found.sum(axis=1), [4, 8], atol=0.01)
    np.testing.assert_allclose(found.sum(axis=0), [5, 3, 4], atol=0.01)
    assert found[0, 2] == 0


def test_a_margin_is_summed_in_the_order_asked_for():
    joint = np.arange(24.0).reshape(DOMAIN.sizes)
    np.testing.assert_array_equal(margin(Table(DOMAIN, joint), ("c", "a")), joint.sum(axis=1).T)


@given(st.integers(0, 10_000))
def test_margins_that_some_table_has_are_reached_and_odds_ratios_stay(seed):
    rng = np.random.default_rng(seed)
    zeros = StructuralZeros(
        (Rule(("a", "b"), ((0,), (2,)), ""), Rule(("b", "c"), ((0,), (1,)), ""))
    )
    truth = rng.gamma(1.0, size=DOMAIN.sizes) * ~zeros.mask(DOMAIN)
    truth *= 1000 / truth.sum()
    tables = tables_of(truth, [("a",), ("b",), ("c",)])
    found = possible_joint(DOMAIN, DOMAIN.columns, tables, zeros).values
    assert (found[zeros.mask(DOMAIN)] == 0).all()
    for table in tables:
        np.testing.assert_allclose(margin(Table(DOMAIN, found), table.clique), table.values, atol=1)
    # Nothing but one-way tables and zeros is in it: possible odds ratios are 1.
    square = found[1, 1:, 2:]
    assert square[0, 0] * square[1, 1] == pytest.approx(square[0, 1] * square[1, 0], rel=1e-6)


def test_what_margins_have_in_impossible_levels_goes_to_the_others_in_proportion():
    start = np.array([[1.0, 1.0], [1.0, 1.0], [0.0, 0.0]])
    margins = [(("a",), np.array([20.0, 10.0, 70.0])), (("b",), np.array([40.0, 60.0]))]
    found = rake_among_zeros(start, ("a", "b"), margins)
    np.testing.assert_allclose(found, np.outer([200 / 3, 100 / 3, 0], [0.4, 0.6]), atol=0.02)


def test_contradicting_margins_share_what_is_missed():
    start = np.array([[0.0, 1.0], [1.0, 1.0]])
    # The first level of each holds 70 %, but they exclude each other.
    margins = [(("a",), np.array([70.0, 30.0])), (("b",), np.array([70.0, 30.0]))]
    found = rake_among_zeros(start, ("a", "b"), margins)
    np.testing.assert_allclose(found, [[0, 50], [50, 0]], atol=0.5)


def test_empty_cells_of_margins_that_leave_no_table_lose_no_record():
    start = np.array([[0.0, 1.0], [1.0, 1.0]])
    margins = [(("a",), np.array([100.0, 0.0])), (("b",), np.array([100.0, 0.0]))]
    found = rake_among_zeros(start, ("a", "b"), margins)
    assert found.sum() == pytest.approx(100)
    assert found[0, 0] == 0
    np.testing.assert_allclose([found[0, 1], found[1, 0]], [50, 50], atol=0.5)


def test_a_margin_that_lies_in_impossible_levels_alone_is_even_over_the_others():
    start = np.array([[0.0, 0.0], [1.0, 1.0]])
    margins = [(("a",), np.array([10.0, 0.0])), (("b",), np.array([4.0, 6.0]))]
    np.testing.assert_allclose(
        rake_among_zeros(start, ("a", "b"), margins), [[0, 0], [4, 6]], atol=0.01
    )


def test_without_a_possible_cell_nothing_is_held():
    assert not rake_among_zeros(np.zeros((2, 2)), ("a", "b"), [(("a",), np.ones(2))]).any()


@given(st.integers(0, 10_000))
def test_any_zeros_and_margins_give_a_table_of_the_total_with_those_zeros(seed):
    rng = np.random.default_rng(seed)
    start = (rng.random(DOMAIN.sizes) < rng.random()).astype(float)
    margins = []
    for name, size in zip(DOMAIN.columns, DOMAIN.sizes, strict=True):
        wanted = rng.gamma(0.3, size=size) * (rng.random(size) < 0.7)
        wanted = wanted if wanted.sum() > 0 else np.ones(size)
        margins.append(((name,), wanted * (500 / wanted.sum())))
    found = rake_among_zeros(start, DOMAIN.columns, margins)
    assert np.isfinite(found).all()
    assert (found >= 0).all()
    assert (found[start == 0] == 0).all()
    assert found.sum() == pytest.approx(500 if start.any() else 0)


def test_the_gap_is_that_of_the_worst_cell():
    margins = [(("a",), np.array([2.0, 2.0])), (("b",), np.array([1.0, 3.0]))]
    assert gap(np.ones((2, 2)), ("a", "b"), margins) == 1
