"""A mean that `infer` or `query` names is one that the schema allows, and both say the same."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dp_core as dp
from dp_core.analysis.query.answering import terms_of
from dp_core.analysis.query.asked_counts import Asked
from dp_core.analysis.query.possible_answers import possible_answers
from dp_core.analysis.regression.analysis import analyse
from dp_core.analysis.regression.design import make_design
from dp_core.analysis.regression.frames import frame_of, public_frame
from dp_core.analysis.regression.possible_means import possible_means
from dp_core.inference.formulas.formula import read_formula
from dp_core.inference.questions.between_waves import read_any_question
from dp_core.schema.rules.possible_codes import decode
from tests.dp_core.analysis.regression.test_set_errors import SCHEMA, people
from tests.dp_core.bundle.conftest import make_published, write

TOWN = """
version: 1
title: Costs
unit: row
rows_about: 300
columns:
  age: {type: integer, min: 18, max: 99, edges: [18, 30, 50, 70, 100]}
  sex: {type: category, levels: {m: male, f: female}}
  cost: {type: number, min: 0, max: 100000, bins: 10}
  seen: {type: date, min: 2020-01-01, max: 2020-12-31, format: "%Y-%m-%d", bins: quarter}
"""
DECLARED = ("cost ~ 1", "age ~ sex", "seen ~ sex", "cost ~ age")
MEANS = {
    "cost ~ 1": [[1]],
    "age ~ 1": [[1]],
    "age ~ sex": [[1, 0], [1, 1]],
    "seen ~ sex": [[1, 0], [1, 1]],
    "cost ~ sex": [[1, 0], [1, 1]],
    "cost ~ 0 + sex": [[1, 0], [0, 1]],
    "age ~ C(sex, Sum)": [[1, 1], [1, -1]],
}
"""By formula, the weights of the coefficients in the mean of each group."""
RANGES = {"age": (18, 99), "cost": (0, 100_000), "seen": (18_262, 18_627)}
"""Smallest and largest value by column; dates in days since 1970-01-01."""

RULED = """
version: 1
title: Incomes
unit: row
rows_about: 300
columns:
  group: {type: category, levels: [child, adult, old]}
  sex: {type: category, levels: [f, m]}
  income: {type: integer, min: 0, max: 1000, edges: [0, 1, 500, 1001]}
impossible:
  - {group: child, income: ">0"}
