"""What the sets get wrong about a coefficient: how intervals cover it, and what is not given."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dp_core as dp
from dp_core.analysis.regression.analysis import analyse
from dp_core.analysis.regression.design import make_design
from dp_core.analysis.regression.frames import codes_of, frame_of
from dp_core.analysis.regression.set_errors import corrected
from dp_core.bundle.reading import Bundle
from dp_core.client.released import Totals
from dp_core.inference.formulas.formula import read_formula
from dp_core.kernel.counting.dataset import Dataset
from dp_core.methods.trends import UNITS, Trend, scale_of, trends_of
from dp_core.schema.definition import Column, Level, Schema
from dp_core.schema.reading.schema_file import parse_schema
from dp_core.schema.rules.possible_codes import decode
from tests.measured import NONE, noisy_table


def levels(name, *labels):
    return Column(name=name, kind="category", levels=tuple(Level(each, each) for each in labels))


def number(name, bins, high=100):
    edges = tuple(Fraction(high) * part / bins for part in range(bins + 1))
    return Column(name=name, kind="number", edges=edges)


SCHEMA = Schema(
    title="x",
    columns=(
        number("pay", 10),
        number("age", 4),
        levels("sex", "f", "m"),
        levels("job", "a", "b", "c"),
        levels("ill", "no", "yes"),
    ),
    zeros=NONE,
    document={},
)


def people(rows=4000, seed=1, sets=3):
    """Return sets of codes in which pay depends on age and sex; job c is rare."""
    found = []
    for number_ in range(sets):
        rng = np.random.default_rng([seed, number_])
        sex, ill = rng.integers(0, 2, rows), rng.integers(0, 2, rows)
        job = rng.choice(3, rows, p=[0.6, 0.38, 0.02])
        age = rng.integers(0, 4, rows)
        pay = np.clip(rng.normal(3 + age + 0.5 * sex, 1.5, rows).round(), 0, 9)
        found.append(Dataset(SCHEMA.domain, np.stack([pay, age, sex, job, ill]).astype(np.uint16)))
    return found


def measured(data, cliques, scale, seed=2):
    rng, found = np.random.default_rng(seed), []
    for clique in cliques:
        domain = SCHEMA.domain.project(clique)
        cells = np.ravel_multi_index(
            tuple(data.column(name).astype(np.int64) for name in clique), domain.sizes
        )
        exact = np.bincount(cells, minlength=domain.size()).reshape(domain.sizes)
        noise = np.rint(rng.normal(0, scale, domain.sizes)).astype(np.int64)
        found.append(noisy_table(domain, exact + noise, scale=scale))
    return found


def frames_of(text, rows=4000):
    """Return the complete rows of the sets with the columns of a formula."""
    rng, formula = np.random.default_rng(3), read_formula(text, SCHEMA.names)
    columns = [SCHEMA.column(name) for name in formula.columns]
    tables = [decode(SCHEMA, one, rng=rng) for one in people(rows)]
    return [frame_of(number_, table, columns) for number_, table in enumerate(tables, 1)]


def judged(text, cliques, *, rule="posterior", scale=0.3, origin="modelled", more=(), off=None):
    """Return coefficients before and after, and what is not given, by name.

    `off` changes the file that was measured.
    """
    rows, file = 4000, people()[0]
    formula, frames = read_formula(text, SCHEMA.names), frames_of(text)
    first = {"sex": "f", "job": "a", "ill": "no"}
    found = analyse(formula, frames, SCHEMA, rule, references=first, by_bin=True)
    claims = SimpleNamespace(schema=SCHEMA, sets=3)
    items = [*measured(file if off is None else off(file), cliques, scale), *more]
    bundle = Bundle(Path(), claims, rule, float(rows), items, origin=origin)
    after = corrected(bundle, formula, found.design, frames, found.fits, found.combined)
    gone = {name: each for each in after.not_given for name in each.coefficients}
    return SimpleNamespace(
        names=found.names,
        before=found.combined,
        after=after.combined,
        gone=gone,
        design=found.design,
    )


def added(found, place=1):
    """Return the standard deviation of what was added."""
    return np.sqrt(found.after.added[place, place])


ALL = (
    ("pay", "age"),
    ("pay", "sex"),
    ("pay", "job"),
    ("age", "sex"),
    ("age", "job"),
    ("job", "sex"),
)


@pytest.mark.parametrize("rule", ["posterior", "split", "shared"])
def test_coefficients_of_what_no_table_holds_with_the_outcome_are_not_given(rule):
    found = judged("pay ~ sex + job", (("pay", "sex"), ("job", "sex")), rule=rule)
    # Nor is the mean of the reference level told by posterior sets.
    assert set(found.gone) - {"Intercept"} == {"job[T.b]", "job[T.c]"}
    assert ("Intercept" in found.gone) is (rule == "posterior")
    assert "needs a noisy table of pay with job" in found.gone["job[T.b]"].reason
    assert found.gone["job[T.b]"].kind == "not-measured"
    assert found.gone["job[T.b]"].epsilon_times is None
    # A relation between predictors is no reason.
    found = judged("pay ~ sex + job", (("pay", "sex"), ("pay", "job")), rule=rule)
    assert found.gone == {}
    found = judged("pay ~ sex * job", ALL, rule=rule)
    assert "pay, sex and job together" in found.gone["sex[T.m]:job[T.b]"].reason


def test_the_noise_is_that_of_which_a_table_is_drawn():
    """Least squares on the counts of a table, with noise drawn in every cell."""
    found = judged("pay ~ sex", (("pay", "sex"),), scale=5.0)
    data, values = people()[0], 5 + 10 * np.arange(10.0)
    counts = np.zeros((2, 10))
    np.add.at(counts, (data.column("sex"), data.column("pay")), 1)
    rng = np.random.default_rng(1)

    def slope(table):
        low, high = (row @ values / row.sum() for row in table)
        return high - low

    drawn = [slope(counts + rng.normal(0, 5.0, counts.shape)) for _ in range(4000)]
    assert added(found) == pytest.approx(np.std(drawn), rel=0.1)
    # A wider interval has the more degrees of freedom, because the noise is known.
    assert found.after.degrees_of_freedom[1] > found.before.degrees_of_freedom[1]
    whole = (1 + 1 / 3) * found.after.within + found.after.added
    np.testing.assert_allclose(whole, found.after.variance)
    # A joint test uses all of it, because it does not follow from a few differences.
    away = found.after.estimate
    own = away @ np.linalg.solve(found.after.variance, away) / 2
    assert found.after.wald([0, 1]).statistic == pytest.approx(own)


@pytest.mark.parametrize(
    "text",
    [
        "pay ~ 0 + job",
        "pay ~ C(job, Sum)",
        "pay ~ C(job, Helmert)",
        "pay ~ C(job, Treatment('c'))",
        "pay ~ job * sex",
        "pay ~ 0 + job:sex",
        "ill ~ job",
        "job ~ sex",
    ],
)
def test_every_coding_and_interaction_has_the_noise_of_its_table(text):
    tables = (*ALL, ("ill", "job"), ("pay", "job", "sex"))
    few, much = (judged(text, tables, scale=scale) for scale in (0.3, 8.0))
    wider = np.sqrt(np.diag(much.after.variance) / np.diag(few.after.variance))
    assert wider.max() > 1.02
    np.linalg.cholesky(much.after.variance)  # it is a covariance


def test_the_error_of_a_reference_level_is_in_all_contrasts_and_in_the_intercept():
    found = judged("pay ~ job", (("pay", "job"),), scale=5.0)
    assert found.after.added[0, 1] < 0
    rare = judged("pay ~ C(job, Treatment('c'))", (("pay", "job"),), scale=20.0)
    assert set(rare.gone) == {*rare.names}


def test_sets_that_differ_from_the_noisy_table_are_wider_by_that():
    """In the file everybody with job c is rich; in the sets they are like the others."""

    def rich(data):
        codes = data.codes.copy()
        codes[0, codes[3] == 2] = 9
        return Dataset(data.domain, codes)

    same = judged("pay ~ job", (("pay", "job"),), scale=1.0)
    other = judged("pay ~ job", (("pay", "job"),), scale=1.0, off=rich)
    assert added(other, 2) > 10 * added(same, 2)
    assert added(other, 2) > 20
    assert added(other, 1) < 2 * added(same, 1)


def test_a_rare_level_is_wide_and_then_not_given():
    few = judged("pay ~ job", (("pay", "job"),), scale=1.0)
    assert few.gone == {}
    wide = np.sqrt(np.diag(few.after.variance) / np.diag(few.before.variance))
    assert wide[2] > wide[1]
    none = judged("pay ~ job", (("pay", "job"),), scale=20.0)
    assert set(none.gone) == {"job[T.c]"}
    times = none.gone["job[T.c]"].epsilon_times
    enough = judged("pay ~ job", (("pay", "job"),), scale=20.0 / times * 0.9)
    assert enough.gone == {}
    assert f"about {times:.2g} times the epsilon" in none.gone["job[T.c]"].reason
    assert none.gone["job[T.c]"].kind == "noise"


def test_log_odds_have_their_own_scale():
    found = judged("ill ~ sex", (("ill", "sex"),), scale=10.0)
    # A difference of shares d has log odds of d / (p (1 - p)), and noise on four counts.
    noise = 10 * np.sqrt(2 * 2 * 0.25) / 2000 / 0.25
    assert added(found) == pytest.approx(noise, rel=0.05)


@pytest.mark.parametrize("rule", ["split", "shared"])
def test_only_posterior_sets_have_a_prior(rule):
    found = judged("pay ~ job", (("pay", "job"),), rule=rule, scale=20.0)
    assert found.gone == {}
    wide = np.sqrt(np.diag(found.after.variance) / np.diag(found.before.variance))
    assert (wide < (1.5, 1.1, 1.1)).all()  # the mean in the bins of pay is known up to rounding


def test_a_trend_tells_a_pair_of_numbers():
    data = people()[0]
    domain = SCHEMA.domain.project(("pay", "age"))
    counts = [
        np.bincount(data.column(name), minlength=size).astype(float)
        for name, size in zip(domain.columns, domain.sizes, strict=True)
    ]
    scales = [
        scale_of(name, own, 1.0, len(own)) for name, own in zip(domain.columns, counts, strict=True)
    ]
    trend = Trend(*scales, Fraction(1))

    def with_noise(scale, values=None):
        if values is None:
            (found,) = trends_of(SCHEMA.domain, [with_noise(scale, np.array([0.0]))])
            sets = people()
            codes = [np.concatenate([each.column(name) for each in sets]) for name in found.pair]
            values = np.array([-found.weights[tuple(codes)].sum() / len(sets) * UNITS])
        return Totals(
            of=trend.question(),
            values=values,
            noise="gaussian",
            scale=scale * UNITS,
            stage="measure",
            replicate=0,
            grant=1,
        )

    alone = judged("pay ~ age", (("pay", "sex"),), more=[with_noise(20.0)])
    assert alone.gone == {}
    pay, age = (np.std(data.column(name)) * step for name, step in (("pay", 10), ("age", 25)))
    assert added(alone) == pytest.approx(4 * 20 / 4000 * pay / age, rel=0.2)
    both = judged("pay ~ age", (("pay", "age"),), scale=5.0, more=[with_noise(20.0)])
    table = judged("pay ~ age", (("pay", "age"),), scale=5.0)
    assert both.after.variance[1, 1] < table.after.variance[1, 1]
    # Sets that contradict it are wrong by as much.
    none = judged("pay ~ age", (("pay", "sex"),), more=[with_noise(20.0, np.array([0.0]))])
    assert set(none.gone) >= {"age"}
    # It tells nothing of single levels.
    levels_ = judged("pay ~ job", (("pay", "sex"),), more=[with_noise(20.0)])
    assert set(levels_.gone) == {"Intercept", "job[T.b]", "job[T.c]"}


def test_numbers_enter_by_their_means_in_a_bin():
    """Four bins of age, even within and between: 1 - 1/16 of a slope on age is left."""
    formula, frames = read_formula("pay ~ age + sex", SCHEMA.names), frames_of("pay ~ age + sex")
    weak, right = (
        analyse(formula, frames, SCHEMA, "split", by_bin=by_bin) for by_bin in (False, True)
    )
    place = weak.names.index("age")
    estimates = weak.combined.estimate[place], right.combined.estimate[place]
    assert estimates[1] == pytest.approx(estimates[0] * 16 / 15, rel=0.01)
    # One mean for each bin and sex, because age and sex may be related.
    assert len(np.unique(right.design.x[0][:, place])) == 8
    # Squares too, whose slopes no factor corrects.
    curve = read_formula("pay ~ age + I(age**2)", SCHEMA.names)
    squares = analyse(curve, frames, SCHEMA, "split", by_bin=True).design.x[0]
    assert len(np.unique(squares, axis=0)) == 4


def test_slopes_on_related_numbers_are_those_of_the_file():
    """Within a bin of one number, its values are related to the bins of the other."""
    columns = tuple(number(name, 12, high=12) for name in ("one", "two"))
    group = levels("group", "a", "b")
    schema = Schema(title="x", columns=(*columns, group), zeros=NONE, document={})
    rng = np.random.default_rng(1)
    one, two = rng.multivariate_normal([6, 6], [[3, 2.6], [2.6, 3]], 100_000).T
    member = (one + rng.normal(0, 1, len(one)) > 7).astype(np.uint16)
    odds = 0.8 * (one - 6) - 0.7 * (two - 6) + 0.5 * member
    event = rng.random(len(one)) < 1 / (1 + np.exp(-odds))
    codes = [np.clip(np.floor(each), 0, 11).astype(np.uint16) for each in (one, two)]
    table = decode(schema, Dataset(schema.domain, np.stack([*codes, member])), rng=rng)
    names = (*schema.names, "event")
    ill = levels("event", "no", "yes")
    schema = Schema(title="x", columns=(*schema.columns, ill), zeros=NONE, document={})
    events = pa.array(np.where(event, "yes", "no"))
    table = table.append_column("event", events)
    formula = read_formula("event ~ one + two + group", names)
    frame = frame_of(1, table, [schema.column(name) for name in formula.columns])
    found = analyse(formula, [frame], schema, "shared", by_bin=True)
    raw = analyse(formula, [frame], schema, "shared")
    slopes = {"one": 0.8, "two": -0.7}
    for name, slope in slopes.items():
        place = found.names.index(name)
        error = np.sqrt(found.fits[0].covariance[place, place])
        assert abs(found.fits[0].coefficients[place] - slope) < 5 * error
        assert abs(raw.fits[0].coefficients[place] - slope) > 10 * error


def test_an_outcome_loses_what_lies_within_its_bins_and_the_mean_stays():
    found = judged("pay ~ sex", ALL, scale=0.3)
    assert abs(found.after.estimate[1]) > abs(found.before.estimate[1])
    means = np.mean([x.mean(axis=0) for x in found.design.x], axis=0)
    moved = found.after.estimate - found.before.estimate
    assert moved[0] == pytest.approx(-means[1] * moved[1], abs=0.05)


def test_a_slope_does_not_depend_on_where_its_number_is_zero():
    """Years: far from 0 beside their spread."""
    centre = judged("pay ~ I(age - 50) + sex", ALL, scale=3.0)
    far = judged("pay ~ I(age + 5000) + sex", ALL, scale=3.0)
    assert far.gone == {}
    slopes = far.after.variance[1:, 1:]
    np.testing.assert_allclose(slopes, centre.after.variance[1:, 1:], 1e-5)
    np.testing.assert_allclose(far.after.estimate[1:], centre.after.estimate[1:], 1e-6)
    np.testing.assert_allclose(
        far.after.estimate[0], centre.after.estimate[0] - 5050 * far.after.estimate[2], 1e-6
    )


def test_a_square_of_a_number_far_from_0_is_given():
    found = judged("pay ~ I(age + 5000) + I((age + 5000) ** 2)", ALL, scale=3.0)
    assert found.gone == {}


def test_the_width_of_a_contrast_depends_little_on_the_reference_level():
    found = judged("pay ~ job", (("pay", "job"),), scale=3.0)
    other = judged("pay ~ C(job, Treatment('c'))", (("pay", "job"),), scale=3.0)
    assert other.after.variance[1, 1] == pytest.approx(found.after.variance[2, 2], rel=0.1)


def test_an_event_within_a_bin_has_the_slope_of_its_threshold():
    """Half of the records of a bin are above 45, wherever in the bin the values are."""
    inside, edge = (judged(f"pay > {at} ~ age", ALL) for at in (45, 50))
    assert "age" not in {*inside.gone, *edge.gone}
    ratio = inside.after.estimate[1] / edge.after.estimate[1]
    assert ratio == pytest.approx(1, abs=0.15)


def test_missing_values_and_other_sizes_are_no_difference_from_the_tables():
    """Tables count rows with a missing value, regressions do not."""
    rng = np.random.default_rng(1)
    sex, lost = np.where(rng.random(4000) < 0.5, "f", "m"), rng.random(4000) < 0.4
    pay = np.clip(rng.normal(np.where(sex == "f", 40, 60), 10), 0, 100)
    file = pd.DataFrame({"sex": np.where(lost, None, sex), "pay": pay})
    sexes = {"type": "category", "levels": ["f", "m"], "missing": "level"}
    pays = {"type": "number", "min": 0, "max": 100, "bins": 20}
    schema = {"version": 1, "title": "x", "columns": {"sex": sexes, "pay": pays}}
    for rows in (4000, 2000):
        answer = dp.release(file, schema, epsilon=20, rows=rows).infer("pay ~ sex")
        (slope,) = (each.combined for each in answer.coefficients if each.name != "Intercept")
        assert slope.added < 2 * slope.within


SEX = {"type": "category", "levels": ["f", "m"]}
COSTS = """
version: 1
title: Costs
unit: row
rows_about: 3000
columns:
  sex: {type: category, levels: [f, m]}
  cost: {type: number, min: 0, max: 100000, BINS}
