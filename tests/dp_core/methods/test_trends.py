"""Trends of pairs: exact sums, what one record changes, when they are measured, what they tell."""

from __future__ import annotations

import dataclasses
import itertools
from fractions import Fraction

import numpy as np
import pytest

from benchmarks.trial import codes_schema, trial_plan
from dp_core.accounts.memory_session import MemorySession
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.kernel.cost.currency import largest_limit
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.questions.regressions.features import Number
from dp_core.kernel.step_names import table_step
from dp_core.methods.replicates.posterior.known_sums import KnownSums
from dp_core.methods.replicates.posterior.posterior_tables import PosteriorTables
from dp_core.methods.selection.auto import Auto
from dp_core.methods.selection.candidates.pair_trends import SHARE
from dp_core.methods.trends import (
    UNITS,
    Trend,
    is_trend,
    ordered_columns,
    scale_of,
    scaled_codes,
    trends_of,
)
from dp_core.plan.plan import make_plan
from dp_core.plan.procedure import ask_all
from dp_core.schema.definition import Column
from dp_core.schema.structure.structural_zeros import StructuralZeros
from tests.measured import NONE, noisy_sums, noisy_table, select_in_memory

DOMAIN = Domain(("x", "y"), (11, 9))
"""x has ten ordered codes and one for missing, y nine ordered codes."""
SCALES = (
    Number.line(name="x", positions=10, centre=1, reach=6),
    Number.line(name="y", positions=9, centre=-2, reach=5),
)
TREND = Trend(*SCALES, Fraction(1))


def related(rows=6000, seed=0, missing=0.1):
    """Records whose y follows x, and some of whose x are missing."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 10, rows)
    y = np.clip(np.rint(0.6 * x + rng.normal(1.5, 1.5, rows)), 0, 8).astype(int)
    x = np.where(rng.random(rows) < missing, 10, x)
    return np.stack([x, y]).astype(np.uint16)


def exact(trend, codes):
    """The answer of the kernel without noise, in records."""
    cells, counts = np.unique(codes.T, axis=0, return_counts=True)
    (found,) = trend.question().total(cells, counts.astype(np.int64))
    return -int(found) / UNITS


def test_a_trend_is_the_sum_of_the_products_of_scaled_codes():
    codes = related()
    f = np.clip((2 * codes[0].astype(int) - 9 - 1) / 6, -1, 1) * (codes[0] < 10)
    g = np.clip((2 * codes[1].astype(int) - 8 + 2) / 5, -1, 1)
    # Scaled codes are rounded to 1/4,096, and those of x once more to 1/1,024.
    assert exact(TREND, codes) == pytest.approx(float(f @ g), abs=len(f) / 1000)
    one, other = (scaled_codes(scale, size) for scale, size in zip(SCALES, (11, 9), strict=True))
    assert exact(TREND, codes) == pytest.approx(
        float(one[codes[0]] @ other[codes[1]]), abs=len(f) / 1000
    )


@pytest.mark.parametrize(("neighbours", "most"), [("add-remove", 1), ("replace-one", 2)])
def test_a_record_changes_a_trend_by_as_much_as_is_charged(neighbours, most):
    question = TREND.question()
    l1, l2_squared = question.norms(neighbours)
    assert l1 >= most * UNITS
    assert l2_squared == (most * UNITS) ** 2
    cells = np.array([[x, y] for x in range(11) for y in range(9)], dtype=np.uint16)
    each = np.array(
        [question.total(cells[at : at + 1], np.ones(1, np.int64))[0] for at in range(len(cells))]
    )
    moved = each.max() - each.min() if most == 2 else np.abs(each).max()
    # Some record changes it by the whole bound, so that a smaller one would be wrong.
    assert moved == most * UNITS


def test_the_noise_of_empty_levels_does_not_widen_a_scale():
    rng = np.random.default_rng(2)
    counts = np.zeros(40)
    counts[14:20] = [500, 1500, 2500, 2500, 1500, 500]
    clean = scale_of("x", counts, 30.0, 40)
    for _ in range(20):
        noisy = scale_of("x", np.maximum(counts + rng.normal(0, 30, 40), 0), 30.0, 40)
        for (one, _), (other, _) in zip(noisy.knots, clean.knots, strict=True):
            assert abs(one - other) <= 2
    # Two standard deviations are about 2.5 codes; places are in half steps.
    assert clean.knots == ((28, -4096), (38, 4096))
    assert scale_of("x", np.full(40, 50.0), 30.0, 40) is None


def test_numbers_ranks_and_two_levels_are_ordered():
    plain = codes_schema(Domain(tuple("abcd"), (2, 3, 4, 5)), StructuralZeros())
    columns = list(plain.columns)
    columns[2] = dataclasses.replace(columns[2], kind="ordinal")
    columns[3] = Column(
        name="d", kind="integer", edges=tuple(map(Fraction, range(5))), missing="level"
    )
    schema = dataclasses.replace(plain, columns=tuple(columns))
    assert ordered_columns(schema) == {"a": 2, "c": 4, "d": 4}


def test_a_trend_is_read_as_it_was_written():
    trend = Trend(*SCALES, Fraction(1, 30))
    assert Trend.from_json(trend.to_json()) == trend
    item = noisy_sums(trend.question(), [-5 * UNITS], scale=2.0 * UNITS)
    (found,) = trends_of(DOMAIN, [item])
    assert (found.pair, found.value, found.variance) == (("x", "y"), 5.0, 4.0)
    assert found.weights.shape == (11, 9)
    assert not found.weights[10].any()
    # The same question is no trend where it belongs to a declared formula.
    assert not is_trend(dataclasses.replace(item, stage="analyses"))


def plan_of(schema, epsilon="1", kind="zcdp"):
    delta = Fraction("1e-9") if kind == "zcdp" else Fraction(0)
    plan = trial_plan(schema.domain, "auto", Fraction(epsilon), delta, seed=0)
    return make_plan(dataclasses.replace(plan.spec, schema=schema))


def wide(rows=8000, columns=16, seed=1):
    """Numbers in ten of thirty bins, all of which follow one value."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(0, 1, rows)
    own = rng.normal(0, 1, (columns, rows))
    codes = np.clip(np.rint(15 + 1.5 * (0.8 * hidden + 0.6 * own)), 0, 29).astype(np.uint16)
    edges = tuple(map(Fraction, range(31)))
    named = [Column(name=f"n{at}", kind="integer", edges=edges) for at in range(columns)]
    domain = Domain(tuple(each.name for each in named), (30,) * columns)
    plain = codes_schema(domain, StructuralZeros())
    schema = dataclasses.replace(plain, columns=tuple(named), rows_about=rows)
    return schema, Dataset(domain, codes)


