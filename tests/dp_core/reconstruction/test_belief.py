from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from dp_core.reconstruction import belief
from dp_core.reconstruction.belief import low_rank, shrink_residual


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
