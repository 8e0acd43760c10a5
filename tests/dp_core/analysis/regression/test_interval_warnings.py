"""Which coefficients are warned of, and why."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dp_core as dp
from dp_core.analysis.regression.analysis import analyse
from dp_core.analysis.regression.column_scores import compared
from dp_core.analysis.regression.frames import frame_of
from dp_core.analysis.regression.interval_warnings import concerns, few_sets, general_warnings
from dp_core.bundle.reading import Bundle
from dp_core.inference.combine import combine
from dp_core.inference.formulas.formula import read_formula
from dp_core.kernel.counting.dataset import Dataset
from dp_core.methods.replicates.posterior import posterior_tables
from dp_core.schema.definition import Column, Level, Schema
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


def rich(data):
    """Return the file in which everybody with job c earns most and is ill."""
    codes = data.codes.copy()
    codes[0, codes[3] == 2] = 9
    codes[4, codes[3] == 2] = 1
    return Dataset(data.domain, codes)


def judged(
    text,
    cliques,
    *,
    rule="split",
    scale=0.3,
    origin="modelled",
    rows=4000,
    change=lambda data: data,
):
    """Return the concerns of a formula by kind; `change` makes the file of a set."""
    sets = people(rows)
    rng = np.random.default_rng(3)
    formula = read_formula(text, SCHEMA.names)
    columns = [SCHEMA.column(name) for name in formula.columns]
    tables = [decode(SCHEMA, one, rng=rng) for one in sets]
    frames = [frame_of(number_, table, columns) for number_, table in enumerate(tables, 1)]
    found = analyse(formula, frames, SCHEMA, rule)
    claims = SimpleNamespace(schema=SCHEMA, sets=len(sets))
    items = measured(change(sets[0]), cliques, scale)
    bundle = Bundle(Path(), claims, rule, float(rows), items, origin=origin)
    given = compared(formula, found.design, frames, SCHEMA)
    about = concerns(bundle, formula, given, found.combined)
    return {each.kind: each for each in about}, given, (bundle, found.combined)


ALL = (
    ("pay", "age"),
    ("pay", "sex"),
    ("pay", "job"),
    ("age", "sex"),
    ("age", "job"),
    ("job", "sex"),
)


def test_only_the_coefficients_of_an_unmeasured_relation_are_warned_of():
    found, _, _ = judged("pay ~ sex + job", (("pay", "sex"), ("pay", "job"), ("job", "sex")))
    assert "unmeasured" not in found
    found, _, _ = judged("pay ~ sex + job", (("pay", "sex"), ("job", "sex")))
    assert found["unmeasured"].coefficients == ("Intercept", "job[T.b]", "job[T.c]")
    assert "No measured table holds pay with job" in found["unmeasured"].text
    found, _, _ = judged("pay ~ sex + job", (("pay", "sex"), ("pay", "job")))
    assert set(found["unmeasured"].coefficients) == {
        *("Intercept", "sex[T.m]", "job[T.b]", "job[T.c]")
    }


def test_a_pair_that_posterior_sets_do_not_draw_is_not_called_inferred(monkeypatch):
    cliques = (("pay", "sex"), ("job", "sex"))
    found, _, _ = judged("pay ~ sex + job + ill", cliques, rule="posterior")
    assert set(found) == {"inferred"}

    # Two pairs were measured; of the others, only the smallest is drawn: sex with ill.
    monkeypatch.setattr(posterior_tables, "MOST_PAIRS", 3)
    found, _, _ = judged("pay ~ sex + job + ill", cliques, rule="posterior")
    assert found["undrawn"].coefficients == ("Intercept", "job[T.b]", "job[T.c]", "ill[T.yes]")
    for pair in ("pay with job", "pay with ill", "job with ill"):
        assert pair in found["undrawn"].text
    assert found["inferred"].coefficients == ("Intercept", "sex[T.m]", "ill[T.yes]")
    assert "sex with ill" in found["inferred"].text


@pytest.mark.parametrize("outcome", ["pay", "ill"])
def test_only_the_level_whose_relation_the_sets_lost_is_warned_of(outcome):
    """In the file everybody with job c is rich and ill; in the sets they are like the others."""
    found, _, _ = judged(f"{outcome} ~ job", ((outcome, "job"),), change=rich)
    assert found["thin"].coefficients == ("job[T.c]",)
    found, _, _ = judged(f"{outcome} ~ job", ((outcome, "job"),))
    assert "thin" not in found


def test_a_difference_that_is_no_bias_is_not_warned_of():
    # That of posterior sets follows from the prior.
    found, _, _ = judged("pay ~ job", (("pay", "job"),), rule="posterior", change=rich)
    assert "thin" not in found
    # Of shared sets all intervals are too narrow; a difference from the table may be noise removed.
    found, _, _ = judged("pay ~ job", (("pay", "job"),), rule="shared", change=rich)
    assert "thin" not in found


def test_posterior_sets_that_differ_less_than_their_noise_follow_the_prior():
    """At a noise of 1 the table decides; at 60, sets that differ this little follow the prior."""
    found, _, _ = judged("pay ~ sex + job", ALL, rule="posterior", scale=1.0)
    assert "prior" not in found
    found, given, (bundle, combined) = judged("pay ~ sex + job", ALL, rule="posterior", scale=60.0)
    assert "sex[T.m]" in found["prior"].coefficients
    assert "Intercept" not in found["prior"].coefficients
    wide = dataclasses.replace(combined, between=400 * combined.between)
    formula = read_formula("pay ~ sex + job", SCHEMA.names)
    assert "prior" not in {each.kind for each in concerns(bundle, formula, given, wide)}
    # The scale of a logistic coefficient is another one than that of its expected errors.
    found, _, _ = judged("ill ~ sex", (("ill", "sex"),), rule="posterior", scale=1.0)
    assert "prior" not in found
    found, _, _ = judged("ill ~ sex", (("ill", "sex"),), rule="posterior", scale=300.0)
    assert found["prior"].coefficients == ("sex[T.m]",)
    # The other modes have no prior.
    found, _, _ = judged("pay ~ sex + job", ALL, scale=60.0)
    assert "prior" not in found


def test_shared_noise_is_warned_of_where_it_is_large():
    found, _, _ = judged("pay ~ sex + job", ALL, rule="shared", scale=6.0)
    assert "job[T.c]" in found["noise"].coefficients
    assert "sex[T.m]" not in found["noise"].coefficients
    found, _, _ = judged("pay ~ sex + job", ALL, rule="split", scale=6.0)
    assert "noise" not in found


def test_bins_that_are_wide_for_a_predictor_are_warned_of():
    """Four bins of age, even within and between: 1 - 1/16 of a slope on age is left.

    The intercept is the mean less the slope times the mean age, so that it is too large.
    """
    found, _, _ = judged("pay ~ age + sex", ALL, scale=2.0)
    assert found["bins"].coefficients == ("Intercept", "age")
    assert "Intercept (+" in found["bins"].text
    assert "age (-" in found["bins"].text
    found, _, _ = judged("pay ~ center(age) + sex", ALL, scale=2.0)
    assert found["bins"].coefficients == ("center(age)",)
    found, _, _ = judged("pay ~ sex", ALL, scale=2.0)
    assert "bins" not in found


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
    ("skewed", "bins", "misses"),
    [
        (True, "bins: 10", True),
        (True, "edges: [0, 200, 500, 1000, 2000, 4000, 8000, 16000, 32000, 64000, 100000]", False),
        (False, "bins: 10", False),
    ],
)
def test_a_mean_that_bins_decide_is_warned_of_in_any_coding(tmp_path, skewed, bins, misses):
    """In wide bins of a skewed number the sets' means are far from those of the file."""
    (tmp_path / "schema.yaml").write_text(COSTS.replace("BINS", bins))
    rng = np.random.default_rng(1)
    sex = np.where(rng.random(3000) < 0.5, "f", "m")
    cost = np.exp(rng.normal(7, 1.5, 3000)) if skewed else rng.normal(50_000, 15_000, 3000)
    file = pd.DataFrame({"sex": sex, "cost": np.clip(cost, 0, 100_000)})
    bundle = dp.release(file, dp.read_schema(tmp_path / "schema.yaml"), epsilon=5, delta=1e-6)
    for text, means in MEANS.items():
        for one in bundle.infer(text).coefficients:
            assert misses or "bins" not in one.concerns, (text, one.name)
            if one.name in means:
                mean = file.cost[file.sex.isin([*means[one.name]])].mean()
                far = abs(one.combined.estimate - mean) > one.combined.high - one.combined.low
                assert far == misses, (text, one.name)
                assert ("bins" in one.concerns) is misses, (text, one.name)