"""
MEANS = {
    "cost ~ 1": {"Intercept": "fm"},
    "cost ~ sex": {"Intercept": "f"},
    "cost ~ C(sex, Sum)": {"Intercept": "fm"},
    "cost ~ 0 + sex": {"sex[f]": "f", "sex[m]": "m"},
    "cost ~ I(sex == 'm')": {"Intercept": "f"},
}
"""By formula, the coefficients that are means, and of which groups."""


@pytest.mark.parametrize(
    ("skewed", "bins", "wide"),
    [
        (True, "bins: 10", True),
        (True, "edges: [0, 200, 500, 1000, 2000, 4000, 8000, 16000, 32000, 64000, 100000]", False),
        (False, "bins: 10", False),
    ],
)
def test_a_mean_that_bins_may_decide_is_covered_in_any_coding(tmp_path, skewed, bins, wide):
    """In wide bins of a skewed number the sets' means are far from those of the file."""
    (tmp_path / "schema.yaml").write_text(COSTS.replace("BINS", bins))
    rng = np.random.default_rng(1)
    sex = np.where(rng.random(3000) < 0.5, "f", "m")
    cost = np.exp(rng.normal(7, 1.5, 3000)) if skewed else rng.normal(50_000, 15_000, 3000)
    file = pd.DataFrame({"sex": sex, "cost": np.clip(cost, 0, 100_000)})
    bundle = dp.release(file, dp.read_schema(tmp_path / "schema.yaml"), epsilon=5, delta=1e-6)
    for text, means in MEANS.items():
        for one in bundle.infer(text).coefficients:
            if one.name in means:
                mean = file.cost[file.sex.isin([*means[one.name]])].mean()
                half = (one.combined.high - one.combined.low) / 2
                assert abs(one.combined.estimate - mean) < 1.5 * half, (text, one.name)
                assert (half > 1500) is wide, (text, one.name)


