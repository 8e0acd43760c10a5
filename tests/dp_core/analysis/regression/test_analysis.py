"""Regressions on several sets, against statsmodels on each and the rule by hand."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from dp_core.analysis.regression.analysis import analyse
from dp_core.analysis.regression.frames import frame_of, levels_of
from dp_core.errors import BadInput
from dp_core.inference.combine import combine
from dp_core.inference.formulas.formula import read_formula
from tests.schema_texts import read

SCHEMA = read(
    """\
version: 1
title: Test
columns:
  pay: {type: number, min: -100, max: 100, bins: 4, missing: level}
  visits: {type: integer, min: 0, max: 1000, bins: 4}
  flag: {type: integer, min: 0, max: 1}
  age: {type: integer, min: 0, max: 99, bins: 9}
  since: {type: date, min: 1960-01-01, max: 2010-12-31, bins: year}
  smoker: {type: category, levels: [yes, no]}
  sex: {type: category, levels: {1: male, 2: female}}
  health: {type: ordinal, levels: [poor, fair, good], missing: level}
"""
)
LEVELS = {column.name: levels_of(column) for column in SCHEMA.columns}


def table(seed=1, rows=400, **columns):
    """Return a set; `columns` replaces some."""
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 100, rows)
    sex = rng.integers(0, 2, rows)
    score = (age - 50) / 25 + sex
    values = {
        "pay": 10 + 3 * score + rng.normal(size=rows),
        "visits": rng.poisson(np.exp(0.3 * score)),
        "flag": (rng.random(rows) < 1 / (1 + np.exp(-score))).astype(int),
        "age": age,
        "since": pa.array(rng.integers(-3000, 14000, rows).astype(np.int32)).cast(pa.date32()),
        "smoker": _words("smoker", (rng.random(rows) > 1 / (1 + np.exp(-score))).astype(int)),
        "sex": _words("sex", sex),
        "health": _words("health", np.clip(np.round(1 + rng.normal(size=rows)), 0, 2).astype(int)),
    } | columns
    return pa.table(values)


def _words(name, codes):
    return np.array(LEVELS[name], dtype=object)[codes].tolist()


def fit(text, tables, rule="split", **options):
    formula = read_formula(text, SCHEMA.domain.columns)
    columns = [SCHEMA.column(name) for name in formula.columns]
    frames = [frame_of(number, one, columns) for number, one in enumerate(tables, start=1)]
    return analyse(formula, frames, SCHEMA, rule, **options)


def sets(count=3, **options):
    return [table(seed, **options) for seed in range(1, count + 1)]


# -- right numbers


def plain(family, one):
    """Fit one set with statsmodels' own formulas, on codes made by hand."""
    import statsmodels.formula.api as smf

    data = one.to_pandas()
    data["male"] = (data["sex"] == "male").astype(float)
    data["female"] = 1 - data["male"]
    data["smokes"] = (data["smoker"] == "yes").astype(float)
    data["fair"], data["good"] = (data["health"] == "fair") * 1, (data["health"] == "good") * 1
    data["level"] = data["fair"] + 2 * data["good"]
    found = {
        "linear": lambda: smf.ols("pay ~ female + fair + good + age", data).fit(),
        "logistic": lambda: smf.logit("smokes ~ female + age", data).fit(disp=0),
        "poisson": lambda: smf.poisson("visits ~ female + age", data).fit(disp=0),
        "multinomial": lambda: smf.mnlogit("level ~ female + age", data).fit(disp=0),
    }[family]()
    return np.asarray(found.params).reshape(-1, order="F"), np.asarray(found.cov_params())


FORMULAS = {
    "linear": "pay ~ sex + health + age",
    "logistic": "smoker ~ sex + age",
    "poisson": "visits ~ sex + age",
    "multinomial": "health ~ sex + age",
}


@pytest.mark.parametrize("family", FORMULAS)
def test_each_set_is_fitted_as_statsmodels_fits_it_and_combined_by_the_rule(family):
    made = sets()
    first = {"sex": "male", "health": "poor"}
    found = fit(FORMULAS[family], made, family=family, references=first)
    alone = [plain(family, one) for one in made]
    complete = min(one.num_rows for one in made) - 5 if family == "linear" else None
    wanted = combine([q for q, _ in alone], [u for _, u in alone], "split", complete_df=complete)

    assert found.design.outcome.family == family
    # Except in a linear model, the prior moves estimates by a small part of their errors.
    near = 1e-6 if family == "linear" else 0.1
    away = (found.combined.estimate - wanted.estimate) / wanted.standard_error
    np.testing.assert_allclose(away, 0, atol=near)
    errors = found.combined.standard_error
    np.testing.assert_allclose(errors, wanted.standard_error, rtol=near)
    degrees = wanted.degrees_of_freedom
    np.testing.assert_allclose(found.combined.degrees_of_freedom, degrees, rtol=5 * near)


