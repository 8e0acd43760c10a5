"""Expected errors of slopes: sets beside the noisy table behind them."""

from __future__ import annotations

import numpy as np
import pytest

from dp_core.bundle.quality.pair_errors import slope_errors


def test_the_errors_of_a_slope_are_those_of_least_squares():
    """Standard errors beside those of a regression on the records, and of noise that is drawn."""
    rng = np.random.default_rng(4)
    x, y = rng.integers(0, 4, 5000), 0
    y = np.clip(x + rng.integers(0, 3, 5000), 0, 5)
    counts = np.zeros((4, 6))
    np.add.at(counts, (x, y), 1)
    found = slope_errors(counts, 3.0, counts, np.arange(4.0), np.arange(6.0))
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
    counts = np.where(np.indices((8, 8)).sum(axis=0) % 2, 8.0, -8.0)
    np.fill_diagonal(counts, 200.0)
    found = slope_errors(counts, 8.0, np.maximum(counts, 0), np.arange(8.0), np.arange(8.0))
    assert found.bias < -0.02


def test_half_of_a_relation_is_half_of_the_slope_whatever_the_size_of_a_set():
    counts = np.array([[600.0, 400], [300, 700]])
    alone = counts.sum(axis=1)[:, None] * counts.sum(axis=0)[None, :] / counts.sum()
    sets = 3 * (counts + alone) / 2
    found = slope_errors(counts, 5.0, sets, np.arange(2.0), np.arange(2.0))
    assert found.bias == pytest.approx(-0.15)
    # A difference of two shares in 1,000 records each; noise of 5 on four counts.
    assert found.sampling == pytest.approx(np.sqrt(2 * 0.55 * 0.45 / 1000), rel=0.02)
    assert found.noise == pytest.approx(5 * np.sqrt(2 * (0.55**2 + 0.45**2) / 1000**2), rel=0.05)


def test_a_coefficient_compares_its_level_with_the_reference_only():
    """The third level is near zero, and the coefficient of the second does not depend on it."""
    counts = np.array([[500.0, 500], [300, 700], [4, -6]])
    sets, y = np.maximum(counts, 0), np.array([0.0, 1])
    second = slope_errors(counts, 6.0, sets, np.array([0.0, 1, np.nan]), y)
    third = slope_errors(counts, 6.0, sets, np.array([0.0, np.nan, 1]), y)
    assert second.bias == 0
    assert abs(third.bias) > 0.2
    assert third.noise > 10 * second.noise


def test_an_impossible_cell_counts_as_empty():
    counts = np.array([[50.0, np.nan], [30.0, 40.0]])
    found = slope_errors(counts, 1.0, np.nan_to_num(counts), np.arange(2.0), np.arange(2.0))
    assert found.bias == 0


def test_nothing_is_told_without_records_or_without_a_comparison():
    x = np.arange(2.0)
    assert slope_errors(np.ones((2, 2)), 1.0, np.zeros((2, 2)), x, x) is None
    assert slope_errors(np.ones((2, 2)), 1.0, np.ones((2, 2)), np.array([1.0, np.nan]), x) is None
    # A noisy table that determines nothing: the bias is as large as the noise.
    blind = slope_errors(np.full((2, 2), -1.0), 1.0, np.ones((2, 2)), x, x)
    assert blind.bias == blind.noise > 0
