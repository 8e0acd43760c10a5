"""Prior means of the levels that noise hides at the ends of a number's range."""

from __future__ import annotations

import numpy as np
import pytest

from dp_core.methods.replicates.hidden_tails import prior_means


def means(counts, noise, order=None, sets=4):
    counts = np.asarray(counts, dtype=np.float64)
    order = np.arange(counts.size) if order is None else np.array(order)
    rng = np.random.default_rng(3)
    return prior_means(counts, np.full(counts.size, noise), order, sets, rng)


def test_levels_that_stand_out_have_a_flat_prior_and_those_beyond_fall():
    found = means([2, 3, 900, 600, 120, 20, 4, 1], 10.0)
    assert np.isinf(found.middle).tolist() == [False, False, *[True] * 3, *[False] * 3]
    assert (np.diff(found.middle[5:]) <= 0).all()
    assert found.middle[0] <= found.middle[1]
    np.testing.assert_array_equal(np.isinf(found.draws), np.isinf(found.middle)[None].repeat(4, 0))


def test_a_hidden_level_is_an_exception_in_as_many_sets_as_its_count_makes_likely():
    counts = np.zeros(60)
    counts[:3], counts[40] = 5_000, 65
    found = means(counts, 20.0, sets=1000)
    often = (found.draws >= 3.5 * 20).mean(axis=0)
    assert often[40] > 0.5
    assert often[5:40].max() < 0.2
    assert found.middle[40] < 5


def test_a_tail_that_falls_by_the_same_ratio_is_told_by_little_noise():
    counts = 10_000 * 0.5 ** np.arange(30)
    found = means(counts, 0.5)
    hidden = np.isfinite(found.middle)
    assert hidden.sum() > 5
    assert found.middle[hidden][:4] == pytest.approx(counts[hidden][:4], abs=0.25)


def test_levels_far_out_that_stand_out_together_are_not_hidden():
    counts = np.zeros(40)
    counts[:3], counts[30:36] = 4_000, 30
    found = means(counts, 15.0)
    assert np.isinf(found.middle[:31]).all()
    assert np.isfinite(found.middle[36:]).all()


def test_only_levels_with_values_are_at_an_end():
    found = means([3, 700, 900, 2, 5], 10.0, order=[3, 2, 1])
    assert np.isfinite(found.middle).tolist() == [False, False, False, True, False]


def test_nothing_is_hidden_where_nothing_stands_out_or_nothing_is_noise():
    assert np.isinf(means([5, -3, 2, 8], 10.0).middle).all()
    assert np.isinf(means([3, 1, 2, 1], 0.0).middle).all()
    assert means([900, 3, 0], 0.0).middle[2] == pytest.approx(0, abs=0.01)


def test_noise_far_out_seldom_stands_out_however_many_levels_there_are():
    rng = np.random.default_rng(5)
    last = []
    for _ in range(60):
        counts = rng.normal(0, 20, 3000)
        counts[:10] += 5_000
        last.append(np.flatnonzero(np.isinf(means(counts, 20.0, sets=2).middle)).max())
    assert np.mean(np.array(last) > 12) < 0.25


def test_levels_beyond_the_longest_tail_have_the_mean_of_its_last():
    counts = np.zeros(70_000)
    counts[:10] = 5_000
    found = means(counts, 20.0, sets=2)
    assert found.middle[10:].max() < 20
    assert found.middle[-1] == found.middle[10 + (1 << 12)]
