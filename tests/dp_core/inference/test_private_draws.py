"""The posterior of a proportion from private draws (Charest 2011)."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dp_core.inference.private_draws import GroupDraws, group_posterior


def known(rows):
    return np.array([float(rows)]), np.ones(1)


def test_the_posterior_is_bayes_rule_over_all_files():
    """Ten records, two draws of twelve; every term is written out."""
    draws = [GroupDraws("independent", 12, s, 3.0, 3.0) for s in (4, 7)]
    found = group_posterior(draws, *known(10))
    ones = np.arange(11)
    expected = stats.betabinom.pmf(ones, 10, 1, 1)
    for s in (4, 7):
        expected *= stats.binom.pmf(s, 12, (ones + 3) / 16)
    expected /= expected.sum()
    assert found.ones.tolist() == ones.tolist()
    assert found.weights == pytest.approx(expected)
    mean, _, _ = found.in_population(0.9)
    assert mean == pytest.approx(expected @ ((1 + ones) / 12))


def test_an_urn_draws_a_beta_binomial_number():
    found = group_posterior([GroupDraws("urn", 8, 3, 1.5, 4.5)], *known(6))
    ones = np.arange(7)
    expected = stats.betabinom.pmf(3, 8, ones + 1.5, 6 - ones + 4.5)
    assert found.weights == pytest.approx(expected / expected.sum())


def test_draws_without_virtual_records_and_of_many_say_what_the_file_has():
    found = group_posterior([GroupDraws("independent", 10**6, 300_000, 0.0, 0.0)], *known(100))
    assert found.in_file(0.95) == pytest.approx((0.3, 0.3, 0.3), abs=1e-6)
    assert found.in_file(0.95, count=True) == pytest.approx((30, 30, 30), abs=1e-4)
    # Of the population that is the posterior of 30 of 100 under a uniform prior.
    _, low, high = found.in_population(0.95)
    assert (low, high) == pytest.approx(stats.beta.ppf([0.025, 0.975], 31, 71), abs=1e-4)


def test_draws_that_say_nothing_leave_the_prior():
    found = group_posterior([GroupDraws("independent", 50, 25, 1e9, 1e9)], *known(40))
    assert found.in_population(0.9) == pytest.approx((0.5, 0.05, 0.95), abs=1e-3)


def test_a_large_file_is_summed_in_steps():
    draws = [GroupDraws("independent", 2000, 700, 500.0, 500.0)]
    coarse = group_posterior(draws, *known(10**7)).in_population(0.95)
    fine = group_posterior(draws, *known(20_000)).in_population(0.95)
    # With 20,000 records the virtual ones still count: (.35 (21,000) - 500)/20,000.
    assert fine[0] == pytest.approx(0.3425, abs=1e-3)
    assert coarse[0] == pytest.approx(0.35, abs=1e-3)
    assert coarse[1:] == pytest.approx(stats.beta.ppf([0.025, 0.975], 701, 1301), abs=1e-3)


def test_no_draws_and_no_records_are_refused():
    with pytest.raises(ValueError, match="draws"):
        group_posterior([], *known(5))
    with pytest.raises(ValueError, match="one record"):
        group_posterior([GroupDraws("urn", 5, 2, 1.0, 1.0)], *known(0))
