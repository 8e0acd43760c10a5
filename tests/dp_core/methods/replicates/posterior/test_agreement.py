"""Tables that are moved to margins and sums."""

from __future__ import annotations

import numpy as np
import pytest

from dp_core.methods.replicates.posterior.agreement import clear_scores, with_margins, with_total


def test_the_change_is_in_proportion_to_the_variance():
    found = with_total(np.array([10.0, 20.0, 30.0]), np.array([1.0, 3.0, 0.0]), 68.0)
    assert found == pytest.approx([12.0, 26.0, 30.0], rel=1e-4)


def test_no_number_becomes_negative():
    found = with_total(np.array([1.0, 20.0, 0.0]), np.array([5.0, 5.0, 5.0]), 11.0)
    assert found == pytest.approx([0.0, 11.0, 0.0], abs=1e-3)


def test_a_moment_is_kept_beside_the_total():
    scores = np.array([-1.0, 0.0, 1.0])
    found = with_total(np.array([30.0, 50.0, 40.0]), np.ones(3), 120.0, [(scores, 4.0)])
    assert found.sum() == pytest.approx(120.0)
    assert found @ scores == pytest.approx(4.0, abs=1e-3)


def test_a_table_without_any_record_is_uniform():
    assert with_total(np.zeros(4), np.zeros(4), 8.0) == pytest.approx([2.0] * 4)


@pytest.mark.parametrize("products", [False, True])
def test_a_table_gets_its_margins_and_keeps_impossible_cells(products):
    rng = np.random.default_rng(4)
    values = rng.gamma(2, 30, (4, 5))
    values[0, 0] = 0.0
    variances = rng.uniform(1, 100, (4, 5))
    variances[0, 0] = 0.0
    target = rng.gamma(2, 30, (4, 5))
    target[0, 0] = 0.0
    rows, columns = target.sum(axis=1), target.sum(axis=0)
    product = np.multiply.outer(np.arange(4.0) / 3, np.arange(5.0) / 4)
    kept = (product, float((product * target).sum())) if products else None
    found = with_margins(values, variances, rows, columns, kept)
    assert found.sum(axis=1) == pytest.approx(rows, abs=0.01)
    assert found.sum(axis=0) == pytest.approx(columns, abs=0.01)
    assert found[0, 0] == 0
    assert (found >= 0).all()
    if products:
        assert (product * found).sum() == pytest.approx(kept[1], abs=0.05)


def test_values_far_out_count_as_the_last_value_that_stands_out_from_noise():
    scores, counts = np.array([1.0, 2.0, 3.0, 1e6]), np.array([900.0, 800.0, 700.0, 20.0])
    assert clear_scores(scores, counts, np.full(4, 100.0)).tolist() == [1, 2, 3, 3]
    assert clear_scores(-scores, counts, np.full(4, 100.0)).tolist() == [-1, -2, -3, -3]
    assert clear_scores(scores, counts, np.full(4, 1.0)).tolist() == [1, 2, 3, 1e6]


def test_a_column_of_noise_alone_has_no_moment_to_keep():
    scores = np.array([1.0, 2.0, 3.0])
    assert clear_scores(scores, np.array([5.0, -3.0, 2.0]), np.full(3, 100.0)) is None
    assert clear_scores(scores, np.array([5.0, 900.0, 2.0]), np.full(3, 100.0)) is None
