"""Weights of a mixture that items learn together."""

from __future__ import annotations

import numpy as np
import pytest

from dp_core.methods.mixture_weights import mixture_beliefs

USUAL = np.array([0.5, 0.3, 0.2])


def learned(log_likelihood, worth):
    found = mixture_beliefs(log_likelihood, USUAL, worth=worth, rounds=2000)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    weights = found.sum(axis=0) + worth * USUAL
    return weights / weights.sum()


@pytest.mark.parametrize("worth", [0.5, 4.0])
def test_no_other_weights_are_more_likely(worth):
    rng = np.random.default_rng(1)
    log_likelihood = rng.normal(0, 2, (40, 3))

    def of(weights):
        return np.log(np.exp(log_likelihood) @ weights).sum() + worth * USUAL @ np.log(weights)

    best = learned(log_likelihood, worth)
    for _ in range(200):
        other = np.abs(best + rng.normal(0, 0.02, 3))
        assert of(other / other.sum()) < of(best)


def test_items_that_say_nothing_keep_the_usual_weights_and_constants_do_not_matter():
    np.testing.assert_allclose(learned(np.full((7, 3), -1e4), 1.0), USUAL)
    rng = np.random.default_rng(2)
    some, moved = rng.normal(0, 2, (9, 3)), rng.normal(0, 500, (9, 1))
    np.testing.assert_allclose(learned(some, 1.0), learned(some + moved, 1.0), rtol=1e-9)
