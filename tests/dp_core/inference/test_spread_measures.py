"""Measures of counts by bin are those of the records, and their derivatives are right."""

from __future__ import annotations

import numpy as np
import pytest

from dp_core.inference.spread_measures import (
    SPREAD_MEASURES,
    BinMoments,
    gini_coefficient,
    standard_deviation,
    top_share,
)

RNG = np.random.default_rng(4)
COUNTS = RNG.uniform(1, 50, (3, 8))
BINS = BinMoments(np.sort(RNG.uniform(1, 100, 8)), RNG.uniform(0.5, 5, 8))
PARTS = {"standard deviation": (0.0,), "gini coefficient": (0.0,), "top share": (0.05, 0.4, 0.9)}
CASES = [(name, part) for name, parts in PARTS.items() for part in parts]


def gini(values):
    """Half of the relative mean difference of all pairs."""
    return np.abs(values[:, None] - values).mean() / (2 * values.mean())


def of_largest(values, part):
    """Part of the total of the largest values; of one record the part that is needed."""
    values = np.sort(values)[::-1]
    size = part * len(values)
    whole = int(size)
    return (values[:whole].sum() + (size - whole) * values[whole]) / values.sum()


@pytest.mark.parametrize("part", [0.03, 0.1, 0.5])
def test_without_spread_in_bins_measures_are_those_of_the_records(part):
    bins, counts = BinMoments(np.array([1.0, 2, 5, 40]), np.zeros(4)), np.array([[5, 3, 0, 2]])
    values = np.repeat(bins.means, counts[0])
    assert standard_deviation(counts, bins).values == pytest.approx([values.std()])
    assert gini_coefficient(counts, bins).values == pytest.approx([gini(values)])
    assert top_share(counts, bins, part).values == pytest.approx([of_largest(values, part)])


def test_values_that_are_even_in_bins_have_their_own_measures():
    edges, counts = np.array([0.0, 10, 30, 100]), np.array([[300, 500, 200]])
    inner = [
        low + (np.arange(n) + 0.5) / n * (high - low)
        for low, high, n in zip(edges, edges[1:], counts[0], strict=False)
    ]
    values, lengths = np.concatenate(inner), np.diff(edges)
    bins = BinMoments(edges[:-1] + lengths / 2, lengths**2 / 12)
    assert standard_deviation(counts, bins).values == pytest.approx([values.std()], rel=1e-4)
    assert gini_coefficient(counts, bins).values == pytest.approx([gini(values)], rel=1e-3)
    for part in (0.05, 0.15, 0.4):
        share = top_share(counts, bins, part).values
        assert share == pytest.approx([of_largest(values, part)], rel=1e-3)


@pytest.mark.parametrize(("name", "part"), CASES)
def test_derivatives_are_those_of_the_measure(name, part):
    measure, step = SPREAD_MEASURES[name].of, 1e-4
    found = measure(COUNTS, BINS, part)
    assert found.by_count.shape == COUNTS.shape
    for place, unit in enumerate(np.eye(8) * step):
        moved = {
            "by_count": [(COUNTS + sign * unit, BINS) for sign in (1, -1)],
            "by_mean": [
                (COUNTS, BinMoments(BINS.means + sign * unit, BINS.variances)) for sign in (1, -1)
            ],
            "by_variance": [
                (COUNTS, BinMoments(BINS.means, BINS.variances + sign * unit)) for sign in (1, -1)
            ],
        }
        for of, (up, down) in moved.items():
            high, low = measure(*up, part).values, measure(*down, part).values
            derivative = getattr(found, of)[:, place]
            assert derivative == pytest.approx((high - low) / (2 * step), rel=1e-4, abs=1e-9), of


@pytest.mark.parametrize(("name", "part"), CASES)
def test_a_group_without_records_has_no_measure(name, part):
    counts = COUNTS.copy()
    counts[1] = 0.0
    found = SPREAD_MEASURES[name].of(counts, BINS, part).values
    assert np.isnan(found).tolist() == [False, True, False]
