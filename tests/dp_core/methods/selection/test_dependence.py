from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from dp_core.methods.selection.budget import dependence
from dp_core.methods.selection.budget.dependence import (
    expected_dependence,
    expected_near_products,
    usual,
)

ROWS = 10_000.0


def test_without_noise_to_speak_of_pairs_are_what_they_seem():
    noisy = np.array([20.0, 300.0, 900.0, 4000.0])
    np.testing.assert_allclose(expected_dependence(noisy, 0.1, ROWS), noisy, rtol=0.01)


def test_a_single_mean_gives_the_posterior_mean(monkeypatch):
    monkeypatch.setattr(dependence, "_MEANS", np.array([0.05]))
    monkeypatch.setattr(dependence, "_USUAL", np.array([1.0]))
    noisy = np.array([-1500.0, 100.0, 2500.0])
    found = expected_dependence(noisy, 800.0, ROWS)
    for value, each in zip(noisy, found, strict=True):

        def weight(x, value=value):
            return stats.norm.pdf(value, x, 800.0) * stats.expon.pdf(x, scale=500.0)

        mass = integrate.quad(weight, 0, 20_000, limit=200)[0]
        mean = integrate.quad(lambda x: x * weight(x), 0, 20_000, limit=200)[0] / mass
        assert each == pytest.approx(mean, rel=1e-4)


def test_many_pairs_that_only_noise_moves_are_told_from_the_few_that_depend():
    rng = np.random.default_rng(0)
    truth = np.concatenate([np.full(15, 5000.0), np.full(485, 50.0)])
    found = expected_dependence(truth + rng.normal(0, 800, 500), 800.0, ROWS)
    assert found[:15].min() > 2500
    assert found[15:].mean() < 200


def test_of_noise_alone_what_is_usual_is_expected():
    found = expected_dependence(np.array([0.0]), 1e9, ROWS)
    assert found[0] == pytest.approx(usual(ROWS), rel=0.05)


def test_all_are_positive_however_far_below_zero_noise_is():
    found = expected_dependence(np.array([-1e6, -50.0, 0.0]), 10.0, ROWS)
    assert (found > 0).all()
    assert np.isfinite(found).all()
    assert found[0] < found[1] < found[2]


def test_near_products_a_single_mean_gives_the_posterior_mean(monkeypatch):
    monkeypatch.setattr(dependence, "_MEANS", np.array([0.05]))
    monkeypatch.setattr(dependence, "_USUAL", np.array([1.0]))
    noisy, added = np.array([-900.0, 700.0, 2500.0]), np.array([0.0, 600.0, 300.0])
    most = np.array([20_000.0, 20_000.0, 1_500.0])
    stddev = np.array([800.0, 400.0, 800.0])
    found = expected_near_products(noisy, stddev, ROWS, added=added, most=most)
    for value, more, its, end, each in zip(noisy, added, stddev, most, found, strict=True):

        def weight(x, value=value, more=more, its=its):
            distance = np.hypot(x, more)
            return stats.norm.pdf(value, distance, its) * stats.expon.pdf(x, scale=500.0)

        mass = integrate.quad(weight, 0, end, limit=200)[0]
        mean = integrate.quad(lambda x: x * weight(x), 0, end, limit=200)[0] / mass
        # The middle of an interval of the grid may be beyond what is possible.
        assert each == pytest.approx(mean, rel=0.02)