def asked(schema, data):
    plan = plan_of(schema, "0.25")
    session = MemorySession(plan.currency, plan.spec.privacy.neighbours)
    return ask_all(plan, MemoryCounter(data), session), session, plan


def test_trends_are_paid_for_by_the_measuring_budget_and_nothing_else():
    schema, data = wide()
    found, session, plan = asked(schema, data)
    (selection,) = found.selections
    assert selection.trends
    assert sum(trend.weight for trend in selection.trends) == SHARE
    assert sum(selection.weights) == 1 - SHARE
    paid = sum(charge.step.cost for charge in session.charges if charge.step.stage == "measure")
    assert paid == plan.costs["measure"]
    assert [each.pair for each in trends_of(schema.domain, found.released)] == [
        trend.pair for trend in selection.trends
    ]


def test_central_tables_show_correlations_of_which_no_table_was_measured():
    schema, data = wide(columns=6)
    rng, names = np.random.default_rng(4), schema.domain.columns
    ones = [
        noisy_table(
            schema.domain.project((name,)),
            np.rint(np.bincount(own, minlength=30) + rng.normal(0, 40, 30)).astype(int),
            scale=40.0,
        )
        for name, own in zip(names, data.codes, strict=True)
    ]
    scales = [scale_of(each.clique[0], each.values, 40.0, 30) for each in ones]
    trends = []
    for one, other in itertools.combinations(range(6), 2):
        trend = Trend(scales[one], scales[other], Fraction(1))
        value = exact(trend, data.codes[[one, other]]) + rng.normal(0, 100)
        trends.append(noisy_sums(trend.question(), [round(-value * UNITS)], scale=100.0 * UNITS))

    def mean_correlation(released):
        tables = PosteriorTables.of(
            schema.domain,
            released,
            sets=2,
            rows=None,
            zeros=NONE,
            scores={name: np.arange(30.0) for name in names},
            rng=np.random.default_rng(0),
        ).central_tables()
        return np.mean([correlation(table.values) for table in tables if len(table.clique) == 2])

    truth = np.corrcoef(data.codes)[np.triu_indices(6, 1)].mean()
    assert truth == pytest.approx(0.61, abs=0.02)
    assert mean_correlation([*ones, *trends]) == pytest.approx(truth, abs=0.15)
    assert abs(mean_correlation(ones)) < 0.01


