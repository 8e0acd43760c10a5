"""Intervals of quantiles contain the file's quantile at their level, wherever the values are."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dp_core.inference.quantile_intervals import quantile_bins, quantile_interval
from dp_core.metrics.noise_quantiles import effective_draws

EDGES = np.array([0, 5, 10, 20, 40, 80, 100])
FALSE_ALARM = 1e-6
"""Probability that a test of coverage fails although the coverage is the level."""


def noisy(counts, kind, rng):
    if kind == "gaussian":
        return counts + np.rint(rng.normal(0, 6, counts.shape)), 36.0, math.inf
    p = -math.expm1(-1 / 5)
    noise = rng.geometric(p, counts.shape) - rng.geometric(p, counts.shape)
    variance = 2 * (1 - p) / p**2
    return (
        counts + noise,
        variance,
        lambda w: effective_draws((w**2).sum(1) * variance, 3 * variance**2 * (w**4).sum(1)),
    )


FILES = {
    "spread": [60, 60, 100, 100, 80, 40],
    "a heap": [30, 30, 30, 300, 30, 30],
    "a gap at the median": [100, 100, 0, 0, 100, 100],
    "two bins": [0, 200, 0, 0, 210, 0],
    "few records": [4, 6, 9, 10, 3, 2],
    "one bin": [0, 0, 0, 120, 0, 0],
}


def quantile_set(counts, q):
    """The first and last bin that have a value x with F(x-) <= q <= F(x), values as wanted."""
    below = np.concatenate([[0], np.cumsum(counts)])
    fits = (below[:-1] <= q * below[-1]) & (below[1:] >= q * below[-1])
    return np.flatnonzero(fits)


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
@pytest.mark.parametrize("q", [0.1, 0.5, 0.75])
@pytest.mark.parametrize("name", FILES)
def test_an_interval_contains_every_value_that_is_the_quantile(name, q, kind):
    counts, rng = np.array(FILES[name]), np.random.default_rng(7)
    repeats = 600
    possible = quantile_set(counts, q)
    missed = np.zeros(len(possible))
    for _ in range(repeats):
        values, variance, draws = noisy(counts, kind, rng)
        found = quantile_interval(EDGES, values, np.full(6, variance), q=q, level=0.9, draws=draws)
        if found.determined:
            # Every value of the bin is inside the interval, or none.
            inside = (found.low <= EDGES[possible]) & (EDGES[possible + 1] <= found.high)
            missed += ~inside
    assert stats.binom.sf(missed.max() - 1, repeats, 0.1) > FALSE_ALARM


def test_the_level_is_reached_where_it_is_hardest():
    """The quantile is the largest value of its bin, so that the next edge decides."""
    counts, rng = np.array([0, 100, 100, 0, 0, 0]), np.random.default_rng(3)
    repeats, missed, too_narrow = 2000, 0, 0
    for _ in range(repeats):
        values, variance, _ = noisy(counts, "gaussian", rng)
        for share in (1.0, 0.7):
            found = quantile_interval(EDGES, values, np.full(6, variance * share**2), level=0.9)
            miss = not (found.low <= 5 and found.high >= 20)
            missed += miss and share == 1.0
            too_narrow += miss and share < 1
    # Both bins have the median. Each is excluded with probability .05 at the edge between them.
    assert stats.binom.sf(missed - 1, repeats, 0.1) > FALSE_ALARM
    assert stats.binom.cdf(missed, repeats, 0.1) > FALSE_ALARM
    assert stats.binom.sf(too_narrow - 1, repeats, 0.1) < FALSE_ALARM


@given(
    st.lists(st.integers(0, 50), min_size=6, max_size=6).filter(any),
    st.sampled_from([0.05, 0.25, 0.5, 0.8]),
    st.integers(0, 2**31),
)
def test_without_noise_the_interval_is_the_bins_of_the_quantile(counts, q, seed):
    found = quantile_interval(EDGES, counts, np.zeros(6), q=q, whole=True)
    possible = quantile_set(counts, q)
    assert (found.low, found.high) == (EDGES[possible[0]], EDGES[possible[-1] + 1] - 1)
    rng = np.random.default_rng(seed)
    values = np.concatenate(
        [rng.integers(*EDGES[place : place + 2], each) for place, each in enumerate(counts)]
    )
    for method in ("inverted_cdf", "averaged_inverted_cdf"):
        assert found.low <= np.quantile(values, q, method=method) <= found.high
    assert found.low <= found.estimate <= found.high


@given(st.lists(st.integers(-20, 60), min_size=2, max_size=9), st.sampled_from([0.1, 0.5, 0.7]))
def test_the_estimate_is_inside_the_interval_however_noisy_the_counts_are(counts, q):
    found = quantile_interval(range(len(counts) + 1), counts, np.full(len(counts), 9.0), q=q)
    if found.determined:
        assert found.low <= found.estimate <= found.high
    else:
        assert sum(counts) <= 1.96 * 3 * math.sqrt(len(counts)) + 1e-6


@given(st.lists(st.integers(0, 60), min_size=3, max_size=9).filter(lambda x: sum(x) > 30))
def test_reversing_the_values_reverses_the_interval(counts):
    size = len(counts)
    one = quantile_interval(range(size + 1), counts, np.full(size, 4.0), q=0.3)
    other = quantile_interval(range(size + 1), counts[::-1], np.full(size, 4.0), q=0.7)
    if one.determined:
        assert (one.low, one.high) == (size - other.high, size - other.low)


def test_a_group_without_records_is_not_determined():
    rng, determined, repeats = np.random.default_rng(5), 0, 1000
    for _ in range(repeats):
        values, variance, _ = noisy(np.zeros(6), "gaussian", rng)
        determined += quantile_interval(EDGES, values, np.full(6, variance)).determined
    assert stats.binom.sf(determined - 1, repeats, 0.025) > FALSE_ALARM
    assert determined > 0


def test_variances_may_be_given_for_counts_pairs_or_sums():
    counts, each = np.array([30, 60, 40, 10, 5, 5]), np.array([4.0, 9.0, 4.0, 1.0, 25.0, 9.0])
    wanted = quantile_interval(EDGES, counts, each, q=0.4)
    assert quantile_interval(EDGES, counts, np.diag(each), q=0.4) == wanted
    assert quantile_interval(EDGES, counts, lambda w: w**2 @ each, q=0.4) == wanted


def test_correlated_noise_that_keeps_the_total_narrows_the_interval():
    counts = np.array([200, 24, 24, 24, 24, 24])
    apart = np.full(6, 400.0)
    tied = np.diag(apart) - 400 / 6  # errors that add up to 0
    one, other = (quantile_interval(range(7), counts, each) for each in (apart, tied))
    assert (one.low, one.high) == (0.0, 2.0)
    assert (other.low, other.high) == (0.0, 1.0)


def test_an_edge_is_excluded_by_the_quantile_of_its_noise():
    # D at the edge between the two bins is 2.04 standard deviations above 0.
    given_ = [0, 1, 2], [54.08, 50.0], [2.0, 2.0]
    assert quantile_interval(*given_).high == 1.0
    assert quantile_interval(*given_, draws=1.0).high == 2.0


def test_parts_of_bins_are_where_linear_deviations_cross():
    deviations, half = np.array([[-50.0, -10.0, 30.0, 50.0]]), np.full((1, 4), 20.0)
    found = quantile_bins(deviations, half)
    assert (found.place[0], found.part[0]) == (1, 0.25)
    assert (found.first[0], found.low_part[0]) == (0, pytest.approx(0.75))
    assert (found.last[0], found.high_part[0]) == (1, pytest.approx(0.75))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"edges": [0, 1]}, "one edge more"),
        ({"edges": [0, 2, 1]}, "ascend"),
        ({"q": 0.0}, "between 0 and 1"),
        ({"level": 1.0}, "between 0 and 1"),
        ({"variance": [1.0, 1.0, 1.0]}, "has 2 or 2 x 2 entries"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(change, words):
    given_ = {"edges": [0, 1, 2], "counts": [5, 5], "variance": [1.0, 1.0]} | change
    with pytest.raises(ValueError, match=words):
        quantile_interval(**given_)