@pytest.mark.parametrize("origin", ["drawn", "chosen"])
def test_of_records_that_no_model_gave_nothing_more_is_told(origin):
    found, _, (bundle, combined) = judged("pay ~ job", (), rule="split", origin=origin)
    assert found == {}
    (said,) = general_warnings(bundle, combined)
    assert said.startswith("No interval from these sets is valid")


def test_what_a_coefficient_compares():
    _, (intercept, b, c), _ = judged("pay ~ job", (("pay", "job"),))
    assert (intercept.x, intercept.columns) == (None, ())
    np.testing.assert_array_equal(b.x, [0, 1, np.nan])
    np.testing.assert_array_equal(c.x, [0, np.nan, 1])
    # Values are those of the bins, up to where they were drawn.
    np.testing.assert_allclose(b.y, np.arange(5, 100, 10), atol=1)
    _, (_, age), _ = judged("ill ~ age", (("ill", "age"),))
    np.testing.assert_allclose(age.x, [12.5, 37.5, 62.5, 87.5], atol=1)
    np.testing.assert_array_equal(age.y, [0, 1])
    _, found, _ = judged("job ~ sex", (("job", "sex"),))
    by_name = {each.name: each for each in found}
    np.testing.assert_array_equal(by_name["c: sex[T.m]"].y, [0, np.nan, 1])
    _, found, _ = judged("pay ~ age:sex", ALL)
    assert all(each.x is None for each in found)
    _, (_, half), _ = judged("pay ~ I(sex == 'm')", ALL)
    np.testing.assert_array_equal(half.x, [0, 1])