@pytest.mark.parametrize(
    ("text", "family", "levels", "words"),
    [
        ("pay ~ age", "linear", (), "the mean of pay"),
        ("visits ~ age", "linear", (), "the mean of visits"),
        ("flag ~ age", "logistic", ("0", "1"), "the log odds of flag = 1"),
        ("smoker ~ age", "logistic", ("no", "yes"), "the log odds of smoker = 'yes'"),
        ("sex ~ age", "logistic", ("male", "female"), "the log odds of sex = 'female'"),
        ("health ~ age", "multinomial", ("poor", "fair", "good"), "each level of health against"),
        ("health == 'poor' ~ age", "logistic", ("False", "True"), "log odds of health == 'poor'"),
        ("pay > 10 ~ age", "logistic", ("False", "True"), "the log odds of pay > 10"),
    ],
)
def test_the_family_follows_from_the_outcome(text, family, levels, words):
    outcome = fit(text, sets(1), "shared", references={"health": "poor"}).design.outcome

    assert (outcome.family, outcome.levels) == (family, levels)
    assert words in outcome.in_words


def test_the_answer_yes_is_what_is_modelled():
    found = fit("smoker ~ age", sets(1), "shared")
    # Older people smoke more often in these sets.
    assert found.fits[0].coefficients[1] > 0
    named = fit("C(smoker, Treatment('yes')) ~ age", sets(1), "shared")
    assert named.design.outcome.levels == ("yes", "no")
    np.testing.assert_allclose(named.fits[0].coefficients, -found.fits[0].coefficients, rtol=1e-8)
    turned = fit("smoker == 'no' ~ age", sets(1), "shared")
    np.testing.assert_allclose(turned.fits[0].coefficients, -found.fits[0].coefficients, rtol=1e-8)


def test_dates_are_days_since_1970():
    made = [table(since=pa.array(np.arange(400, dtype=np.int32)).cast(pa.date32()))]
    found = fit("since ~ 1", made, "shared")
    assert found.fits[0].coefficients[0] == pytest.approx(199.5)


def test_numbers_of_any_size_are_fitted():
    small = sets(1)[0]
    large = small.set_column(3, "age", pa.array(np.asarray(small["age"]) * 10**6))
    first, second = (fit("smoker ~ age", [one], "shared").fits[0] for one in (small, large))

    np.testing.assert_allclose(second.coefficients[1], first.coefficients[1] / 1e6, rtol=1e-7)
    np.testing.assert_allclose(second.covariance[1, 1], first.covariance[1, 1] / 1e12, rtol=1e-6)


def test_what_a_function_learns_is_learnt_from_all_sets():
    made = sets(2)
    found = fit("pay ~ center(age)", made)
    mean = np.mean([np.asarray(one["age"]).mean() for one in made])

    np.testing.assert_allclose(found.design.x[0][:, 1], np.asarray(made[0]["age"]) - mean)


def test_rows_with_a_missing_value_are_left_out_and_counted():
    pay = np.arange(400, dtype=float)
    holes = pa.array(pay, mask=pay < 7)
    health = [None] * 10 + _words("health", np.arange(390) % 3)
    columns = [SCHEMA.column("pay"), SCHEMA.column("health")]
    frame = frame_of(1, table(pay=holes, health=health), columns)

    assert (frame.rows, frame.dropped) == (390, 10)
    with pytest.raises(BadInput, match="No row of set 2 has a value in all of pay"):
        frame_of(2, table(pay=pa.nulls(400, pa.float64())), [SCHEMA.column("pay")])


@pytest.mark.parametrize("rule", ["posterior", "split", "shared"])
def test_analyses_of_a_small_file_use_its_own_degrees_of_freedom(rule):
    made = sets(3, rows=30)
    found = fit("pay ~ age", made, rule).combined

    assert found.complete_df == 28
    assert (found.degrees_of_freedom < 28 + 2).all()
    assert fit("smoker ~ age", made, rule).combined.complete_df is None


@pytest.mark.parametrize(
    ("formula", "family", "complete_df"),
    [
        ("pay ~ age", None, 13),  # a file of 15 records, and two coefficients
        ("pay ~ 1", None, 14),
        ("smoker ~ age", None, None),
        ("health ~ age", None, None),
        ("age ~ pay", "poisson", None),
    ],
)
def test_complete_degrees_of_freedom_are_those_of_the_file_and_of_the_family(
    formula, family, complete_df
):
    made = sets(3, rows=60)
    found = fit(formula, made, "posterior", family=family, size_factor=4.0).combined

    assert found.complete_df == complete_df


