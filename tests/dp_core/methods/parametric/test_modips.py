from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dp_core.errors import BadInput
from dp_core.kernel.cost.curves import SMOOTHING
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.questions.linear_questions import MiddleProducts
from dp_core.methods.method_inputs import FitInputs
from dp_core.methods.parametric.general_location import (
    Layout,
    covariance_of,
    draw_covariance,
    freedom_of,
)
from dp_core.methods.parametric.modips import MOST_CELLS, MOST_NUMBERS, Modips
from dp_core.schema.variables import Variable, Variables
from tests.full import pairwise
from tests.measured import NONE, curator_of, method_inputs, noisy_sums, noisy_table
from tests.memory_measurement import measure_in_memory, model_in_memory

G = Variable(name="g", size=3)
H = Variable(name="h", size=2)
X = Variable(name="x", size=2001, positions=2001, low=-4, high=6)
Y = Variable(name="y", size=1001, positions=1000, low=0, high=20, missing=True)
Z = Variable(name="z", size=51, positions=50, low=0, high=1, missing=True)
W = Variable(name="w", size=800, positions=800, low=-1, high=9)
MIXED = Variables((G, X, H, Y, Z))


def data_of(variables, rows=3_000, seed=4):
    """Return records in which numbers depend on the categories, on each other, and are missing."""
    rng = np.random.default_rng(seed)
    levels = {v.name: rng.binomial(v.size - 1, 0.4, rows) for v in variables.categorical}
    shared, shift = rng.normal(size=rows), sum(levels.values(), np.zeros(rows))
    codes = np.empty((len(variables), rows), dtype=np.uint16)
    for axis, v in enumerate(variables):
        if not v.numeric:
            codes[axis] = levels[v.name]
            continue
        away = (shift - 1) / 8 + (shared + rng.normal(size=rows)) / 10
        codes[axis] = v.position(v.low + (v.high - v.low) * (0.45 + away))
        if v.missing:
            codes[axis, rng.random(rows) < 0.2] = v.positions
    return Dataset(variables.domain, codes)


def centred(data, variable):
    """Return a number in half steps about the middle, and where it is there."""
    codes = data.column(variable.name).astype(np.int64)
    return 2 * codes - (variable.positions - 1), codes < variable.positions


def cells_of(data, variables):
    cell = np.zeros(data.rows, dtype=np.int64)
    for variable in variables.categorical:
        cell = cell * variable.size + data.column(variable.name)
    return cell


@pytest.mark.parametrize(
    ("variables", "neighbours"),
    pairwise(
        [MIXED, Variables((X,)), Variables((X, Y)), Variables((G, X, W)), Variables((G, H))],
        ["add-remove", "replace-one"],
    ),
)
def test_without_noise_the_model_has_the_moments_of_the_file(variables, neighbours):
    data = data_of(variables)
    model, _ = model_in_memory(Modips(), variables, data, neighbours=neighbours)
    cell = cells_of(data, variables)
    assert model.rows == data.rows
    np.testing.assert_allclose(model.counts.sum(axis=1), np.bincount(cell), atol=1e-6)
    if variables.numeric:
        least = min(centred(data, variable)[1].sum() for variable in variables.numeric)
        groups, numbers = int(cell.max() + 1), len(variables.numeric)
        assert model.freedom == pytest.approx(freedom_of(float(least), groups, numbers))
        assert model.records == pytest.approx(float(least))
    for number, variable in enumerate(variables.numeric):
        value, there = centred(data, variable)
        for k in range(cell.max() + 1):
            here = there & (cell == k)
            assert model.present[k, number] == pytest.approx(here.sum(), abs=1e-6)
            assert model.means[k, number] == pytest.approx(value[here].mean(), abs=1e-6)
        for other, second in enumerate(variables.numeric[: number + 1]):
            more, too = centred(data, second)
            both = there & too
            product = sum(
                np.cov(value[both & (cell == k)], more[both & (cell == k)], ddof=0)[0, 1]
                * (both & (cell == k)).sum()
                for k in range(cell.max() + 1)
            )
            # Each cell's sum is rounded down to a whole number.
            assert model.covariance[number, other] * both.sum() == pytest.approx(
                product, abs=float(cell.max() + 2)
            )


