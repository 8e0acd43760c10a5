"""Simulation 1 of the comparative study: its numbers, and that its short cuts are the releases'.

The simulation is seeded, so these tests pass or fail for good; their tolerances are 5.2 standard
errors of the difference of two such simulations, which a right one misses once in five million.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from benchmarks.papers import simulation1
from benchmarks.papers.simulation1 import KNOWN, METHODS, REPEATS, SETS, TABLE_1, judge, simulate
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.inference.combine import combine
from dp_core.methods.parametric.beta_binomial import BetaBinomial
from dp_core.methods.parametric.multinomial_dirichlet import MultinomialDirichlet
from dp_core.schema.variables import Variable, Variables
from dp_core.tables.dataset import Dataset
from dp_core.tables.structural_zeros import StructuralZeros
from dp_core.wall.accounting.currency import Currency
from dp_core.wall.accounting.events import LaplaceEvent
from dp_core.wall.curator import Curator
from dp_core.wall.ledger.session import Grant, MemorySession, Step
from dp_core.wall.noise import granted_noise
from tests.statistical import FALSE_ALARM

HERE = 20_000
ERROR = 5.2 * math.sqrt(1 / REPEATS + 1 / HERE)


def off(chance):
    """Return how far two proportions of repeats may be apart."""
    return ERROR * math.sqrt(chance * (1 - chance))


@pytest.mark.parametrize("cell", KNOWN)
def test_bias_error_coverage_and_width_are_those_of_the_paper(cell):
    method, n, pi, log = cell
    bias, rmse, coverage, width = KNOWN[cell]
    found = simulate(method, n, pi, math.exp(log), HERE)
    spread = ERROR * math.sqrt(found.rmse**2 - found.bias**2)
    rounding = 5e-5 if n == 1000 else 5e-4
    # Bias is stated to three digits throughout.
    assert abs(found.bias - bias) < spread + 5e-4
    assert abs(found.rmse - rmse) < spread + rounding
    assert abs(found.coverage - coverage) < off(found.coverage) + 5e-4
    # Widths vary by less than a third of themselves.
    assert abs(found.width - width) < ERROR * found.width / 3 + rounding


@pytest.mark.parametrize(("n", "pi"), TABLE_1)
def test_usable_repeats_are_those_of_the_supplement(n, pi):
    for log, paper in zip((-4, -2, 0), TABLE_1[n, pi], strict=True):
        found = simulate("Laplace", n, pi, math.exp(log), HERE).usable
        # One repeat of the paper's is 2e-4.
        assert abs(found - paper) < off(min(found, 1 - 2 / REPEATS)) + 5e-5


@pytest.mark.parametrize(("n", "usable"), [(40, 0.9552), (100, 0.9696), (1000, 0.9980)])
def test_usable_repeats_at_the_smallest_epsilon(n, usable):
    found = simulate("Laplace", n, 0.15, math.exp(-4), HERE).usable
    assert abs(found - usable) < off(found)
    # Sets that had all of epsilon each would be told apart where n is small.
    whole = simulate("Laplace", n, 0.15, SETS * math.exp(-4), HERE).usable
    assert n == 1000 or abs(whole - usable) > off(found)


def test_other_methods_always_hold_both_levels():
    for method in METHODS:
        if method != "Laplace":
            assert simulate(method, 1000, 0.25, math.exp(-2), REPEATS).usable == 1


def test_sets_are_combined_by_the_rule_of_releases():
    rng = np.random.default_rng(4)
    proportions = simulation1.modips(rng.binomial(100, 0.3, 50), 100, 1.0, rng)
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


N, ONES, EPSILON = 40, 4, 4.0
RELEASES, NOISES = 1500, 12_000
ONE = Variables((Variable(name="x", size=2),))
DATA = Dataset(ONE.domain, (np.arange(N) < ONES).astype(np.uint16)[None, :])


def by_release(method, sets):
    """Return the number of ones in each of many sets that were released, a release of `sets`."""
    found = []
    for _ in range(RELEASES // sets):
        session = MemorySession(Currency("pure", Fraction(EPSILON)), "replace-one")
        curator = Curator(ONE.domain, MemoryCounter(DATA), session)
        for replicate in range(1, sets + 1):
            (records,) = method.measure(
                curator,
                ONE,
                cost=Fraction(EPSILON) / sets,
                rows=N,
                zeros=StructuralZeros(),
                rng=np.random.default_rng(1),
                replicate=replicate,
            )
            found.append(int(records.dataset.codes.sum()))
        assert session.spent() == EPSILON
    return np.array(found)


def by_noise():
    """Return the noisy number of ones many times, as the library draws it."""
    event = LaplaceEvent(Fraction(SETS) / Fraction(EPSILON), 1)
    step = Step("measure", "x", Fraction(EPSILON) / SETS, event, (NOISES,))
    drawn = granted_noise.add(np.full(NOISES, ONES, dtype=np.int64), Grant(1, step))
    return np.clip(drawn, 0, N)


def by_noise_and_posterior():
    """Return records of proportions drawn given noisy counts."""
    ones, rng = by_noise(), np.random.default_rng(9)
    return rng.binomial(N, rng.beta(1 / 3 + ones, 1 / 3 + N - ones))


RELEASED = {
    "MD": lambda: by_release(MultinomialDirichlet(), SETS),
    "BB-MR": lambda: by_release(BetaBinomial(), 1),
    "Laplace": by_noise,
    "MODIPS": by_noise_and_posterior,
}


@pytest.mark.statistical
@pytest.mark.parametrize("method", RELEASED)
def test_the_short_cut_has_the_distribution_of_what_is_released(method):
    released = np.bincount(RELEASED[method](), minlength=N + 1)

    def fit(epsilon):
        ones = np.full(100_000, ONES)
        drawn = METHODS[method](ones, N, epsilon, np.random.default_rng(8)).ravel() * N
        table = np.stack([released, np.bincount(np.rint(drawn).astype(int), minlength=N + 1)])
        # Counts that are rare among the releases are joined.
        frequent = table[1] / table[1].sum() * released.sum() >= 10
        joined = np.column_stack([table[:, frequent], table[:, ~frequent].sum(axis=1)])
        return stats.chi2_contingency(joined[:, joined.sum(axis=0) > 0]).pvalue

    assert fit(EPSILON) > FALSE_ALARM
    assert fit(EPSILON * 1.5) < FALSE_ALARM
    assert fit(EPSILON / 1.5) < FALSE_ALARM