def correlation(table):
    x = np.arange(len(table)) - (table.sum(axis=1) @ np.arange(len(table))) / table.sum()
    y = np.arange(table.shape[1]) - (table.sum(axis=0) @ np.arange(table.shape[1])) / table.sum()
    squares = (table.sum(axis=1) @ x**2) * (table.sum(axis=0) @ y**2)
    return float(x @ table @ y / np.sqrt(squares))


def test_nothing_is_spent_on_trends_that_tables_tell():
    codes = related(missing=0.0)
    domain = Domain(("x", "y"), (10, 9))
    selection, _ = select_in_memory(
        Auto(),
        Dataset(domain, codes),
        largest_limit("zcdp", Fraction(8), Fraction("1e-9")),
        one_way=Fraction(1, 10),
        look=Fraction(1, 20),
        measure=Fraction(17, 20),
        ordered={"x": 10, "y": 9},
    )
    assert ("x", "y") in selection.cliques
    assert selection.trends == ()


def test_columns_without_an_order_have_no_trend():
    schema, data = wide()
    plain = codes_schema(schema.domain, StructuralZeros())
    found, _, _ = asked(dataclasses.replace(plain, rows_about=8000), data)
    assert found.selections[0].trends == ()


def test_draws_scatter_about_a_trend_by_its_noise():
    """One pair, both columns known, no table of it: the trend's noise is all that is unknown."""
    domain = Domain(("x", "y"), (10, 9))
    codes = related(missing=0.0, rows=50_000)
    scales = (
        Number.line(name="x", positions=10, centre=0, reach=9),
        Number.line(name="y", positions=9, centre=0, reach=8),
    )
    trend = Trend(*scales, Fraction(1))
    truth, noise, sets = exact(trend, codes), 300.0, 40
    released = [
        noisy_table(domain.project((name,)), np.bincount(codes[at], minlength=size), scale=0.01)
        for at, (name, size) in enumerate(zip(("x", "y"), (10, 9), strict=True))
    ]
    released.append(noisy_sums(trend.question(), [round(-truth * UNITS)], scale=noise * UNITS))
    tables = PosteriorTables.of(
        domain, released, sets=sets, rows=50_000, zeros=NONE, rng=np.random.default_rng(0)
    )
    weights = trends_of(domain, released)[0].weights
    drawn = [
        float((weights * table.values).sum())
        for number in range(1, sets + 1)
        for table in tables.draw(number)
        if len(table.clique) == 2
    ]
    assert np.mean(drawn) == pytest.approx(truth, abs=150)
    assert np.std(drawn) == pytest.approx(noise, rel=0.3)


def test_a_column_with_the_name_of_a_step_is_told_apart():
    assert table_step(("trend 1",), 0) == "'trend 1'"
    assert table_step(("trend",), 0) == "trend"


def test_sums_of_two_sources_are_used_together():
    one = KnownSums(np.ones((1, 2, 2)), np.array([3.0]), np.array([[4.0]]))
    two = KnownSums(np.zeros((2, 2, 2)), np.array([1.0, 2.0]), np.array([[2.0, 1.0], [1.0, 2.0]]))
    both = one.joined(two)
    assert both.weights.shape == (3, 2, 2)
    np.testing.assert_array_equal(both.values, [3, 1, 2])
    np.testing.assert_array_equal(both.covariance, [[4, 0, 0], [0, 2, 1], [0, 1, 2]])
    assert one.joined(None) is one
