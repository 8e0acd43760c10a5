"""Fieller's intervals by their definition, and differences of two of them."""

from __future__ import annotations

import numpy as np
import pytest

from dp_core.inference.ratio_intervals import difference_of, fieller


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


@pytest.mark.statistical
def test_intervals_cover_at_their_level():
    """Of 200,000 draws; the bounds are 6 standard errors beside .95 (false failure < 1e-8)."""
    rng = np.random.default_rng(3)
    errors = rng.multivariate_normal([0, 0], [[30, 12], [12, 60]], size=200_000).T
    low, high = fieller(40 + errors[0], 60 + errors[1], 30.0, 60.0, 12.0, 1.959964)
    covered = float(((low <= 40 / 60) & (high >= 40 / 60)).mean())

    assert abs(covered - 0.95) < 6 * np.sqrt(0.95 * 0.05 / 200_000)
