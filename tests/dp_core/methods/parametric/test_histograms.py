"""Laplace sanitizer and perturbed histogram, and the edges they may buy."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_core.errors import BadInput
from dp_core.kernel.cost.currency import choice_event
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.extensions.quantile import Quantile
from dp_core.kernel.mechanisms.additive_noise import LaplaceEvent
from dp_core.kernel.mechanisms.private_choice import NoisyMaxEvent
from dp_core.kernel.privacy import Relation
from dp_core.kernel.questions.vetted import required
from dp_core.kernel.step_names import step_name
from dp_core.methods.method_inputs import FitInputs
from dp_core.methods.parametric import laplace_sanitizer
from dp_core.methods.parametric.laplace_sanitizer import LaplaceSanitizer, buy_edges, number_bought
from dp_core.schema.structure.structural_zeros import Rule, StructuralZeros
from dp_core.schema.variables import Variable, Variables
from tests.full import pairwise
from tests.measured import NONE, curator_of, noisy_sums, noisy_table
from tests.memory_measurement import EXACT, measure_in_memory, model_in_memory

SEX = Variable(name="sex", size=2)
AGE = Variable(name="age", size=101, positions=100, high=100, bins=(0, 20, 65, 100), missing=True)
AREA = Variable(name="area", size=3)
PAY = Variable(name="pay", size=64, positions=64, high=64, bins=(0, 32, 64))
MIXED = Variables((SEX, AGE, AREA, PAY))
LEVELS = Variables((SEX, AREA))
NUMBERS = Variables((AGE, PAY))
RELATIONS = ["add-remove", "replace-one"]
PERTURBED = {"categories": Fraction(1, 2)}
OPTIONS = [
    {},
    PERTURBED,
    {"bought": 3},
    {"bought": 3, "bins": 1, **PERTURBED},
    {"bins": 5, "published": True},
]


def data_of(variables, rows=2_000, seed=3):
    rng = np.random.default_rng(seed)
    sex = rng.random(rows) < 0.3
    columns = {
        "sex": sex,
        "age": np.where(rng.random(rows) < 0.1, 100, rng.integers(0, 60, rows) + 20 * sex),
        "area": rng.binomial(2, 0.3, rows),
        "pay": np.minimum(rng.geometric(0.1, rows) - 1, 63),
    }
    codes = np.stack([columns[variable.name] for variable in variables]).astype(np.uint16)
    return Dataset(variables.domain, codes)


def table_of(data, model):
    """Return counts by the bins of a model."""
    cells = np.zeros(data.rows, dtype=np.int64)
    domain = model.cells[0].domain
    for codes, edges, size in zip(data.codes, model.edges, domain.sizes, strict=True):
        binned = codes if edges is None else np.searchsorted(edges, codes, side="right") - 1
        cells = cells * size + binned
    return np.bincount(cells, minlength=domain.size()).reshape(domain.sizes)


@pytest.mark.parametrize(
    ("variables", "options", "neighbours"), pairwise([MIXED, LEVELS, NUMBERS], OPTIONS, RELATIONS)
)
def test_without_noise_the_table_is_that_of_the_file_and_sets_are_drawn_from_it(
    variables, options, neighbours
):
    data, method = data_of(variables), LaplaceSanitizer(**options)
    model, _ = model_in_memory(method, variables, data, neighbours=neighbours)
    assert model.rows == data.rows
    exact = table_of(data, model)
    np.testing.assert_allclose(model.cells[0].values, exact, atol=1e-6)
    found = table_of(model.sample(data.rows, rng=np.random.default_rng(1)), model)
    assert (found[exact == 0] == 0).all()
    if not method.published:
        assert np.abs(found - exact).max() <= 1
        half = table_of(model.sample(data.rows // 2, rng=np.random.default_rng(2)), model)
        assert np.abs(half - exact / 2).max() <= 1
    else:
        assert np.abs(found - exact).max() > 3
        # Six standard deviations of every cell.
        assert (np.abs(found - exact) <= 6 * np.sqrt(exact)).all()


@pytest.mark.parametrize("published", [False, True])
def test_positions_are_even_within_their_bins_and_missing_stays_missing(published):
    data = data_of(NUMBERS, 1_000)
    model, _ = model_in_memory(LaplaceSanitizer(published=published), NUMBERS, data)
    found = model.sample(60_000, rng=np.random.default_rng(1))
    assert (found.codes[0] == 100).mean() == pytest.approx((data.codes[0] == 100).mean(), abs=0.01)
    for low, high in ((0, 20), (20, 65)):
        inside = found.codes[0][(found.codes[0] >= low) & (found.codes[0] < high)]
        seen, expected = np.bincount(inside - low), inside.size / (high - low)
        assert len(seen) == high - low
        assert np.abs(seen - expected).max() < 6.5 * np.sqrt(expected)


# -- edges that are bought


def bought(counts, number, epsilon=EXACT, neighbours="add-remove", kind="pure"):
    """Return edges of a column with so many records at each position; the last one is missing."""
    size = len(counts)
    variable = Variable(name="x", size=size, positions=size - 1, missing=True)
    codes = np.repeat(np.arange(size), counts).astype(np.uint16)[None, :]
    domain = Domain(("x",), (size,))
    curator, session = curator_of(Dataset(domain, codes), Fraction(epsilon), kind, neighbours)
    number = number_bought(variable, number)
    edges = buy_edges(curator, "edge", variable, number, Fraction(epsilon), replicate=0)
    return edges, session


def test_without_noise_edges_are_quantiles_and_missing_numbers_have_no_say():
    assert bought([3] * 64 + [10_000], 7)[0] == tuple(range(8, 64, 8))
    # Three cuts of twelve: at 3, 6 and 9; of five parts, at the even ones.
    assert bought([2] * 12 + [0], 3)[0] == (3, 6, 9)
    assert bought([1] * 10 + [5], 4)[0] == (2, 4, 6, 8)
    # As many records at 3 and at 7, 8, 9 together.
    assert bought([0, 0, 0, 9, 0, 0, 0, 4, 1, 4, 0], 1)[0][0] in (4, 5, 6, 7)


def test_a_value_that_many_share_takes_one_edge_and_the_others_divide_the_rest():
    edges, _ = bought([900] + [1] * 63 + [0], 7)
    assert edges[0] == 1
    assert np.diff((*edges, 64)).tolist() == [9, 9, 9, 9, 9, 9, 9]


@settings(max_examples=60, deadline=None)
@given(
    counts=st.lists(st.integers(0, 5), min_size=3, max_size=30),
    number=st.integers(1, 40),
    epsilon=st.sampled_from([Fraction(1, 100), Fraction(1), EXACT]),
)
def test_edges_ascend_within_the_range_and_each_is_paid_for_equally(counts, number, epsilon):
    counts[0] += 1
    wanted = min(number, len(counts) - 2)
    edges, session = bought(counts, number, epsilon)
    assert len(edges) == wanted
    assert all(
        one < other for one, other in zip((0, *edges), (*edges, len(counts) - 1), strict=True)
    )
    assert session.spent() == epsilon
    assert {grant.step.cost for grant in session.charges} == {epsilon / wanted}


@pytest.mark.parametrize("kind", ["pure", "zcdp"])
@pytest.mark.parametrize("neighbours", RELATIONS)
def test_a_choice_is_charged_for_the_sensitivity_of_its_quantile(neighbours, kind):
    _, session = bought([4] * 20, 2, Fraction(3), neighbours, kind)
    first, second = session.charges
    asked = [Quantile(column="x", low=0, high=19, part=1, of=3), None]
    assert first.step.asks.items() >= asked[0].to_json().items()
    # A third under add-remove moves by 2 of its thirds, a half by 1; replaced, by 3 and 2.
    changes = {"add-remove": (2, 1), "replace-one": (3, 2)}[neighbours]
    for grant, change in zip((first, second), changes, strict=True):
        event = grant.step.event
        assert isinstance(event, NoisyMaxEvent)
        assert event.sensitivity == required(grant.step.asks, Relation(neighbours))[0] == change
        assert event == choice_event(session.currency, Fraction(3, 2), change)
        assert session.currency.cost(event) <= Fraction(3, 2)


def test_bought_edges_stand_among_the_public_ones_and_missing_keeps_its_bin():
    model, _ = model_in_memory(LaplaceSanitizer(bought=3), MIXED, data_of(MIXED))
    age, pay = model.edges[1], model.edges[3]
    assert {0, 20, 65, 100, 101} <= set(age)
    assert age[-2:] == (100, 101)
    assert 5 <= len(age) <= 8
    # A geometric column: all quartiles are below its middle.
    assert {0, 32, 64} < set(pay)
    assert all(edge < 32 for edge in set(pay) - {0, 32, 64})


# -- what it costs


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("kind", ["pure", "zcdp", "gaussian"])
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("variables", [MIXED, LEVELS, NUMBERS])
def test_exactly_the_cost_is_spent_and_in_the_parts_that_are_stated(
    variables, options, kind, neighbours
):
    method, data, cost = LaplaceSanitizer(**options), data_of(variables, 200), Fraction(3, 7)
    if kind == "gaussian" and method.bought and variables.numeric:
        pytest.skip("a private choice has no cost on the Gaussian curve")
    released, session = measure_in_memory(
        method, variables, data, cost, kind=kind, neighbours=neighbours, replicate=2
    )
    assert session.spent() == cost
    assert all(grant.step.stage == "measure" for grant in session.charges)
    # Each of m independent releases has questions of its own.
    assert all(grant.step.name.startswith(step_name("", 2, 0)) for grant in session.charges)
    asks = method.asks(variables)
    tables = [each for each in session.charges if not isinstance(each.step.event, NoisyMaxEvent)]
    assert [each.step.cost for each in tables] == [cost * ask.share for ask in asks]
    assert len(session.charges) - len(tables) == method.bought * len(variables.numeric)
    moved = {"add-remove": 1, "replace-one": 2}[neighbours]
    for item, ask in zip(released, asks, strict=True):
        assert item.replicate == 2
        expected = session.currency.noise_event(cost * ask.share, l1=moved, l2_squared=moved)
        assert item.scale == float(expected.scale)
        if kind == "pure":
            assert isinstance(expected, LaplaceEvent)
            assert item.scale == pytest.approx(moved / float(cost * ask.share))
    if not method.bought or not variables.numeric:
        assert sum(ask.share for ask in asks) == 1
        assert released[-1].of == asks[-1].what
    assert released[-1].of.length <= asks[-1].what.length


# -- from noisy counts to a table


def of_counts(values, variables, *more, **options):
    """Return the model of given noisy counts."""
    method = LaplaceSanitizer(**options)
    cells = method.asks(variables)[0].what
    counted = noisy_sums(
        cells, np.array(values, dtype=np.int64).ravel(), noise="laplace", scale=2.0
    )
    return method.model_of(
        variables, FitInputs(variables.domain, [*more, counted], options.pop("rows", None), NONE)
    )


def counts_of(columns, values, scale, variables=MIXED):
    domain = variables.domain.project(columns)
    return noisy_table(
        domain, np.array(values).reshape(domain.sizes), noise="laplace", scale=scale, grant=2
    )


ONE = Variables((Variable(name="x", size=40, positions=40, bins=(0, 10, 20, 30, 40)),))


def test_negative_counts_become_the_nearest_or_zero():
    noisy = [50, -6, 20, 16]
    near = of_counts(noisy, ONE)
    assert near.rows == 80
    np.testing.assert_allclose(near.cells[0].values, [48, 0, 18, 14])
    cut = of_counts(noisy, ONE, published=True)
    assert cut.rows == 80
    np.testing.assert_allclose(cut.cells[0].values, np.array([50, 0, 20, 16]) * 80 / 86)
    # Where all is negative, nothing is known: even.
    lost = of_counts([-1, -2, -3, -4], ONE, published=True)
    np.testing.assert_allclose(lost.cells[0].values, [0.25] * 4)


@pytest.mark.parametrize("published", [False, True])
def test_the_number_of_records_is_weighed_with_what_else_says_it(published):
    # Four cells of scale 2 have a sum of variance 4 times that of a total of scale 2.
    total = counts_of((), 100, 2.0, ONE)
    model = of_counts([40, 20, 15, 5], ONE, total, published=published)
    assert model.rows == round(0.8 * 100 + 0.2 * 80)
    assert model.cells[0].values.sum() == pytest.approx(model.rows)


@pytest.mark.parametrize("published", [False, True])
def test_tables_of_levels_are_weighed_and_those_of_positions_are_left_out(published):
    cells = np.full((2, 4, 3, 2), 10)
    levels = counts_of(("sex",), [300, 180], 0.001)
    positions = counts_of(("pay",), [1] * 64, 0.001)
    alone = of_counts(cells, MIXED, levels, published=published)
    model = of_counts(cells, MIXED, positions, levels, published=published)
    np.testing.assert_array_equal(model.cells[0].values, alone.cells[0].values)
    np.testing.assert_allclose(model.cells[0].values.sum(axis=(1, 2, 3)), [300, 180], atol=0.01)


@pytest.mark.parametrize("published", [False, True])
def test_a_level_that_no_cell_allows_has_no_records(published):
    never = StructuralZeros(
        (Rule(("sex", "area"), ((0,), (1,)), "one"), Rule(("sex", "area"), ((1,), (1,)), "other"))
    )
    method = LaplaceSanitizer(published=published, **PERTURBED)
    model, _ = model_in_memory(method, MIXED, data_of(MIXED, 300), 1, zeros=never)
    assert model.cells[0].values[:, :, 1].sum() == 0
    assert model.cells[0].values.sum() == pytest.approx(model.rows)
    assert (model.sample(200, rng=np.random.default_rng(1)).codes[2] != 1).all()


# -- what cannot be


def test_what_does_not_fit_is_refused_with_what_does(monkeypatch):
    # Two more edges each: 6 bins of age, missing included, and 4 of pay.
    for method, cells in (
        (LaplaceSanitizer(), 2 * 4 * 3 * 2),
        (LaplaceSanitizer(bought=2), 2 * 6 * 3 * 4),
    ):
        monkeypatch.setattr(laplace_sanitizer, "MOST_CELLS", cells)
        method.check(MIXED, "add-remove")
        monkeypatch.setattr(laplace_sanitizer, "MOST_CELLS", cells - 1)
        with pytest.raises(BadInput, match=rf"of {cells} cells, more than .*privsyn"):
            method.check(MIXED, "replace-one")
    for wrong in (
        {"bins": 0},
        {"bought": -1},
        {"categories": Fraction(1)},
        {"categories": Fraction(-1, 2)},
    ):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            LaplaceSanitizer(**wrong)
