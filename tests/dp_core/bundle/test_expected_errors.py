"""Expected errors of shares and slopes, beside sets made of many noisy tables."""

from __future__ import annotations

import numpy as np
import pytest

from dp_core.bundle.quality.expected_errors import in_sets, share_errors, slope_errors
from dp_core.methods.reconstruction.estimates.consistency import norm_sub


def test_one_share_is_biased_and_the_others_of_its_column_are_not():
    """A column with one level near zero: the bias belongs to that level."""
    found = share_errors(np.array([6000.0, 4000.0, -30.0]), 20.0, redrawn=False)
    assert found[2].bias == pytest.approx(30 / 9970)
    assert found[0].bias == found[1].bias == pytest.approx(-15 / 9970)
    halves = [1.96 * np.hypot(each.sampling, each.noise) for each in found]
    assert abs(found[2].bias) > 0.2 * halves[2]
    assert abs(found[0].bias) < 0.2 * halves[0]


def test_many_empty_levels_bias_the_others_too():
    counts = np.array([900.0, 100.0, *[20.0, -20.0] * 9])
    found = share_errors(counts, 20.0, redrawn=False)
    assert found[1].bias < -5 / 1000


def test_the_mean_of_redrawn_sets_is_that_of_many_draws():
    counts, rng = np.array([800.0, 5.0, -10.0, 200.0]), np.random.default_rng(3)
    drawn = [norm_sub(counts + rng.normal(0, 15, 4), total=995.0) for _ in range(4000)]
    expected = in_sets(counts, 15.0, redrawn=True)
    # 64 draws, of deviation 15 at most: 4.5 standard errors of either.
    np.testing.assert_allclose(expected, np.mean(drawn, axis=0), atol=4.5 * 15 / 8)
    assert expected.sum() == pytest.approx(995)
    assert expected[2] > 0
    np.testing.assert_array_equal(expected, in_sets(counts, 15.0, redrawn=True))


def test_an_impossible_cell_stays_empty():
    counts = np.array([[50.0, np.nan], [30.0, 40.0]])
    assert in_sets(counts, 5.0, redrawn=True)[0, 1] == 0
    assert share_errors(np.array([50.0, np.nan]), 5.0, redrawn=False)[1].bias == 0


def test_the_errors_of_a_slope_are_those_of_least_squares():
    """Standard errors beside those of a regression on the records, and of noise that is drawn."""
    rng = np.random.default_rng(4)
    x, y = rng.integers(0, 4, 5000), 0
    y = np.clip(x + rng.integers(0, 3, 5000), 0, 5)
    counts = np.zeros((4, 6))
    np.add.at(counts, (x, y), 1)
    found = slope_errors(counts, 3.0, np.arange(4.0), np.arange(6.0), redrawn=False)
    design = np.column_stack([np.ones(5000), x])
    beta, *_ = np.linalg.lstsq(design, y, rcond=None)
    residual = y - design @ beta
    centred = x - x.mean()
    robust = np.sqrt((centred**2 * residual**2).sum()) / (centred**2).sum()
    assert found.sampling == pytest.approx(robust, rel=1e-6)
    assert found.bias == pytest.approx(0, abs=1e-9)

    def slope(table):
        total = table.sum()
        away = np.arange(4) - np.arange(4) @ table.sum(axis=1) / total
        return away @ table @ np.arange(6) / (table.sum(axis=1) @ away**2)

    drawn = [slope(counts + rng.normal(0, 3.0, counts.shape)) for _ in range(3000)]
    assert found.noise == pytest.approx(np.std(drawn), rel=0.08)


def test_cut_negative_counts_bias_a_slope_towards_zero():
    counts = np.diag([200.0] * 8) + np.where(np.indices((8, 8)).sum(axis=0) % 2, 8.0, -8.0)
    np.fill_diagonal(counts, 200.0)
    found = slope_errors(counts, 8.0, np.arange(8.0), np.arange(8.0), redrawn=False)
    assert found.bias < -0.02


def test_a_coefficient_compares_its_level_with_the_reference_only():
    """The third level is near zero, and the coefficient of the second does not depend on it."""
    counts = np.array([[500.0, 500], [300, 700], [4, -6]])
    second = slope_errors(
        counts, 6.0, np.array([0.0, 1, np.nan]), np.array([0.0, 1]), redrawn=False
    )
    third = slope_errors(counts, 6.0, np.array([0.0, np.nan, 1]), np.array([0.0, 1]), redrawn=False)
    assert abs(second.bias) < 0.01
    assert abs(third.bias) > 0.2


def test_nothing_is_told_without_records_or_without_a_comparison():
    empty = np.zeros((2, 2))
    assert slope_errors(empty, 1.0, np.arange(2.0), np.arange(2.0), redrawn=False) is None
    one = slope_errors(np.ones((2, 2)), 1.0, np.array([1.0, np.nan]), np.arange(2.0), redrawn=False)
    assert one is None
