"""Simulations 2 and 3 of the comparative study: the fast paths against known figures, the library
and the rule for combining. (Benchmarks are scripts; these two are held to what they claim.)
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from benchmarks.papers import comparative, simulation2, simulation3
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.inference.combine import combine
from dp_core.methods.parametric.modips import Modips
from dp_core.schema.variables import Variable, Variables
from dp_core.tables.dataset import Dataset
from dp_core.tables.structural_zeros import StructuralZeros
from dp_core.wall.accounting.currency import Currency
from dp_core.wall.curator import Curator
from dp_core.wall.ledger.session import MemorySession

pytestmark = pytest.mark.statistical

FALSE_ALARM = 1e-8
"""Of one comparison of two samples; the library's noise is not seeded."""


def alike(one, other):
    """Return the least p-value of two tests for each pair of samples: of all, and of the spread."""
    return min(
        test(first[np.isfinite(first)], second[np.isfinite(second)]).pvalue
        for first, second in zip(one, other, strict=True)
        for test in (stats.ks_2samp, stats.levene)
    )


# Another implementation's figures (bias, RMSE, coverage, width) at n = 1000, epsilon 1, bounds
# [-3, 4]; its number of repeats is not known and taken to be 500.
KNOWN_REPEATS = 500
KNOWN = {
    "MODIPS": ((0.001, 0.057, 0.955, 0.260), (0.023, 0.271, 0.946, 1.33)),
    "perturbed histogram": ((0.023, 0.046, 0.941, 0.176), (0.115, 0.135, 0.773, 0.323)),
    "smoothed histogram": ((0.474, 0.478, 0.0, 0.247), (2.955, 2.958, 0.0, 0.452)),
}


@pytest.mark.parametrize("method", KNOWN)
def test_simulation_2_gives_the_known_figures(method):
    repeats = 1_000
    found = simulation2.simulate(
        method,
        simulation2.Setting(1000),
        1.0,
        repeats=repeats,
        rng=np.random.default_rng(7),
    )
    both = 1 / repeats + 1 / KNOWN_REPEATS
    for score, (bias, rmse, coverage, width) in zip(found, KNOWN[method], strict=True):
        spread = np.sqrt(max(score.rmse**2 - score.bias**2, 0.0))
        # Four standard errors of both; of a RMSE or a mean width, normal errors make it less.
        assert score.bias == pytest.approx(bias, abs=4 * spread * np.sqrt(both) + 0.0005)
        assert score.rmse == pytest.approx(rmse, abs=4 * spread * np.sqrt(both) + 0.0005)
        binomial = np.sqrt(max(coverage * (1 - coverage), 1e-3) * both)
        assert score.coverage == pytest.approx(coverage, abs=4 * binomial)
        assert score.width == pytest.approx(width, rel=0.06)


def test_simulation_3_has_hardly_a_bias_by_modips_and_a_large_one_by_histograms():
    """|bias| of a variance below .02 at epsilon e^4; +.53 by histograms, which never cover it."""
    known = {"MODIPS": 0.0, "MODIPS, corrected": 0.0, "NP-DIPS": 0.53}
    for number, (method, bias) in enumerate(known.items()):
        rng = np.random.default_rng(number)
        found = simulation3.simulate(method, np.exp(4), repeats=150, rng=rng)
        for quantity in ("variance 1", "variance 2"):
            (score,) = found[quantity]
            # Below .02, and within four standard errors of .067/12 beyond it.
            assert score.bias == pytest.approx(bias, abs=0.02 + 4 * 0.067 / np.sqrt(150) / 4)
            assert score.coverage == 0 if bias else score.coverage > 0.85


def test_corrected_squares_and_sums_beat_the_published_ones():
    rng = np.random.default_rng(3)
    setting = simulation2.Setting(1000)
    old, new = (
        simulation2.simulate(method, setting, 1.0, repeats=400, rng=rng)
        for method in ("MODIPS", "MODIPS, corrected")
    )
    assert new[1].rmse < 0.55 * old[1].rmse
    assert new[0].rmse < 1.15 * old[0].rmse
    assert min(new[0].coverage, new[1].coverage) > 0.9


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