@pytest.mark.parametrize(
    ("variables", "kind", "neighbours"),
    pairwise(
        [MIXED, Variables((X,)), Variables((G,))],
        ["pure", "zcdp", "gaussian"],
        ["add-remove", "replace-one"],
    ),
)
def test_exactly_the_cost_is_spent_and_each_step_has_the_noise_of_its_sum(
    variables, kind, neighbours
):
    data, cost = data_of(variables, 200), Fraction(7, 5)
    released, session = measure_in_memory(
        Modips(), variables, data, cost, kind=kind, neighbours=neighbours
    )
    assert session.spent() == cost
    asks = [ask for ask in Modips().asks(variables) if ask.what != () or neighbours == "add-remove"]
    assert sum(ask.share for ask in Modips().asks(variables)) == 1
    numbers = len(variables.numeric)
    assert len(Modips().asks(variables)) == 1 + numbers + numbers * (numbers + 1) // 2
    assert len(released) == len(session.charges) == len(asks)
    for ask, grant, item in zip(asks, session.charges, released, strict=True):
        share = cost * ask.share / sum(ask.share for ask in asks)
        assert grant.step.cost == share
        table = isinstance(ask.what, tuple)
        bound = {"add-remove": 1, "replace-one": 2}[neighbours]
        l1 = bound if table else ask.what.l1(neighbours)
        l2 = np.sqrt(bound) if table else np.sqrt(ask.what.l2_squared(neighbours))
        scale = l1 / float(share) if kind == "pure" else l2 / np.sqrt(2 * float(share))
        if kind == "gaussian":
            scale = np.sqrt(scale**2 + SMOOTHING)
        assert item.scale == pytest.approx(scale, rel=1e-9)


