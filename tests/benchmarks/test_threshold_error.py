import math

import numpy as np
import pytest

from benchmarks.papers.threshold_error import expected_l1, kept_probability
from dp_core.methods.selection.budget.threshold_delta import continuous_threshold

FORMS = ("algorithm", "text", "sharp")


@pytest.mark.parametrize(
    ("parts", "thresholds"),
    [
        (1, (40.613950, 37.841361, 35.068773)),
        (3, (133.0252, 124.7074, 116.3897)),
        (10, (489.2429, 461.5170, 433.7911)),
    ],
)
def test_thresholds_of_continuous_noise(parts, thresholds):
    """Epsilon .5 and delta 1e-4 split over so many tables, replace-one."""
    scale, delta = 2 * parts / 0.5, 1e-4 / parts
    found = [continuous_threshold(scale, delta, form) for form in FORMS]
    np.testing.assert_allclose(found, thresholds, atol=5e-5 if parts > 1 else 5e-7)


def test_the_forms_spend_a_quarter_a_half_and_all_of_delta():
    for form, part in zip(FORMS, (0.25, 0.5, 1.0), strict=True):
        threshold = continuous_threshold(4.0, 1e-4, form)
        spent = kept_probability([1], threshold, 4.0, "continuous")
        assert spent[0] == pytest.approx(1e-4 * part, rel=1e-9)


def test_the_corrected_proposition():
    threshold = continuous_threshold(4.0, 1e-4, "algorithm")
    found = kept_probability([1, 5, 40, 60], threshold, 4.0, "continuous")
    np.testing.assert_allclose(found, [2.5e-5, 6.7957e-5, 0.4288557, 0.9960721], rtol=2e-6)
    assert expected_l1([1, 5, 40, 60], threshold, 4.0, "continuous") == pytest.approx(
        34.971722, abs=5e-7
    )


@pytest.mark.parametrize("noise", ["continuous", "discrete"])
@pytest.mark.parametrize("count", [1, 5, 30, 35, 36, 37, 60])
def test_the_formulas_are_the_sums_over_the_noise(noise, count):
    scale, threshold = 4.0, 36
    if noise == "discrete":
        z = np.arange(-1000, 1001)
        alpha = math.exp(-1 / scale)
        mass = (1 - alpha) / (1 + alpha) * alpha ** np.abs(z)
    else:
        z = (np.arange(-400_000, 400_000) + 0.5) * 5e-4
        mass = np.exp(-np.abs(z) / scale) / (2 * scale) * 5e-4
    kept = count + z >= threshold
    assert kept_probability([count], threshold, scale, noise)[0] == pytest.approx(
        mass[kept].sum(), rel=1e-6
    )
    true = (mass * np.where(kept, np.abs(z), count)).sum()
    assert expected_l1([count], threshold, scale, noise) == pytest.approx(true, rel=1e-6)


def test_the_expectation_is_the_mean_of_draws_on_dense_records():
    """200 draws: within half a percent, as stated for 3000 records of three columns."""
    rng = np.random.default_rng(1)
    correlated = np.full((3, 3), 0.3) + 0.7 * np.eye(3)
    drawn = rng.multivariate_normal(np.zeros(3), correlated, 3000)
    codes = np.clip((drawn + 2.4) // 0.48, 0, 9).astype(int)
    _, counts = np.unique(codes, axis=0, return_counts=True)
    for epsilon in (1.0, 5.0):
        scale = 2 / epsilon
        threshold = continuous_threshold(scale, 1e-4, "algorithm")
        noisy = counts + rng.laplace(0, scale, (200, len(counts)))
        error = np.where(noisy >= threshold, np.abs(noisy - counts), counts).sum(axis=1)
        expected = expected_l1(counts, threshold, scale, "continuous")
        assert error.mean() == pytest.approx(expected, rel=0.005)
