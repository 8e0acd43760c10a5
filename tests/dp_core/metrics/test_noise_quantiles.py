"""Quantiles of sums of noise, against exact ones."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import optimize, stats

from dp_core.metrics.noise_quantiles import central_quantile, effective_draws

LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99, 0.999)


def exact(level, laplace, normal):
    """The quantile of a sum of Laplace draws of these variances and of normal noise."""
    t = 0.01 * np.arange(1, 60_000)
    function = np.exp(-(t**2) * normal / 2)
    for variance in laplace:
        function = function / (1 + t**2 * variance / 2)

    def inside(x):
        terms = np.sin(t * x) / t * function
        return 0.01 * 2 / math.pi * (x / 2 + float(terms.sum())) - level

    return optimize.brentq(inside, 1e-6, 20)


@pytest.mark.parametrize("level", LEVELS)
def test_one_draw_and_normal_noise_are_exact(level):
    assert central_quantile(level, 1) == pytest.approx(-math.log(1 - level) / math.sqrt(2))
    assert central_quantile(level) == pytest.approx(stats.norm.ppf((1 + level) / 2))


@pytest.mark.parametrize("draws", [1, 2, 3, 7, 40])
@pytest.mark.parametrize("level", LEVELS)
def test_equal_draws_have_their_own_quantile(draws, level):
    wanted = exact(level, [1 / draws] * draws, 0.0)

    assert central_quantile(level, draws) == pytest.approx(wanted, rel=2e-3)


@pytest.mark.parametrize("part", [0.1, 0.3, 0.5, 0.7, 0.9, 0.98])
@pytest.mark.parametrize("other", ["normal", "one Laplace", "ten Laplace"])
def test_a_mixture_is_never_too_narrow_and_at_most_one_and_a_half_percent_too_wide(part, other):
    rest = 1 - part
    laplace = [part] + {"normal": [], "one Laplace": [rest], "ten Laplace": [rest / 10] * 10}[other]
    normal = rest if other == "normal" else 0.0
    draws = effective_draws(1.0, 3 * sum(each**2 for each in laplace))
    wanted = exact(0.95, laplace, normal)

    assert -1e-3 < central_quantile(0.95, draws) / wanted - 1 < 0.015


def test_the_number_of_draws_is_found_again():
    assert effective_draws([4.0, 1.0], [48.0 / 5, 0.0]).tolist() == [5.0, math.inf]
    assert effective_draws(0.0, 0.0) == math.inf


def test_a_level_outside_0_and_1_is_refused():
    with pytest.raises(ValueError, match="between 0 and 1"):
        central_quantile(1.0)