def test_dates_are_in_their_bins():
    """Frames count days from 1970, edges from the year 1."""
    day = 719_163 + 10_000
    born = Column(
        name="born", kind="date", edges=tuple(Fraction(day + 100 * part) for part in range(4))
    )
    schema = Schema(title="x", columns=(born, number("pay", 5)), zeros=NONE, document={})
    codes = np.stack([np.arange(300) % 3, np.arange(300) % 5]).astype(np.uint16)
    data = decode(schema, Dataset(schema.domain, codes), rng=np.random.default_rng(1))
    assert isinstance(data, pa.Table)
    formula = read_formula("pay ~ born", schema.names)
    frames = [frame_of(1, data, [schema.column("pay"), schema.column("born")])]
    design = analyse(formula, frames, schema, "shared").design
    _, slope = compared(formula, design, frames, schema)
    np.testing.assert_allclose(slope.x, 10_050 + 100 * np.arange(3), atol=15)


@pytest.mark.parametrize(("sets", "warns"), [(3, True), (5, True), (6, False), (20, False)])
def test_few_sets_whose_differences_dominate_are_warned_of(sets, warns):
    rng = np.random.default_rng(sets)
    estimates = rng.normal(0, 100.0, (sets, 2))
    combined = combine(estimates, np.tile(np.eye(2), (sets, 1, 1)), "posterior")
    found = few_sets(combined, ["a", "b"])
    assert [each.coefficients for each in found] == ([("a", "b")] if warns else [])
    assert all("cost no privacy" in each.text for each in found)
    limited = combine(estimates, np.tile(1e6 * np.eye(2), (sets, 1, 1)), "posterior", complete_df=3)
    assert [("cost no privacy" in each.text) for each in few_sets(limited, ["a", "b"])] == [False]
