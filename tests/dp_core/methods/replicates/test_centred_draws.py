"""Draws for m sets sum to zero, and have the variance that Rubin's rule needs."""

from __future__ import annotations

import numpy as np
import pytest

from dp_core.methods.replicates.centred_draws import centred, centred_normals


@pytest.mark.parametrize("sets", [2, 5, 20])
def test_centred_draws_have_the_variance_of_the_noise_by_rubins_rule(sets):
    drawn = centred_normals(sets, (200_000,), np.random.default_rng(1))
    between = drawn.var(axis=0, ddof=1)
    assert abs(drawn.sum(axis=0)).max() < 1e-9
    # A mean of 200,000 chi-square variables over their degrees of freedom; fixed seed.
    assert (1 + 1 / sets) * between.mean() == pytest.approx(1, abs=0.02)


def test_centring_keeps_differences_between_draws():
    found = centred(np.array([[1.0], [4.0]]))
    assert found[1] - found[0] == pytest.approx(3 * (2 / 3) ** 0.5)
