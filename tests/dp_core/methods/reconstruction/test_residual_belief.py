from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from dp_core.methods.reconstruction.estimates import residual_belief as belief
from dp_core.methods.reconstruction.estimates.residual_belief import posterior_residual


def test_under_a_prior_of_one_width_the_residual_is_the_posterior_mean(monkeypatch):
    monkeypatch.setattr(belief, "_WIDTHS", np.array([0.0, 2.0]))
    rng = np.random.default_rng(1)
    expected = np.full(4000, 16.0)  # prior deviation 2 * 16 ** 0.75 = 16
    truth = rng.normal(0, 16, 4000) * (rng.random(4000) < 0.3)
    noisy = truth + rng.normal(0, 8, 4000)
    found, _ = posterior_residual(noisy, 64.0, expected)
    for index in (0, 17, 200):
        at = noisy[index]

        def posterior(power, at=at):
            def density(x):
                return x**power * stats.norm.pdf(x, scale=16) * stats.norm.pdf(at - x, scale=8)

            still = (0.7 / 0.3) * stats.norm.pdf(at, scale=8) * (power == 0)
            return integrate.quad(density, -200, 200, limit=200)[0] + still

        # The mixture's weights are estimated from 4000 cells: near, not equal.
        assert found[index] == pytest.approx(posterior(1) / posterior(0), rel=0.1, abs=0.3)


def test_little_is_believed_of_few_cells_that_noise_alone_explains():
    noisy = np.random.default_rng(0).normal(0, 10, (200, 6))
    left = [posterior_residual(each, 100.0, np.full(6, 50.0))[0] for each in noisy]
    assert np.square(left).mean() < 0.08 * np.square(noisy).mean()
