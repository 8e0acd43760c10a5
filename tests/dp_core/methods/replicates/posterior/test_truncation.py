"""Truncated normal variables against SciPy's, and the lowering of small cells."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm, truncnorm

from dp_core.methods.replicates.posterior.truncation import (
    IN_SETS,
    central_counts,
    lowered,
    truncated,
    truncated_mean,
    truncated_variance,
)

MEANS = np.array([-12.0, -3.0, 0.0, 1.0, 5.0, 80.0])
SPREAD = np.array([2.0, 3.0, 1.0, 4.0, 2.0, 5.0])


@pytest.mark.parametrize("score", [-2.5, -0.3, 0.0, 1.1, 3.0])
def test_a_truncated_draw_is_the_quantile_of_its_score(score):
    found = truncated(MEANS, SPREAD, np.full(MEANS.shape, score))
    wanted = truncnorm(-MEANS / SPREAD, np.inf, MEANS, SPREAD).ppf(norm.cdf(score))
    assert found == pytest.approx(wanted, rel=1e-6)
    assert (found >= 0).all()


def test_moments_of_a_truncated_variable_are_those_of_scipy():
    wanted = truncnorm(-MEANS / SPREAD, np.inf, MEANS, SPREAD)
    assert truncated_mean(MEANS, SPREAD) == pytest.approx(wanted.mean(), rel=1e-6)
    assert truncated_variance(MEANS, SPREAD) == pytest.approx(wanted.var(), rel=1e-4)


def test_far_below_zero_a_draw_is_small_and_finite():
    found = truncated(np.array([-1e6]), np.array([1.0]), np.array([3.0]))
    assert np.isfinite(found).all()
    assert (found >= 0).all()
    assert (found < 1).all()
    assert truncated_mean(np.array([-1e3]), np.array([1.0])) == pytest.approx([1e-3], rel=1e-3)


@pytest.mark.parametrize("left", [IN_SETS, 0.0])
def test_lowering_leaves_a_part_of_what_truncation_adds_and_leaves_large_cells(left):
    mean = np.array([500.0, 300.0, *[0.0] * 20])
    spread = np.full(mean.shape, 10.0)
    found = lowered(mean, spread, left=left)
    added = (truncated_mean(mean, spread) - mean).sum()
    remains = (truncated_mean(found, spread) - mean).sum()
    assert remains == pytest.approx(left * added, abs=1e-3 * added)
    assert found[:2] == pytest.approx(mean[:2], abs=1e-6)
    assert (found[2:] < 0).all()


def test_a_table_without_small_cells_is_not_lowered():
    mean = np.array([500.0, 300.0, 400.0])
    assert lowered(mean, np.full(3, 1.0), left=IN_SETS) == pytest.approx(mean)


def test_the_centre_keeps_large_counts_and_gives_none_to_levels_that_cannot_occur():
    noise = np.random.default_rng(2).normal(0, 10, 20)
    mean = np.array([500.0, 300.0, *noise, 40.0])
    possible = np.arange(mean.size) < 22
    found = central_counts(mean, np.full(mean.shape, 10.0), possible)
    assert found[:2] == pytest.approx(mean[:2], abs=1e-6)
    assert found[22] == 0.0
    assert (found >= 0).all()
    # Twenty empty levels have the median of 120 records; nothing but their noise says so.
    assert found[2:22].sum() < 40.0
    assert truncated(mean, np.full(mean.shape, 10.0), np.zeros(mean.size))[2:22].sum() > 110.0


def test_moments_as_far_below_zero_as_noise_can_be_warn_of_no_overflow():
    far = np.array([-1e10, -1e300])

    assert (truncated_mean(far, np.ones(2)) == np.array([1e-10, 1e-300])).all()
