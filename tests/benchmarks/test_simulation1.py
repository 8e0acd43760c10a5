"""Simulation 1 of the comparative study: releases by the library have its numbers.

Noise takes no seed, so tolerances are 5.5 standard errors of the difference of two such
simulations, which a right one misses four times in a hundred million. Shares, which are not normal,
are compared by the exact test of two of them, at a level of 1e-8.
"""

import math

import numpy as np
import pytest
from scipy import stats

from benchmarks.papers.simulation1 import KNOWN, KNOWN_REPEATS, judge, released, simulate
from dp_core.inference.combine import combine
from tests.full import at_full_size, some

HERE = {
    "MODIPS": 400 if at_full_size() else 100,
    "Laplace": 400 if at_full_size() else 100,
    "MD": 400 if at_full_size() else 50,
    "BB-MR": 1500 if at_full_size() else 500,
}


def error(repeats):
    """Return the tolerance for a mean over repeats, in standard deviations of one."""
    return 5.5 * math.sqrt(1 / KNOWN_REPEATS + 1 / repeats)


def agree(share, repeats, known):
    """Return whether a share of repeats may be that of the paper's repeats."""
    ours, theirs = round(share * repeats), round(known * KNOWN_REPEATS)
    table = [[ours, repeats - ours], [theirs, KNOWN_REPEATS - theirs]]
    return stats.fisher_exact(table).pvalue > 1e-8


@pytest.mark.statistical
@pytest.mark.parametrize(("method", "n", "pi", "log"), some(KNOWN, lambda cell: cell[1] == 100))
def test_bias_error_coverage_and_width_are_those_of_the_paper(method, n, pi, log):
    bias, rmse, coverage, width = KNOWN[method, n, pi, log]
    found = simulate(method, n, pi, math.exp(log), HERE[method])
    off = error(HERE[method])
    spread = off * math.sqrt(rmse**2 - bias**2)
    rounding = 5e-5 if n == 1000 else 5e-4
    # Bias is stated to three digits throughout.
    assert abs(found.bias - bias) < spread + 5e-4
    assert abs(found.rmse - rmse) < spread + rounding
    assert agree(found.coverage, HERE[method], coverage)
    # Widths vary by less than a third of themselves.
    assert abs(found.width - width) < off * width / 3 + rounding


def test_a_set_drawn_twice_would_be_told_apart():
    """A beta-binomial set that is resampled covers .170 (measured), and .077 is the paper's."""
    known = KNOWN["BB-MR", 100, 0.25, 0][2]
    assert agree(known, HERE["BB-MR"], known)
    assert not agree(0.170, HERE["BB-MR"], known)


def test_sets_are_combined_by_the_rule_of_releases():
    ones = np.random.default_rng(4).binomial(100, 0.3, 50)
    proportions = released("modips", 5)(ones, 100, 1.0)
    covered, widths, estimates = 0, [], []
    for one in proportions.T:
        found = combine(one, one * (1 - one) / 100, "split")
        low, high = found.interval()
        covered += low <= 0.3 <= high
        widths.append(high - low)
        estimates.append(found.estimate)
    ours = judge(proportions, 100, 0.3)
    assert ours.coverage == covered / 50
    assert ours.width == pytest.approx(np.mean(widths), rel=1e-6)
    assert ours.bias == pytest.approx(np.mean(estimates) - 0.3)
    # Sets that agree have the normal distribution; sets without any variance no width.
    same = judge(np.full((5, 1), 0.25), 100, 0.25)
    assert same.width == pytest.approx(2 * 1.959963984540054 * math.sqrt(0.25 * 0.75 / 100))
