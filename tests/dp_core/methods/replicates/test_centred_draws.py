"""Draws for m sets sum to zero, and have the variance that Rubin's rule needs."""

from __future__ import annotations

import numpy as np
import pytest

from dp_core.methods.replicates.centred_draws import (
    centred,
    centred_normals,
    stratified_uniforms,
    systematic_choices,
)


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


def test_stratified_uniforms_have_one_number_in_each_part():
    found = stratified_uniforms(5, 1000, np.random.default_rng(2))
    assert (np.sort(np.floor(5 * found), axis=0) == np.arange(5)[:, None]).all()
    assert found[0].mean() == pytest.approx(0.5, abs=0.04)  # four standard errors


def test_choices_are_as_frequent_as_their_weights_to_within_one():
    rng = np.random.default_rng(3)
    weights = np.array([6.0, 0.0, 3.0, 1.0])
    for sets in (2, 5, 20):
        often = np.bincount(systematic_choices(weights, sets, rng), minlength=4)
        assert (np.abs(often - sets * weights / 10) < 1).all()