def test_the_noise_of_a_mean_does_not_make_the_variance_smaller():
    """The square of a noisy mean is too large by the noise's variance over n^2 (methods, 2).

    Each noise comes with its opposite, which takes off what is linear in it: the mean of 600 draws
    has a standard error of 1/12 of the bias.
    """
    n = 20
    variables = Variables((X,))
    layout = Layout.of(variables)
    rng = np.random.default_rng(3)
    # Half at -400 and half at 1600 of 2000 half steps: neither a mean of 0, nor one at the end, nor
    # a variance of 0 is near, where something would be cut.
    codes = np.repeat(np.uint16([800, 1_800]), n // 2)
    value = 2.0 * codes - 2_000
    squares = MiddleProducts(columns=("x", "x"), positions=(2_001, 2_001))
    exact = int((2 * value**2 - 2_000**2).sum())
    scale = 1_600.0  # of the sum's noise: 80 half steps of the mean

    def fitted(noise):
        released = [
            noisy_table(Domain((), ()), np.array(n), scale=1e-9),
            noisy_sums(layout.sums(X), np.array([int(value.sum()) + noise]), scale=scale, grant=2),
            noisy_sums(squares, np.array([exact]), scale=1e-9, grant=3),
        ]
        model = Modips().model_of(variables, FitInputs(variables.domain, released, n, NONE))
        return model.covariance[0, 0]

    noises = np.rint(rng.normal(0, scale, 300)).astype(int)
    mean = np.mean([fitted(sign * noise) for noise in noises for sign in (1, -1)])
    bias = (scale / n) ** 2
    assert mean == pytest.approx(value.var(), abs=0.3 * bias)


def test_the_sets_of_one_model_differ_as_draws_from_its_posterior_do():
    """The variance of a set's mean is that of the posterior and of the sample, 2 s^2/n.

    (That of its variance: (n - 1) s^2 over chi-square, then a sample variance; about 4 s^4/n.)
    """
    n = 400
    variable = Variable(name="x", size=60_001, positions=60_001, low=0, high=60_001)
    rng = np.random.default_rng(5)
    variables = Variables((variable,))
    codes = np.clip(np.rint(rng.normal(30_000, 3_000, (1, n))), 0, 60_000).astype(np.uint16)
    data = Dataset(variables.domain, codes)
    model, _ = model_in_memory(Modips(), variables, data)
    sets = np.array([model.sample(n, rng=rng).codes[0].astype(float) for _ in range(1_500)])
    s2 = codes[0].astype(float).var(ddof=1)
    # 1,500 variances are within 5 of their standard errors of .037.
    assert sets.mean(axis=1).var() == pytest.approx(2 * s2 / n, rel=0.19)
    assert sets.var(axis=1, ddof=1).var() == pytest.approx(4 * s2**2 / n, rel=0.22)
    assert sets.mean() == pytest.approx(codes.mean(), abs=5 * np.sqrt(2 * s2 / n / 1_500))
    assert sets.var(axis=1, ddof=1).mean() == pytest.approx(s2, rel=0.02)


def test_proportions_are_drawn_from_their_posterior():
    variables = Variables((Variable(name="g", size=2),))
    data = Dataset(variables.domain, np.repeat(np.uint16([[0, 1]]), [30, 70], axis=1))
    rng = np.random.default_rng(2)
    for alpha in (0.5, 20.0):
        model, _ = model_in_memory(Modips(alpha=alpha), variables, data)
        made = np.array([model.sample(100, rng=rng).codes.sum() for _ in range(3_000)])
        expected = stats.betabinom(100, 70 + alpha, 30 + alpha)
        assert made.mean() == pytest.approx(
            expected.mean(), abs=5 * expected.std() / np.sqrt(3_000)
        )
        assert made.std() == pytest.approx(expected.std(), rel=0.08)


def test_the_covariance_is_drawn_from_an_inverse_wishart_distribution():
    scale = np.array([[4.0, 1.5, 0.2], [1.5, 2.0, -0.4], [0.2, -0.4, 1.0]])
    rng = np.random.default_rng(6)
    roots = [draw_covariance(scale, 14.0, rng=rng) for _ in range(20_000)]
    drawn = np.array([root.T @ root for root in roots])
    truth = stats.invwishart(14, scale)
    np.testing.assert_allclose(drawn.mean(axis=0), truth.mean(), atol=0.02)
    # Element by element as another sampler has it: variances too.
    np.testing.assert_allclose(drawn.var(axis=0), truth.var(), rtol=0.15)


def test_degrees_of_freedom_are_those_of_the_stated_prior():
    """(n - 1 for one number; n - K - 1 for two numbers in K cells: methods, 2.)"""
    assert freedom_of(100, 1, 1) == 99
    assert freedom_of(1000, 24, 2) == 1000 - 24 - 1
    assert freedom_of(3, 24, 2) == 2


def test_a_noisy_covariance_is_made_positive_definite_and_keeps_its_variances():
    noisy = np.array([[4.0, 3.9, -3.9], [3.9, 4.0, 3.9], [-3.9, 3.9, 4.0]])
    assert np.linalg.eigvalsh(noisy)[0] < 0
    mended = covariance_of(noisy, np.full(3, 10.0))
    assert np.linalg.eigvalsh(mended)[0] > 0
    np.testing.assert_allclose(np.diag(mended), np.diag(noisy))
    assert (np.sign(mended) == np.sign(noisy)).all()
    sound = np.array([[4.0, 1.0], [1.0, 9.0]])
    np.testing.assert_allclose(covariance_of(sound, np.full(2, 10.0)), sound)
    # Variances within what the range allows; a correlation beyond 1 is 1.
    out = covariance_of(np.array([[-5.0, 2.0], [2.0, 900.0]]), np.array([10.0, 20.0]))
    np.testing.assert_allclose(np.diag(out), [1 / 3, 400.0])
    assert abs(out[0, 1]) <= np.sqrt(400 / 3)


def test_an_empty_cell_has_the_mean_of_all_and_hardly_a_record():
    variables = Variables((Variable(name="g", size=40), X))
    data = data_of(variables, 1_000)
    codes = data.codes.copy()
    codes[0] %= 2
    model, _ = model_in_memory(Modips(), variables, Dataset(variables.domain, codes))
    value, _ = centred(Dataset(variables.domain, codes), X)
    np.testing.assert_allclose(model.means[2:, 0], value.mean(), rtol=1e-9)
    drawn = model.sample(10_000, rng=np.random.default_rng(1))
    assert (drawn.column("g") < 2).mean() > 0.96


def test_numbers_out_of_range_are_moved_to_the_bound():
    variables = Variables((Variable(name="x", size=1_001, positions=1_001, low=0, high=1),))
    codes = np.clip(np.random.default_rng(1).normal(500, 400, (1, 5_000)), 0, 1_000)
    data = Dataset(variables.domain, np.rint(codes).astype(np.uint16))
    model, _ = model_in_memory(Modips(), variables, data)
    made = model.sample(20_000, rng=np.random.default_rng(2)).codes[0]
    assert np.isin(made, (0, 1_000)).mean() > 0.1


def test_a_noisy_number_of_rows_from_elsewhere_is_made_use_of():
    """Each measurement has the weight of its noise, the table's own total too."""
    for variables in (Variables((G, H)), Variables((X,))):
        data = data_of(variables, 500)
        curator, _ = curator_of(data, Fraction(200), "pure")
        total = curator.measure("total", [()], [Fraction(100)])
        method, rng = Modips(), np.random.default_rng(1)
        released = method.measure(
            method_inputs(curator, variables.domain, measure_cost=Fraction(1, 50), rng=rng),
            variables,
        )
        for known in ([*total, *released], [*released, *total]):
            model = method.model_of(variables, FitInputs(variables.domain, known, None, NONE))
            assert abs(model.rows - 500) <= 2
            assert model.counts.sum() == pytest.approx(model.rows)
            again = method.model_of(variables, FitInputs(variables.domain, known, model.rows, NONE))
            np.testing.assert_array_equal(again.counts, model.counts)


def test_what_is_too_large_is_refused_with_the_limit_and_a_way_out():
    cells = Variables((Variable(name="a", size=2**11), Variable(name="b", size=2**10)))
    with pytest.raises(BadInput, match=f"at most {MOST_CELLS:,} cells.*privsyn"):
        Modips().check(cells, "add-remove")
    many = Variables(tuple(Variable(name=f"x{n}", size=9, positions=9) for n in range(31)))
    with pytest.raises(BadInput, match=f"at most {MOST_NUMBERS} numeric.*privsyn"):
        Modips().check(many, "add-remove")
    with pytest.raises(BadInput, match="alpha"):
        Modips(alpha=0.0)
