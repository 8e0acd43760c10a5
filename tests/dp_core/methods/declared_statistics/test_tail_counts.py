"""Counts of layers where noise hides them: values far more frequent than others, and doubt."""

from __future__ import annotations

import numpy as np
import pytest

from dp_core.methods.declared_statistics.layers import layers_of
from dp_core.methods.declared_statistics.tail_counts import tail_counts

MOST = 5000
LAYERS = layers_of(np.arange(MOST + 1))


def exact(values):
    """Return the counts of the layers of one group."""
    places = np.searchsorted(LAYERS.edges, values, side="right") - 1
    return np.bincount(places, minlength=len(LAYERS.far)).astype(float)


def estimated(values, stddev, seed):
    rng = np.random.default_rng(seed)
    true = exact(values)
    pooled, own = (true + rng.normal(0, stddev, true.size) for _ in range(2))
    variance = max(stddev, 1e-6) ** 2
    totals = np.array([float(len(values))])
    return true, tail_counts(pooled, variance, own[None, :], variance, totals, LAYERS)


def spike(rng, rows=6000):
    """Return values of which 65 % are 1 and the others log-normal."""
    others = np.ceil(np.exp(rng.normal(1.5, 1.3, rows)))
    return np.minimum(np.where(rng.random(rows) < 0.65, 1, others), MOST).astype(int)


def zeros(rng, rows=6000):
    """Return values of which half are 0 and the others far from it."""
    others = np.exp(rng.normal(6.0, 0.7, rows))
    return np.minimum(np.where(rng.random(rows) < 0.5, 0, others), MOST).astype(int)


@pytest.mark.parametrize("kind", [spike, zeros])
@pytest.mark.parametrize("seed", range(4))
def test_values_beyond_a_frequent_one_are_not_lost_in_noise(kind, seed):
    true, found = estimated(kind(np.random.default_rng(seed)), 80.0, seed)
    amounts = LAYERS.means
    total, doubt = true @ amounts, found.doubt[0] @ amounts
    assert found.counts[0] @ amounts > 0.5 * total
    assert abs(found.counts[0] @ amounts - total) < 0.25 * total + found.counts[0] @ amounts + doubt


def test_without_noise_counts_are_exact_and_nothing_is_in_doubt():
    true, found = estimated(spike(np.random.default_rng(3)), 0.0, 3)
    assert found.counts[0] == pytest.approx(true, abs=1e-3)
    assert found.doubt[0] == pytest.approx(0.0, abs=1.0)


@pytest.mark.parametrize("seed", range(4))
def test_the_interval_of_a_small_group_allows_for_the_tail_that_its_noise_hides(seed):
    rng = np.random.default_rng(seed)
    sizes = np.array([15, 30, 60, 120] * 6)
    layers = layers_of(np.arange(0, 10**7, 100))
    values = [np.minimum(np.exp(rng.normal(7.0 + rng.normal(), 1.6, size)), 9e6) for size in sizes]
    places = [np.searchsorted(layers.edges, each // 100, side="right") - 1 for each in values]
    true = np.array([np.bincount(each, minlength=len(layers.far)) for each in places], dtype=float)
    stddev = 40.0
    pooled = true.sum(axis=0) + rng.normal(0, stddev, true.shape[1])
    noisy = true + rng.normal(0, stddev, true.shape)
    totals = sizes + rng.normal(0, 10, len(sizes))
    found = tail_counts(pooled, stddev**2, noisy, stddev**2, totals, layers)
    most = (found.counts + found.doubt + found.own_doubt) @ layers.means
    assert (most > true @ layers.means).mean() > 0.9
