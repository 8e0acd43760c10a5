"""Simulation 2 of the comparative study: releases by the library have the known figures.

Noise takes no seed, so tolerances are 5.5 standard errors, which a right simulation misses four
times in a hundred million. Numbers of covered repeats are compared by exact tests at 1e-8.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from benchmarks.papers import comparative
from benchmarks.papers.figures.experiment import Context
from benchmarks.papers.figures.experiments.comparative_experiments import simulation_2
from dp_core.inference.combine import combine
from tests.full import at_full_size

pytestmark = pytest.mark.statistical

ERRORS = 5.5
REPEATS = 400 if at_full_size() else 100

# Another implementation's figures (bias, RMSE, coverage, width) at n = 1000, epsilon 1, bounds
# [-3, 4]; its number of repeats is not known and taken to be 500.
KNOWN_REPEATS = 500
KNOWN = {
    "MODIPS, as published": ((0.001, 0.057, 0.955, 0.260), (0.023, 0.271, 0.946, 1.33)),
    "perturbed histogram": ((0.023, 0.046, 0.941, 0.176), (0.115, 0.135, 0.773, 0.323)),
    "smoothed histogram": ((0.474, 0.478, 0.0, 0.247), (2.955, 2.958, 0.0, 0.452)),
}


def of_simulation_2(method, repeats, *, seed=1):
    """Return error, coverage and width of each repeat, n = 1000, bounds [-3, 4], epsilon 1."""
    setting = {"low": -3.0, "n": 1000, "method": method, "log": 0}
    found = simulation_2(Context(seed), setting, range(repeats))
    return {name: np.asarray(values) for name, values in found.items()}


def rms(values):
    return math.sqrt((values**2).mean())


@pytest.mark.parametrize("method", KNOWN)
def test_simulation_2_gives_the_known_figures(method):
    found = of_simulation_2(method, REPEATS)
    off = ERRORS * math.sqrt(1 / REPEATS + 1 / KNOWN_REPEATS)
    for quantity, known in zip(("mean", "variance"), KNOWN[method], strict=True):
        bias, rmse, coverage, width = known
        error = found[f"error {quantity}"]
        spread = off * math.sqrt(rmse**2 - bias**2)
        assert error.mean() == pytest.approx(bias, abs=spread + 0.0005)
        # If errors are normal, the standard error of a RMSE is smaller than that of a bias.
        assert rms(error) == pytest.approx(rmse, abs=spread + 0.0005)
        covered = int(found[f"covered {quantity}"].sum())
        theirs = round(coverage * KNOWN_REPEATS)
        counts = [[covered, REPEATS - covered], [theirs, KNOWN_REPEATS - theirs]]
        assert stats.fisher_exact(counts).pvalue > 1e-8
        assert found[f"width {quantity}"].mean() == pytest.approx(width, rel=0.06 + off / 4)


def test_the_benchmarks_combine_as_the_library_does():
    rng = np.random.default_rng(1)
    estimates, variances = rng.normal(size=(40, 5)), rng.gamma(1, 0.2, (40, 5))
    at, half = comparative.combine(estimates, variances)
    for row in range(40):
        found = combine(estimates[row], variances[row], "split")
        low, high = found.interval()
        np.testing.assert_allclose([at[row] - half[row], at[row] + half[row]], [low, high])
    at, half = comparative.combine(np.array([[1, 2, 3, 4, 5.0]]), np.full((1, 5), 0.5))
    np.testing.assert_allclose([at[0] - half[0], at[0] + half[0]], [0.880095, 5.119905], atol=1e-6)
    assert comparative.combine(np.ones((1, 5)), np.zeros((1, 5)))[1] == 0
