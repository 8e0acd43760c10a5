from __future__ import annotations

import math
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_core.methods.private_domain.quantile_tree import (
    EVEN,
    equal_cuts,
    estimate,
    group_edges,
    widths,
)


def counted(records, positions):
    """Return exact counts of every level."""
    return [
        [sum(records[low:high]) for low, high in pairwise(edges)]
        for edges in (group_edges(positions, width) for width in widths(positions))
    ]


def unevenness(records, cuts):
    ends = (0, *cuts, len(records))
    even = max(math.fsum(records) * EVEN, 1.0) / len(records)
    bins = (math.fsum(records[low:high]) + even * (high - low) for low, high in pairwise(ends))
    return math.fsum(each * each for each in bins)


@given(
    st.lists(st.one_of(st.just(0.0), st.floats(0.1, 100)), min_size=2, max_size=9),
    st.integers(1, 9),
)
def test_no_other_cuts_make_bins_more_equal(records, bins):
    bins = min(bins, len(records))
    cuts = equal_cuts(records, bins)

    assert len({*cuts}) == bins - 1
    assert list(cuts) == sorted(cuts)
    assert all(0 < cut < len(records) for cut in cuts)
    best = min(
        unevenness(records, other) for other in combinations(range(1, len(records)), bins - 1)
    )
    assert unevenness(records, cuts) == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("positions", [2, 16, 17, 81, 300, 4096])
def test_exact_counts_are_estimated_exactly(positions):
    records = np.random.default_rng(1).poisson(3, positions).tolist()
    found = estimate(counted(records, positions))
    assert found == pytest.approx(records, abs=1e-7)


@pytest.mark.parametrize(("positions", "bins"), [(4096, 12), (100, 4), (12, 12)])
def test_bins_of_evenly_spread_records_are_of_equal_width(positions, bins):
    cuts = equal_cuts([5.0] * positions, bins)
    assert np.abs(np.diff([0, *cuts, positions]) - positions / bins).max() <= 1


def test_a_value_that_many_share_gets_one_bin_and_the_rest_is_shared_evenly():
    records = [300.0] + [1.0] * 700
    sizes = [sum(part) for part in np.split(records, equal_cuts(records, 8))]
    assert sizes == [300, *[100] * 7]
    # The same at the other end, where cuts from left to right would run out of bins too late.
    sizes = [sum(part) for part in np.split(records[::-1], equal_cuts(records[::-1], 8))]
    assert sizes == [*[100] * 7, 300]


def test_where_nothing_is_counted_bins_are_of_equal_width():
    assert equal_cuts([0.0] * 120, 4) == (30, 60, 90)


def test_estimates_are_least_squares_where_none_is_negative():
    """By hand: two groups, of 16 positions and of one."""
    records = [1000.0] * 17
    levels = counted(records, 17)
    levels[0][0] += 34  # one group of 16 is 34 too many
    # The group itself weighs 16/17, and what is below it 1/17: two figures of variances 1 and 16.
    assert sum(estimate(levels)[:16]) == pytest.approx(16_000 + 34 * 16 / 17)
    # Each of the 16 takes the same part of it.
    assert estimate(levels)[3] == pytest.approx(1000 + 2)


def test_noisy_estimates_are_never_negative_and_add_up_over_levels():
    rng = np.random.default_rng(2)
    records = [0] * 4000 + [50] * 96
    noisy = [
        (np.array(level) + rng.normal(0, 40, len(level))).tolist()
        for level in counted(records, 4096)
    ]
    found = estimate(noisy)
    assert min(found) >= 0
    # Noise around nothing is not added up: 4000 positions of it, cut at 0 one by one, are 64,000.
    assert sum(found[:4000]) < 800


@pytest.mark.parametrize("bins", [0, 8])
def test_more_bins_than_positions_are_refused(bins):
    with pytest.raises(ValueError, match="7 positions"):
        equal_cuts([1.0] * 7, bins)