def production(data, variables, epsilon, sets, *, neighbours, rows):
    """Return codes of sets, each from a release of its own."""
    counter, rng = MemoryCounter(data), np.random.default_rng()
    for _ in range(sets):
        session = MemorySession(Currency("pure", epsilon), neighbours)
        method, zeros = Modips(), StructuralZeros()
        released = method.measure(
            Curator(variables.domain, counter, session),
            variables,
            cost=epsilon,
            rows=rows,
            zeros=zeros,
            rng=rng,
        )
        model = method.fit(variables, released, rows=rows, zeros=zeros)
        yield model.sample(data.rows, rng=rng)


@pytest.mark.full
def test_the_fast_path_of_simulation_2_draws_sets_like_the_library():
    n, setting, each = 400, simulation2.Setting(400, bins=1), Fraction(1, 5)
    variable = Variable(name="x", size=4096, positions=4096, low=-3, high=4)
    variables = Variables((variable,))
    records = np.clip(np.random.default_rng(9).standard_normal(n), -3, 4)
    data = Dataset(variables.domain, variable.position(records)[None])
    real = np.array(
        [
            variable.value(made.codes[0].astype(float))
            for made in production(data, variables, each, 300, neighbours="replace-one", rows=n)
        ]
    )
    rng = np.random.default_rng(2)
    tiled = np.tile(variable.value(data.codes[0].astype(float)), (400, 1))

    def fast(epsilon):
        made = simulation2.corrected(tiled, epsilon, setting, rng).reshape(-1, n)
        return alike(*[(part.mean(1), part.var(1)) for part in (real, made)])

    assert fast(1.0) > FALSE_ALARM
    # It would tell a budget, or a sensitivity, that is wrong: p-values of 1e-40 and 1e-32, whose
    # logarithms are more than 6 standard deviations below that of what is allowed.
    assert fast(2.0) < FALSE_ALARM
    assert fast(1 / 3) < FALSE_ALARM


@pytest.mark.full
def test_the_fast_path_of_simulation_3_draws_sets_like_the_library():
    epsilon, sets = 20.0, 150
    names = ("a", "b", "c")
    levels = [Variable(name=n, size=s) for n, s in zip(names, simulation3.SIZES, strict=True)]
    numbers = [Variable(name=n, size=4096, positions=4096, low=-4, high=4) for n in ("x", "y")]
    variables = Variables((*levels, *numbers))
    counts, values = simulation3.data(1, np.random.default_rng(4))
    cell = simulation3.multinomial_cells(counts)
    codes = np.vstack(
        [
            np.array(np.unravel_index(cell, simulation3.SIZES), dtype=np.uint16),
            *(v.position(part)[None] for v, part in zip(numbers, values.T, strict=True)),
        ]
    )
    data = Dataset(variables.domain, codes)

    def figures(samples):
        found = simulation3.analyses(samples)
        margins = found["proportions"][0]
        largest = int(simulation3.SHARES.argmax())
        return [
            margins[:, 0],
            margins[:, 5],
            found["means 1"][0][:, largest],
            found["means 2"][0][:, largest],
            *(found[name][0][:, 0] for name in ("variance 1", "variance 2", "correlation")),
        ]

    drawn, made = [], []
    for each in production(
        data, variables, Fraction(4), sets, neighbours="add-remove", rows=simulation3.N
    ):
        place = np.ravel_multi_index(tuple(each.codes[:3].astype(int)), simulation3.SIZES)
        order = np.argsort(place, kind="stable")
        drawn.append(np.bincount(place, minlength=simulation3.CELLS))
        made.append(
            np.column_stack(
                [v.value(each.codes[3 + k][order].astype(float)) for k, v in enumerate(numbers)]
            )
        )
    real = figures(simulation3.summary(np.array(drawn), np.vstack(made)))
    rng = np.random.default_rng(5)
    many = np.tile(counts, (200, 1)), np.tile(values, (200, 1))

    def fast(epsilon):
        return alike(real, figures(simulation3.corrected(*many, epsilon, rng)))

    assert fast(epsilon) > FALSE_ALARM
    # It would tell a wrong budget, or sensitivity: p-values of 1e-47 and 1e-24, as above. Of larger
    # noise the ranges cut off much.
    assert fast(3 * epsilon) < FALSE_ALARM
    assert fast(epsilon / 4) < FALSE_ALARM