def test_a_column_that_follows_from_others_keeps_the_rule_of_the_sets():
    """No noisy table has it, so only the differences between the sets show its noise."""
    ages = {"type": "integer", "min": 0, "max": 89, "edges": [0, 20, 40, 60, 90]}
    bands = {"type": "ordinal", "levels": ["young", "old"], "follows": "age", "edges": [40]}
    schema = {"version": 1, "title": "x", "columns": {"age": ages, "sex": SEX, "band": bands}}
    rng = np.random.default_rng(1)
    age, sex = rng.integers(0, 90, 2000), rng.choice(["f", "m"], 2000)
    file = pd.DataFrame({"age": age, "sex": sex, "band": np.where(age < 40, "young", "old")})
    for row in dp.release(file, schema, epsilon=5, sets=3).infer("band ~ sex").coefficients:
        found = row.combined
        assert found.std_error**2 == pytest.approx(found.within + 4 / 3 * found.between)
        assert found.added == 0


@pytest.mark.parametrize("origin", ["drawn", "chosen"])
def test_of_records_that_no_model_gave_nothing_is_corrected(origin):
    found = judged("pay ~ job", (), rule="split", origin=origin)
    assert found.gone == {}
    assert found.after is found.before


def test_codes_are_those_of_bins_and_levels():
    """Frames count days from 1970, edges from the year 1."""
    day = 719_163 + 10_000
    born = Column(
        name="born", kind="date", edges=tuple(Fraction(day + 100 * part) for part in range(4))
    )
    schema = Schema(title="x", columns=(born, number("pay", 5)), zeros=NONE, document={})
    codes = np.stack([np.arange(300) % 3, np.arange(300) % 5]).astype(np.uint16)
    data = decode(schema, Dataset(schema.domain, codes), rng=np.random.default_rng(1))
    frame = frame_of(1, data, [schema.column("pay"), schema.column("born")])
    np.testing.assert_array_equal(codes_of(born, frame.data["born"]), codes[0])
    (one, *_) = frames_of("pay ~ job")
    found = codes_of(SCHEMA.column("job"), one.data["job"])
    np.testing.assert_array_equal(found, people()[0].column("job"))


