from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from dp_core.selection.balance import Problem, balance, posterior_mean


def problem(dependence, *, whole=1e-3, exponent=1.0, levels=(20, 20, 20)):
    columns = [np.full(size, 10_000 / size) for size in levels]
    pairs = np.array(list(itertools.combinations(range(len(levels)), 2)))
    return Problem(
        columns=columns,
        precision=np.full(len(levels), whole / 10),
        pairs=pairs,
        dependence=np.asarray(dependence, dtype=float),
        whole=whole,
        exponent=exponent,
    )


@pytest.mark.parametrize("exponent", [1.0, 2.0])
def test_shares_sum_to_one_and_equal_pairs_get_equal_shares(exponent):
    share = balance(problem([4000, 4000, 4000], exponent=exponent))
    assert share.sum() == pytest.approx(1)
    np.testing.assert_allclose(share[:3], share[0], rtol=1e-9)
    np.testing.assert_allclose(share[3:], share[3], rtol=1e-9)


@pytest.mark.parametrize("exponent", [1.0, 2.0])
def test_a_pair_that_hardly_depends_is_not_measured(exponent):
    share = balance(problem([6000, 1, 1], exponent=exponent))
    assert share[0] > 0.1
    assert share[1] == share[2] == 0


def test_without_dependence_the_whole_budget_goes_to_single_columns():
    share = balance(problem([1e-6, 1e-6, 1e-6]))
    assert share[:3].sum() == 0
    assert share[3:].sum() == pytest.approx(1)


def test_no_small_exchange_between_two_tables_lowers_the_expected_error():
    from dp_core.selection.balance import _Error

    given = problem([5000, 3000, 900], levels=(5, 40, 20))
    share = balance(given)
    error = _Error(given)
    best = error.value(share)
    kept = np.flatnonzero(share)
    assert kept.size >= 3
    for one, two in itertools.permutations(kept, 2):
        other = share.copy()
        moved = 0.05 * share[one]
        other[one] -= moved
        other[two] += moved
        assert error.value(other) >= best * (1 - 1e-5)


def test_a_single_column_gets_everything():
    alone = Problem(
        columns=[np.array([5.0, 6.0])],
        precision=np.ones(1),
        pairs=np.zeros((0, 2), dtype=np.int64),
        dependence=np.zeros(0),
        whole=0.1,
        exponent=1.0,
    )
    np.testing.assert_array_equal(balance(alone), [1.0])


def test_the_posterior_mean_is_that_of_an_exponential_prior():
    noisy = np.array([-300.0, 0.0, 200.0, 2000.0])
    mean, stddev = noisy.mean(), 250.0
    grid = np.linspace(0, 8000, 400_001)
    prior = stats.expon.pdf(grid, scale=mean)
    for value, found in zip(noisy, posterior_mean(noisy, stddev), strict=True):
        weight = prior * stats.norm.pdf(value, loc=grid, scale=stddev)
        assert found == pytest.approx((grid * weight).sum() / weight.sum(), rel=1e-4)


def test_the_posterior_mean_is_positive_and_rises_with_the_noisy_value():
    noisy = np.linspace(-1e5, 1e5, 101)
    found = posterior_mean(noisy, 700.0)
    assert (found > 0).all()
    assert (np.diff(found) > 0).all()