def test_a_file_with_hardly_a_record_leaves_one_degree_of_freedom():
    assert (
        fit("pay ~ age", sets(3, rows=60), "posterior", size_factor=40.0).combined.complete_df == 1
    )


def test_sets_of_another_size_than_the_file_are_scaled():
    once = fit("pay ~ age", sets()).combined
    twice = fit("pay ~ age", sets(), size_factor=2.0).combined

    np.testing.assert_allclose(twice.within, 2 * once.within)
    np.testing.assert_allclose(twice.between, once.between)


# -- bad input


def bad(said, text, tables, **options):
    with pytest.raises(BadInput) as caught:
        fit(text, tables, **options)
    assert said in caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("text", "family", "said"),
    [
        ("pay ~ age", "logistic", "--family linear or --family poisson"),
        ("pay ~ age", "multinomial", "pay is a number"),
        ("pay ~ age", "poisson", "pay has other values in set 1"),
        ("sex ~ age", "linear", "sex is a category: --family logistic"),
        ("health ~ age", "poisson", "--family multinomial"),
        ("health ~ age", "logistic", "needs two levels and health has 3"),
        ("bs(pay, df=3) ~ age", None, "several columns"),
        ("pay ~ np.log(age - 200)", None, "is not finite in 400 rows of set 1"),
        ("np.log(age * 0) ~ pay", None, "is not finite in 400 rows of set 1"),
        ("pay ~ np.log(sex)", None, "cannot be computed"),
        ("pay ~ np.nothing(age)", None, "no function 'np.nothing'"),
        ("pay ~ C(sex, Treatment('m'))", None, "no level 'm'"),
        ("pay ~ age + I(3 * age)", None, "collinear: I(3 * age) is a combination"),
        ("pay ~ sex + C(sex)", None, "in every set"),
        ("pay > 500 ~ age", None, "one value"),
        ("I(2 * age) ~ I(flag * 0 + 1) - 1 + visits + I(1 + pay * 0)", None, "collinear"),
    ],
)
def test_what_cannot_be_fitted_is_one_sentence(text, family, said):
    bad(said, text, sets(2), family=family)


def test_an_outcome_in_another_form_is_told():
    made = [one.set_column(0, "pay", pa.array(2.0 * np.asarray(one["age"]))) for one in sets(2)]
    bad("without error in set 1", "pay ~ age", made)


@pytest.mark.parametrize("text", ["pay ~ health + age", "pay ~ C(health) + age"])
def test_a_level_that_a_set_lacks_gets_no_coefficient_and_changes_no_other(text):
    """The other sets fit it by itself: its records do not count as those of the reference."""
    made = sets(3)
    made[1] = table(2, health=_words("health", np.arange(400) % 2))
    found = fit(text, made)

    assert [name for name in found.names if "good" in name] == []
    assert [name[-7:] for name in found.design.undetermined] == ["T.good]"]
    whole = fit(text, [made[0], made[2]])
    for own, other in ((0, 0), (2, 1)):
        both = dict(zip(whole.names, whole.fits[other].coefficients, strict=True))
        wanted = [both[name] for name in found.names]
        np.testing.assert_allclose(found.fits[own].coefficients, wanted)


def test_an_outcome_that_a_set_lacks_is_fitted():
    made = sets(3)
    made[1] = table(2, health=_words("health", np.arange(400) % 2))
    found = fit("health == 'good' ~ age", made)
    assert np.isfinite(found.combined.interval()).all()
    # Half a record of 400 and more, far below the shares of the other sets.
    assert found.fits[1].coefficients[0] < found.fits[0].coefficients[0] - 3
    assert "good: age" in fit("health ~ age", made).names


def test_levels_are_compared_with_the_most_frequent_unless_the_formula_names_one():
    made = sets(2)
    often = _words("health", np.array([0, 1, 2, 2])[np.arange(400) % 4])
    made = [table(seed, health=often) for seed in (1, 2)]
    assert fit("pay ~ health", made).names == ("Intercept", "health[T.poor]", "health[T.fair]")
    assert fit("pay ~ C(health)", made).names[1:] == ("C(health)[T.poor]", "C(health)[T.fair]")
    named = fit("pay ~ C(health, Treatment('fair'))", made)
    assert [name[-7:] for name in named.names[1:]] == ["T.poor]", "T.good]"]
    assert fit("pay ~ C(health, Sum)", made).names[1].endswith("[S.poor]")
    assert fit("pay ~ C(health, levels=['fair', 'good', 'poor'])", made).names[1].endswith("good]")
    assert fit("health ~ age", made).design.outcome.levels == ("good", "poor", "fair")
    other = fit("C(health, Treatment('fair')) ~ age", made).design.outcome
    assert other.levels == ("fair", "poor", "good")
    given = fit("pay ~ health", made, references={"health": "fair"})
    assert given.names == ("Intercept", "health[T.poor]", "health[T.good]")


