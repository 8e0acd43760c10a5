"""Intervals from noisy counts: by their definition, and at their level wherever the values are."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dp_core.inference.count_intervals import (
    cut_weights,
    difference_of,
    fieller,
    quantile_bins,
    rounded_up,
)
from dp_core.metrics.noise_quantiles import central_quantile, effective_draws


def test_the_interval_is_the_ratios_that_are_not_rejected():
    n, d, vn, vd, c, q = 40.0, 90.0, 30.0, 60.0, 12.0, 1.96
    low, high = fieller(n, d, vn, vd, c, q)
    ratios = np.linspace(-1, 2, 300_001)
    kept = ratios[(n - ratios * d) ** 2 <= q**2 * (vn - 2 * ratios * c + ratios**2 * vd)]

    assert low == pytest.approx(kept.min(), abs=2e-5)
    assert high == pytest.approx(kept.max(), abs=2e-5)


def test_a_denominator_that_may_be_0_gives_an_unbounded_interval():
    at = np.array([1.97, 1.95, -50.0])
    low, high = fieller(5.0, at, 1.0, 1.0, 0.0, 1.96)

    assert np.isfinite(low).tolist() == np.isfinite(high).tolist() == [True, False, False]


def test_a_ratio_of_a_sum_to_itself_is_1():
    low, high = fieller(50.0, 50.0, 9.0, 9.0, 9.0, 1.96)

    assert (low, high) == (1.0, 1.0)


@pytest.mark.parametrize("correlation", [-0.7, 0.0, 0.4])
def test_with_symmetric_intervals_the_difference_has_the_usual_one(correlation):
    one, two = np.array(3.0), np.array(1.0)
    half = 1.96 * np.sqrt(4 + 9 - 2 * correlation * 6)
    low, high = difference_of(
        (one, two), (one - 3.92, two - 5.88), (one + 3.92, two + 5.88), correlation
    )

    assert (low, high) == (pytest.approx(2 - half), pytest.approx(2 + half))


def test_a_difference_with_an_unbounded_term_is_unbounded():
    one, two = np.array(3.0), np.array(1.0)
    low, high = difference_of((one, two), (one - 1, two - np.inf), (one + 1, two + np.inf), 0.0)

    assert (low, high) == (-np.inf, np.inf)


FALSE_ALARM = 1e-6
"""Probability that a test of coverage fails although the coverage is the level."""
FILES = {
    "spread": [60, 60, 100, 100, 80, 40],
    "a heap": [30, 30, 30, 300, 30, 30],
    "a gap at the median": [100, 100, 0, 0, 100, 100],
    "two bins": [0, 200, 0, 0, 210, 0],
    "few records": [4, 6, 9, 10, 3, 2],
    "one bin": [0, 0, 0, 120, 0, 0],
}


def bins_of(counts, variance, q=0.5, level=0.95, fourth=0.0):
    """Return the bins from counts, shape (groups, bins), whose noise has these two cumulants."""
    counts = np.atleast_2d(counts)
    weights = cut_weights(counts.shape[1], q)
    variances = variance * (weights**2).sum(axis=1)
    draws = effective_draws(variances, fourth * (weights**4).sum(axis=1))
    half = rounded_up(central_quantile(level, draws) * np.sqrt(variances), variances)
    deviations = counts @ weights.T
    return quantile_bins(deviations, np.broadcast_to(half, deviations.shape))


def noisy(counts, kind, repeats, seed):
    """Return noisy counts, shape (repeats, bins), and the two cumulants of their noise."""
    rng, shape = np.random.default_rng(seed), (repeats, len(counts))
    if kind == "gaussian":
        return counts + np.rint(rng.normal(0, 6, shape)), 36.0, 0.0
    p = -math.expm1(-1 / 5)
    variance = 2 * (1 - p) / p**2
    return counts + rng.geometric(p, shape) - rng.geometric(p, shape), variance, 3 * variance**2


def quantile_set(counts, q):
    """The bins that have a value x with F(x-) <= q <= F(x), wherever the values are in them."""
    below = np.concatenate([[0], np.cumsum(counts)])
    return np.flatnonzero((below[:-1] <= q * below[-1]) & (below[1:] >= q * below[-1]))


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
@pytest.mark.parametrize("q", [0.1, 0.5, 0.75])
@pytest.mark.parametrize("name", FILES)
def test_an_interval_contains_every_value_that_is_the_quantile(name, q, kind):
    counts, repeats = np.array(FILES[name]), 600
    values, variance, fourth = noisy(counts, kind, repeats, 7)
    found = bins_of(values, variance, q, 0.9, fourth)
    for place in quantile_set(counts, q):
        missed = found.determined & ~((found.first <= place) & (place <= found.last))
        assert stats.binom.sf(missed.sum() - 1, repeats, 0.1) > FALSE_ALARM


def test_the_level_is_reached_where_it_is_hardest():
    """The quantile is the largest value of its bin, so that the next edge decides."""
    values, variance, _ = noisy(np.array([0, 100, 100, 0, 0, 0]), "gaussian", 2000, 3)
    missed, too_narrow = (
        ((found.first > 1) | (found.last < 2)).sum()
        for found in (bins_of(values, variance * share, level=0.9) for share in (1.0, 0.49))
    )
    # Both bins have the median. Each is excluded with probability .05 at the edge between them.
    assert stats.binom.sf(missed - 1, 2000, 0.1) > FALSE_ALARM
    assert stats.binom.cdf(missed, 2000, 0.1) > FALSE_ALARM
    assert stats.binom.sf(too_narrow - 1, 2000, 0.1) < FALSE_ALARM


@given(
    st.lists(st.integers(0, 50), min_size=6, max_size=6).filter(any),
    st.sampled_from([0.05, 0.25, 0.5, 0.8]),
)
def test_without_noise_the_interval_is_the_bins_of_the_quantile(counts, q):
    found, possible = bins_of(counts, 0.0, q), quantile_set(counts, q)
    assert (found.first[0], found.last[0]) == (possible[0], possible[-1])
    assert found.first[0] <= found.place[0] <= found.last[0]


@given(st.lists(st.integers(-20, 60), min_size=2, max_size=9), st.sampled_from([0.1, 0.5, 0.7]))
def test_the_estimate_is_inside_the_interval_however_noisy_the_counts_are(counts, q):
    found = bins_of(counts, 9.0, q)
    assert found.first[0] <= found.place[0] <= found.last[0]
    if not found.determined[0]:
        assert sum(counts) <= 1.96 * 3 * math.sqrt(len(counts)) + 1e-6


@given(st.lists(st.integers(0, 60), min_size=3, max_size=9).filter(lambda x: sum(x) > 30))
def test_reversing_the_values_reverses_the_interval(counts):
    last = len(counts) - 1
    one, other = bins_of(counts, 4.0, 0.3), bins_of(counts[::-1], 4.0, 0.7)
    assert (one.first[0], one.last[0]) == (last - other.last[0], last - other.first[0])


def test_a_group_without_records_is_not_determined():
    values, variance, _ = noisy(np.zeros(6), "gaussian", 1000, 5)
    determined = bins_of(values, variance).determined.sum()
    assert stats.binom.sf(determined - 1, 1000, 0.025) > FALSE_ALARM
    assert determined > 0


def test_an_edge_is_excluded_by_the_quantile_of_its_noise():
    # D at the edge between the two bins is 2.04 standard deviations above 0.
    assert bins_of([54.08, 50.0], 2.0).last == [0]
    assert bins_of([54.08, 50.0], 2.0, fourth=24.0).last == [1]


def test_parts_of_bins_are_where_linear_deviations_cross():
    deviations, half = np.array([[-50.0, -10.0, 30.0, 50.0]]), np.full((1, 4), 20.0)
    found = quantile_bins(deviations, half)
    assert (found.place[0], found.part[0]) == (1, 0.25)
    assert (found.first[0], found.low_part[0]) == (0, pytest.approx(0.75))
    assert (found.last[0], found.high_part[0]) == (1, pytest.approx(0.75))
    with pytest.raises(ValueError, match="between 0 and 1"):
        cut_weights(2, 0.0)