"""


@pytest.fixture(scope="module")
def town(tmp_path_factory):
    path = tmp_path_factory.mktemp("town") / "schema.yaml"
    path.write_text(TOWN)
    return dp.read_schema(path)


@pytest.fixture(scope="module")
def ruled(tmp_path_factory):
    path = tmp_path_factory.mktemp("ruled") / "schema.yaml"
    path.write_text(RULED)
    return dp.read_schema(path)


def released(town, rows, epsilon, seed):
    rng = np.random.default_rng([rows, seed])
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 366, rows), unit="D")
    file = pd.DataFrame(
        {
            "age": rng.integers(18, 100, rows),
            "sex": np.where(np.arange(rows) % 10 < 1, "m", "f"),
            "cost": np.minimum(rng.lognormal(5, 2, rows), 1e5),
            "seen": days.strftime("%Y-%m-%d"),
        }
    )
    return dp.release(
        file, town, epsilon=epsilon, delta=1e-6, tables=["age, sex"], analyses=list(DECLARED)
    )


@pytest.mark.parametrize("rows", [50, 300, 1000])
@pytest.mark.parametrize("epsilon", [0.1, 1, 20])
def test_no_answer_names_a_mean_outside_what_the_schema_allows(town, rows, epsilon):
    judged = 0
    for seed in range(2):
        bundle = released(town, rows, epsilon, seed)
        for text, weights in MEANS.items():
            try:
                rows_of = bundle.infer(text).coefficients
            except dp.BadInput:  # neither tables nor sums tell any of the coefficients
                rows_of = ()
            if len(rows_of) < len(weights[0]):
                continue
            judged += text in DECLARED
            low, high = RANGES[text.split()[0]]
            found = [each.combined for each in rows_of]
            means = np.array(weights) @ [each.estimate for each in found]
            assert np.clip(means, low, high) == pytest.approx(means), text
            for place, each in enumerate(found):
                far = (high - low) / (2 if "Sum" in text else 1)
                ends = (low, high) if place == 0 or "0 +" in text else (-far, far)
                assert ends[0] <= each.low <= each.estimate <= each.high <= ends[1], text
        for text, column in (("mean of cost", "cost"), ("mean of age by sex", "age")):
            for cell in bundle.query(text).cells:
                assert not cell["determined"] or (
                    RANGES[column][0] <= cell["low"] <= cell["high"] <= RANGES[column][1]
                )
    assert judged or epsilon < 20


def test_infer_and_query_agree_on_a_mean(town):
    """Without much noise they are the same number; with it they have the same possible values."""
    bundle = released(town, 1000, 1000, 1)
    costs = bundle.query("mean of cost").frame.iloc[0]
    (mean,) = bundle.infer("cost ~ 1").frame.itertuples()
    assert costs["low"] <= mean.estimate <= costs["high"]
    ages = bundle.query("mean of age by sex").frame.set_index("sex")
    first, more = bundle.infer("age ~ sex").frame["estimate"]
    for label, age in (("male", first), ("female", first + more)):
        assert ages.loc[label, "low"] <= age <= ages.loc[label, "high"]


# -- formulas on sets

CODINGS = [
    "pay ~ 1",
    "pay ~ sex",
    "pay ~ C(job, Sum)",
    "pay ~ sex * ill",
    "pay ~ 0 + job",
    "pay ~ I(sex == 'm')",
]


def analysed(text, **options):
    wanted = [SCHEMA.column(name) for name in SCHEMA.names]
    frames = [
        frame_of(number, decode(SCHEMA, data, rng=np.random.default_rng(number)), wanted)
        for number, data in enumerate(people(rows=600), start=1)
    ]
    formula = read_formula(text, SCHEMA.names)
    found = analyse(formula, frames, SCHEMA, "posterior", **options)
    return found, possible_means(formula, found.design, SCHEMA)


@pytest.mark.parametrize("text", CODINGS)
def test_means_of_groups_are_cut_and_no_interval_loses_a_possible_value(text):
    found, possible = analysed(text)
    width = len(found.names)
    rng = np.random.default_rng(1)
    outside = 0
    for _ in range(200):
        away = rng.normal(0, 120, width)
        ends = away, away - rng.exponential(60, width), away + rng.exponential(60, width)
        moved, low, high = possible.cut(ends)
        means = rng.uniform(0, 100, width)
        truth = np.linalg.solve(possible.corners, means)
        before = (ends[1] <= truth) & (truth <= ends[2])
        assert (before <= ((low <= truth + 1e-9) & (truth - 1e-9 <= high))).all()
        assert ((low <= moved) & (moved <= high)).all()
        fitted = possible.corners @ moved
        assert np.clip(fitted, 0, 100) == pytest.approx(fitted)
        outside += not np.array_equal(moved, away)
    assert outside


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("np.log1p(pay) ~ 1", (0, np.log(101))),
        ("I(1 - pay / 10) ~ 1", (-9, 1)),
        ("np.square(pay) ~ 1", None),
        ("where(pay == 7, -1, pay) ~ 1", None),
    ],
)
def test_means_of_a_monotone_function_are_cut(text, ends):
    found, possible = analysed(text)
    assert (possible is None) is (ends is None)
    if ends is not None:
        far = (found.combined.estimate, np.array([-1e9]), np.array([1e9]))
        assert [each[0] for each in possible.cut(far)[1:]] == pytest.approx(ends)


def test_a_possible_estimate_does_not_move():
    found, possible = analysed("pay ~ sex * ill")
    ends = found.combined.estimate, *found.combined.interval()
    assert all(np.array_equal(*pair) for pair in zip(possible.cut(ends), ends, strict=True))
    assert not possible.moves(found.combined)


def test_the_logarithm_of_a_mean_count_is_cut_and_log_odds_are_not(ruled):
    formula = read_formula("income ~ sex", ruled.names)
    frame = public_frame(formula.columns, ruled, 200)
    counts = possible_means(formula, make_design(formula, [frame], ruled, "poisson"), ruled)
    ends = tuple(np.array([each, 0.0]) for each in (9.0, 8.0, 10.0))
    first = [each[0] for each in counts.cut(ends)]
    assert np.exp(first)[[0, 2]] == pytest.approx(1000)
    assert analysed("ill ~ sex")[1] is None


@pytest.mark.parametrize("text", ["pay ~ sex + ill", "pay ~ age", "pay ~ sex * age"])
def test_formulas_that_give_no_group_a_mean_of_its_own_are_not_cut(text):
    assert analysed(text)[1] is None


# -- possible values


def test_the_possible_means_of_groups_are_those_of_query(ruled):
    """A rule of the schema that fixes the mean of a group fixes it for both."""
    for text, by in (("income ~ group", "group"), ("income ~ sex * group", "group, sex")):
        formula = read_formula(text, ruled.names)
        frame = public_frame(formula.columns, ruled, 200)
        found = possible_means(formula, make_design(formula, [frame], ruled, None), ruled)
        asked = Asked.of(read_any_question(f"mean of income by {by}", ruled), ruled)
        wanted = possible_answers(asked, terms_of(asked))
        assert sorted(found.means.most) == sorted(wanted.most)
        assert 0.0 in wanted.most


def test_the_naive_answer_of_one_set_is_cut_too(tmp_path):
    published, data = make_published(sets=1, rows=6, planned_rows=6, records=6.0)
    bundle = dp.read_bundle(write(tmp_path / "out", published, data, tmp_path / "scratch"))
    (found,) = bundle.infer("height ~ 1", naive=True, level=0.999999).coefficients
    assert (found.one_set.low, found.one_set.high) == (1, 2)
