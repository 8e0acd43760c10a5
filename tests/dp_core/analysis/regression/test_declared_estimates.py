"""Estimates from declared sums and from sets together."""

from __future__ import annotations

import numpy as np
import pytest

from dp_core.analysis.regression.declared_estimates import combined_by_precision
from dp_core.inference.combine import Combined


def estimates(values, variances, within, *, df=np.inf):
    size = len(values)
    return Combined(
        *("posterior", 5, np.array(values, dtype=float), np.diag(variances).astype(float)),
        *(np.diag(within).astype(float), np.zeros((size, size)), np.full(size, df), 1000.0),
    )


def test_each_estimate_has_the_weight_of_the_other_s_noise():
    """Sampling of variance 1; noise of variance 2 of the sums and 1 of the sets."""
    sums, sets = estimates([1.5], [3.0], [3.0]), estimates([0.0], [2.0], [1.0])
    found = combined_by_precision(["x"], sums, {"x": 0}, sets)
    assert found.estimate == pytest.approx([0.5])
    # The sampling error is common; the noise has the harmonic sum.
    assert found.variance[0, 0] == pytest.approx(1 + 1 / (1 / 2 + 1))
    assert found.degrees_of_freedom[0] == 1000


def test_what_the_sets_do_not_tell_follows_from_the_sums_alone():
    sums = estimates([3.0, 5.0, 2.0], [3.0, 4.0, 5.0], [1.0, 1.0, 1.0], df=9.0)
    found = combined_by_precision(["a", "b", "c"], sums, {"c": 0}, estimates([1.0], [2.0], [1.0]))
    np.testing.assert_allclose(found.estimate[:2], [3.0, 5.0])
    np.testing.assert_allclose(np.diag(found.variance)[:2], [3.0, 4.0])
    np.testing.assert_allclose(found.degrees_of_freedom[:2], 9.0)
    assert found.estimate[2] == pytest.approx((1 * 2 + 4 * 1) / 5)
    assert found.variance[2, 2] == pytest.approx(1 + 1 / (1 / 4 + 1))


def test_sets_that_contradict_the_sums_count_for_little():
    """They differ by 10, with noise of 2: the sets' noise is taken to be 98, not 1."""
    sums, sets = estimates([10.0], [3.0], [3.0]), estimates([0.0], [2.0], [1.0])
    found = combined_by_precision(["x"], sums, {"x": 0}, sets)
    assert found.estimate == pytest.approx([9.8])
    assert found.variance[0, 0] == pytest.approx(1 + 1 / (1 / 2 + 1 / 98))


def test_the_variance_is_that_of_draws():
    """Correlated coefficients, with sampling error in common: against the estimates' own spread."""
    rng = np.random.default_rng(1)
    roots = [rng.normal(size=(3, 3)) for _ in range(3)]
    sampling, noise, other = (root @ root.T for root in roots)
    sums = estimates(np.zeros(3), np.ones(3), np.ones(3))
    sets = estimates(np.zeros(3), np.ones(3), np.ones(3))
    sums = Combined("posterior", 5, np.zeros(3), sampling + noise, None, None, np.full(3, np.inf))
    sets = Combined(
        "posterior", 5, np.zeros(3), sampling + other, sampling, None, np.full(3, np.inf)
    )
    names = ["a", "b", "c"]
    places = {name: at for at, name in enumerate(names)}
    found = combined_by_precision(names, sums, places, sets)
    common = rng.normal(size=(40_000, 3)) @ roots[0].T
    first, second = (common + rng.normal(size=common.shape) @ root.T for root in roots[1:])
    weight = np.diag(other) / (np.diag(noise) + np.diag(other))
    drawn = np.cov((weight * first + (1 - weight) * second).T)
    np.testing.assert_allclose(found.variance, drawn, atol=0.05 * np.abs(drawn).max())


def test_a_variance_below_the_sampling_error_is_not_believed():
    """Both are estimates: with less than the sampling error, the noise is a part of that."""
    sums, sets = estimates([1.0], [0.5], [0.5]), estimates([1.0], [2.0], [1.0])
    found = combined_by_precision(["x"], sums, {"x": 0}, sets)
    assert found.variance[0, 0] == pytest.approx(1 + 1 / (1 / 0.05 + 1))