@pytest.mark.parametrize("hidden", ["I(age == 40)", "I(age >= 88)", "np.sin(age)"])
def test_a_function_that_varies_within_bins_is_not_given(hidden):
    """The mean of its bin says nothing about the outcome where the function itself changes."""
    rng = np.random.default_rng(6)
    age = rng.integers(18, 91, 2000)
    file = pd.DataFrame({"age": age, "pay": np.clip(age + rng.normal(0, 9, 2000), 0, 149.9)})
    age_bins = {"type": "integer", "min": 18, "max": 90, "edges": [18, 35, 50, 70, 91]}
    columns = {"age": age_bins, "pay": {"type": "number", "min": 0, "max": 150, "bins": 15}}
    made = dp.release(
        file, schema={"version": 1, "title": "Pay", "columns": columns}, epsilon=20, sets=3, seed=1
    )
    answer = made.infer(f"pay ~ age + {hidden}")
    gone = {name: each.kind for each in answer.not_given for name in each.coefficients}
    assert gone == {name: "bins" for name in gone}
    assert any(name.startswith(hidden) for name in gone)
    assert "age" in {each.name for each in answer.coefficients}
    for kept in ("pay ~ I(age ** 2) + I(age > 50)", "pay ~ I(age / 10)"):
        hiding = [each for each in made.infer(kept).not_given if "declared" in each.reason]
        assert not hiding


def test_a_linear_function_is_treated_as_the_number_itself():
    """Most of the variance lies within the two bins."""
    rng = np.random.default_rng(6)
    pay = np.clip(rng.exponential(30, 2000), 0, 999)
    file = pd.DataFrame({"pay": pay, "y": np.clip(pay / 10 + rng.normal(0, 3, 2000), 0, 99.9)})
    pay_bins = {"type": "number", "min": 0, "max": 1000, "edges": [0, 10, 1000]}
    columns = {"pay": pay_bins, "y": {"type": "number", "min": 0, "max": 100, "bins": 20}}
    schema = parse_schema({"version": 1, "title": "Pay", "columns": columns})
    frames = [frame_of(1, pa.Table.from_pandas(file), schema.columns)]
    hidden = {
        formula: make_design(
            read_formula(formula, schema.names), frames, schema, None, by_bin=True
        ).hidden_in_bins
        for formula in ("y ~ pay", "y ~ I(pay / 10)", "y ~ I(pay**2)")
    }
    assert [*hidden.values()] == [(), (), ("I(pay ** 2)",)]
