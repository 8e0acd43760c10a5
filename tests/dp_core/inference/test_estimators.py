"""Variances of common estimators: the corrected formulas, and that they are right."""

import numpy as np
import pytest

from dp_core.inference.estimators import (
    correlation,
    mean,
    proportion,
    variance,
    variance_of_correlation,
    variance_of_variance,
)


def test_the_formulas_of_the_comparative_study_as_corrected():
    assert variance_of_variance(2.0, 101, 0.5) == pytest.approx(4 * (2 / 100 + 0.5 / 101))
    assert variance_of_correlation(0.6, 52) == pytest.approx(0.64**2 / 50)


def test_estimates_of_a_small_sample_by_hand():
    values = [1.0, 2.0, 3.0, 6.0]
    assert mean(values) == pytest.approx((3.0, 14 / 3 / 4))
    assert proportion([True, False, False, True]) == (0.5, 0.0625)
    second, fourth = 14 / 4, (16 + 1 + 0 + 81) / 4
    kurtosis = fourth / second**2 - 3
    s2 = 14 / 3
    assert variance(values) == pytest.approx((s2, s2**2 * (2 / 3 + kurtosis / 4)))
    assert variance([2.0, 2.0]) == (0.0, 0.0)
    assert correlation([1, 2, 3, 4], [2, 4, 6, 8]) == pytest.approx((1.0, 0.0))


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng, n: rng.normal(size=n),
        lambda rng, n: rng.exponential(size=n),
        lambda rng, n: rng.uniform(size=n),
    ],
)
def test_the_variance_of_a_variance_is_what_repeats_show(draw):
    """2000 repeats: their variance is within 20 % (about six standard errors; fixed seed)."""
    rng = np.random.default_rng(1)
    found = np.array([variance(draw(rng, 400)) for _ in range(2000)])

    assert found[:, 1].mean() == pytest.approx(found[:, 0].var(), rel=0.2)


def test_the_variance_of_a_correlation_is_what_repeats_show():
    rng = np.random.default_rng(2)
    x, other = rng.normal(size=(2, 2000, 200))
    found = np.array([correlation(*pair) for pair in zip(x, 0.8 * x + 0.6 * other, strict=True)])

    assert found[:, 1].mean() == pytest.approx(found[:, 0].var(), rel=0.2)
    # The paper's 1 - r^2 would be nearly three times as large here.
    assert 2.3 * found[:, 0].var() < (1 - 0.64) / 198


@pytest.mark.parametrize("make", [mean, variance, proportion])
def test_a_sample_with_holes_is_refused(make):
    with pytest.raises(ValueError, match="missing"):
        make([1.0, float("nan"), 0.0])
    with pytest.raises(ValueError, match="at least"):
        make([])


def test_pairs_must_be_pairs_and_vary():
    with pytest.raises(ValueError, match="pairs"):
        correlation([1, 2, 3], [1, 2, 3, 4])
    with pytest.raises(ValueError, match="single value"):
        correlation([1, 1, 1], [1, 2, 3])
