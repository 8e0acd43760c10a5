from __future__ import annotations

import math

import numpy as np
import pytest

from dp_core.metrics.noise_size import expected_absolute, expected_tvd, half_width

SCALES = [0.3, 1.0, 2.5, 7.0, 40.0]


def mass(noise: str, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """The definition, summed far into the tail."""
    values = np.arange(-4000, 4001, dtype=float)
    exponent = np.abs(values) / scale if noise == "laplace" else (values / scale) ** 2 / 2
    weights = np.exp(-exponent)
    return values, weights / weights.sum()


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_sizes_agree_with_the_mass_function(noise, scale):
    values, weights = mass(noise, scale)
    within = [weights[np.abs(values) <= t].sum() for t in range(int(10 * scale) + 5)]
    expected = next(t for t, probability in enumerate(within) if probability >= 0.95)

    assert half_width(noise, scale) == expected
    assert expected_absolute(noise, scale) == pytest.approx(
        float(np.abs(values) @ weights), rel=1e-3
    )


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_tiny_noise_has_no_size_and_no_overflow(noise):
    assert half_width(noise, 1e-4) == 0
    assert expected_absolute(noise, 1e-4) == 0


def test_huge_noise_needs_no_table():
    assert half_width("gaussian", 1e12) == pytest.approx(1.96e12, rel=1e-4)
    assert half_width("gaussian", 1e12, 0.5) == pytest.approx(0.6745e12, rel=1e-4)
    assert half_width("laplace", 1e12) == pytest.approx(math.log(20) * 1e12, rel=1e-9)


def test_expected_tvd_is_half_of_the_expected_l1():
    assert expected_tvd("gaussian", 100.0, cells=50, records=10_000) == pytest.approx(
        50 * 100 * math.sqrt(2 / math.pi) / 20_000, rel=1e-9
    )


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf])
def test_a_scale_that_is_none_is_refused(scale):
    with pytest.raises(ValueError, match="positive number"):
        half_width("laplace", scale)


def test_a_kind_of_noise_that_is_not_known_is_refused():
    with pytest.raises(ValueError, match="laplace or gaussian"):
        expected_absolute("uniform", 1.0)
