from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from dp_core.methods.reconstruction.estimates import residual_belief as belief
from dp_core.methods.reconstruction.estimates.residual_belief import (
    low_rank,
    shrink_numbers,
    shrink_residual,
    shrink_table,
)


def test_under_a_prior_of_one_width_the_residual_is_the_posterior_mean(monkeypatch):
    monkeypatch.setattr(belief, "_WIDTHS", np.array([0.0, 2.0]))
    rng = np.random.default_rng(1)
    expected = np.full(4000, 16.0)  # prior deviation 2 * 16 ** 0.75 = 16
    truth = rng.normal(0, 16, 4000) * (rng.random(4000) < 0.3)
    noisy = truth + rng.normal(0, 8, 4000)
    found = shrink_residual(noisy, 64.0, expected)
    for index in (0, 17, 200):
        at = noisy[index]

        def posterior(power, at=at):
            def density(x):
                return x**power * stats.norm.pdf(x, scale=16) * stats.norm.pdf(at - x, scale=8)

            still = (0.7 / 0.3) * stats.norm.pdf(at, scale=8) * (power == 0)
            return integrate.quad(density, -200, 200, limit=200)[0] + still

        # The mixture's weights are estimated from 4000 cells: near, not equal.
        assert found[index] == pytest.approx(posterior(1) / posterior(0), rel=0.1, abs=0.3)


def centred(values):
    values = values - values.mean(axis=0, keepdims=True)
    return values - values.mean(axis=1, keepdims=True)


def test_noise_alone_has_no_low_rank_part_and_one_strong_scale_is_kept():
    rng = np.random.default_rng(5)
    noise = centred(rng.normal(0, 10, (40, 60)))
    # The largest singular value of noise scatters closely around the threshold.
    assert np.abs(low_rank(noise, 1.2 * 100.0)).max() == 0
    signal = np.outer(np.linspace(-1, 1, 40), np.linspace(-1, 1, 60)) * 60
    found = low_rank(signal + noise, 100.0)
    assert np.linalg.matrix_rank(found, tol=1e-6) == 1
    assert np.linalg.norm(found - signal) < 0.35 * np.linalg.norm(noise)


def test_the_low_rank_part_of_little_noise_is_the_table():
    table = centred(np.random.default_rng(5).normal(0, 100, (6, 9)))
    np.testing.assert_allclose(low_rank(table, 1e-6), table, atol=1e-3)


def test_a_single_scale_is_shrunk_as_is_best_for_squared_error():
    # Of 4 x 6 cells whose margins are known, 3 x 5 are free (Gavish and Donoho, equation 7).
    left, right = np.array([1, 1, -1, -1]) / 2, np.array([1, -1, 1, -1, 1, -1]) / np.sqrt(6)
    for y in (4.2, 9.0):
        found = low_rank(20.0 * y * np.outer(left, right), 400.0)
        size = np.sqrt((y**2 - 3 - 5) ** 2 - 4 * 3 * 5) / y
        np.testing.assert_allclose(found, 20.0 * size * np.outer(left, right), atol=1e-9)
    least = 20.0 * (np.sqrt(3) + np.sqrt(5))
    assert not low_rank(0.999 * least * np.outer(left, right), 400.0).any()


def test_a_table_of_one_scale_is_nearer_when_it_is_also_looked_at_as_a_whole():
    rng = np.random.default_rng(2)
    scale = np.linspace(-1, 1, 12)
    truth = 40 * np.outer(scale, scale)
    noisy = centred(truth + rng.normal(0, 20, (12, 12)))
    expected, free = np.full((12, 12), 200.0), (11 / 12) ** 2
    whole = np.linalg.norm(shrink_table(noisy, 400.0, free, expected) - truth)
    assert whole < 0.95 * np.linalg.norm(shrink_residual(noisy, 400.0 * free, expected) - truth)


def test_what_is_one_number_has_the_prior_of_all_its_cells_at_once():
    signs = np.array([[1.0, -1.0], [-1.0, 1.0]])
    sizes = np.array([0.0, 30.0, 5.0, 80.0, -60.0])
    cells = np.full((2, 2), 81.0)  # prior deviations in proportion to 27, of four at once to 27 / 2
    found = shrink_numbers([size * signs for size in sizes], [400.0] * 5, [cells] * 5)
    alike = shrink_residual(sizes, 400.0, np.full(5, (27 / 2) ** (4 / 3)))
    assert 0 < alike[1] < 30
    for table, number in zip(found, alike, strict=True):
        np.testing.assert_allclose(table, number * signs, rtol=1e-9)


def test_little_is_believed_of_few_cells_that_noise_alone_explains():
    noisy = np.random.default_rng(0).normal(0, 10, (200, 6))
    left = [shrink_residual(each, 100.0, np.full(6, 50.0)) for each in noisy]
    assert np.square(left).mean() < 0.08 * np.square(noisy).mean()