def test_an_outcome_s_coefficients_are_those_against_its_reference():
    """Of another reference they are differences, whatever the coding."""
    made = [
        table(seed, health=_words("health", np.array([0, 1, 2, 2])[np.arange(400) % 4]))
        for seed in (1, 2)
    ]
    good, poor = (
        fit("health ~ age", made, references={"health": level}) for level in ("good", "poor")
    )
    first = dict(zip(good.names, good.fits[0].coefficients, strict=True))
    other = dict(zip(poor.names, poor.fits[0].coefficients, strict=True))
    assert other["good: age"] == pytest.approx(-first["poor: age"])
    assert other["fair: age"] == pytest.approx(first["fair: age"] - first["poor: age"])


def test_a_level_that_no_set_has_gets_no_coefficient():
    made = [table(seed, health=_words("health", np.arange(400) % 2)) for seed in (1, 2)]
    found = fit("pay ~ health", made)

    assert found.names == ("Intercept", "health[T.fair]")
    assert found.design.notes == ("No set has health = 'good', so it has no coefficient.",)
    assert fit("health ~ age", made).design.outcome.family == "logistic"


def test_an_empty_combination_of_an_interaction_has_no_coefficient():
    made = sets(2)
    sex = np.arange(400) % 2
    health = np.where(sex, 0, np.arange(400) % 3)
    made[1] = table(2, sex=_words("sex", sex), health=_words("health", health))
    found = fit("pay ~ sex * health + age", made)
    assert [name for name in found.names if ":" in name] == []
    assert "age" in found.names
    assert any(":" in name for name in found.design.undetermined)


def test_a_formula_of_which_a_set_determines_nothing_is_told():
    made = sets(2)
    made[1] = table(2, age=np.zeros(400), visits=np.zeros(400))
    bad("No coefficient is determined in every set: visits and age", "pay ~ 0 + visits + age", made)


def test_too_few_rows_are_told():
    bad("Set 1 has 2 complete rows, too few for 2", "pay ~ age", sets(2, rows=2))
    few = table(1, rows=3, health=_words("health", [0, 1, 2]))
    bad("too few for 4 coefficients", "health ~ age", [few, few])


@pytest.mark.parametrize("quasi", [False, True])
@pytest.mark.parametrize(
    ("family", "text"),
    [
        ("logistic", "smoker ~ sex + age"),
        ("multinomial", "health ~ sex + age"),
        ("poisson", "visits ~ sex + age"),
    ],
)
def test_separation_in_a_set_gives_finite_coefficients(family, text, quasi):
    """Of women nobody smokes, is well, or comes; or (quasi) of men some do and some do not."""
    made = sets(2)
    rng = np.random.default_rng(9)
    sex = np.arange(400) % 2
    some = rng.integers(0, 2, 400) if quasi else np.ones(400, dtype=int)
    low = rng.integers(0, 2, 400)
    columns = {
        "logistic": {"smoker": _words("smoker", np.where(sex, 1, 1 - some))},
        "multinomial": {"health": _words("health", np.where(sex, low, 2 * some))},
        "poisson": {"visits": np.where(sex, 0, 3 * some)},
    }[family]
    made[1] = table(2, sex=_words("sex", sex), **columns)
    found = fit(text, made, family=family)
    (place, *_) = [at for at, name in enumerate(found.names) if "sex[T." in name]
    separated = found.fits[1]
    # A log odds ratio of 200 records each way is finite, clearly one-sided, and uncertain.
    assert 4 < abs(separated.coefficients[place]) < 15
    assert 0.5 < np.sqrt(separated.covariance[place, place]) < 3


def test_a_rare_event_is_no_separation():
    rng = np.random.default_rng(3)
    smoker = (rng.random(4000) > 0.003).astype(int)
    made = [table(rows=4000, smoker=_words("smoker", smoker))]
    assert np.isfinite(fit("smoker ~ age + sex", made, "shared").fits[0].covariance).all()


def test_large_counts_are_fitted():
    rng = np.random.default_rng(3)
    age = np.arange(400) % 100
    made = [table(age=age, visits=rng.poisson(np.exp(1 + age / 20)))]
    found = fit("visits ~ age", made, "shared", family="poisson").fits[0]
    np.testing.assert_allclose(found.coefficients, [1, 1 / 20], atol=0.02)
