"""Estimates of a data user's own software, combined by the rule of the release."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

import dp_core as dp
from dp_core.inference.combine import combine

SCHEMA = {
    "version": 1,
    "title": "x",
    "columns": {
        "sex": {"type": "category", "levels": ["f", "m"]},
        "pay": {"type": "number", "min": 0, "max": 100, "bins": 20},
    },
}


@pytest.fixture(scope="module")
def made():
    rng = np.random.default_rng(1)
    sex = np.where(rng.random(2000) < 0.5, "f", "m")
    pay = np.clip(rng.normal(np.where(sex == "f", 40, 50), 10), 0, 100)
    return dp.release(pd.DataFrame({"sex": sex, "pay": pay}), SCHEMA, epsilon=2, sets=3, seed=1)


def mean(data):
    return data.pay.mean(), data.pay.var() / len(data)


def test_a_mean_is_combined_by_the_rule_of_the_release(made):
    found = made.apply(mean)
    pairs = [mean(data) for data in made.sets]
    wanted = combine([each for each, _ in pairs], [each for _, each in pairs], "posterior")
    (row,) = found.frame.itertuples()
    assert (row.estimate, row.std_error) == pytest.approx((wanted.estimate, wanted.standard_error))
    assert (row.low, row.high) == pytest.approx(wanted.interval())
    assert "99.5 % interval" in str(made.apply(mean, level=0.995))
    narrow = made.apply(mean, level=0.5).frame.iloc[0]
    assert row.low < narrow.low < narrow.high < row.high
    assert made.combine(*zip(*pairs, strict=True)).frame.equals(found.frame)


def test_a_model_of_statsmodels_keeps_its_names_and_covariance(made):
    found = made.apply(lambda data: smf.ols("pay ~ sex", data).fit())
    assert list(found.frame.index) == ["Intercept", "sex[T.m]"]
    fits = [smf.ols("pay ~ sex", data).fit() for data in made.sets]
    within = np.mean([fit.cov_params().to_numpy() for fit in fits], axis=0)
    np.testing.assert_allclose(found.combined.within, within)
    text = str(found)
    assert "posterior: T = W + (1 + 1/m) B" in text
    assert "sex[T.m]" in text


def test_a_dictionary_names_its_estimates(made):
    found = made.apply(lambda data: {"mean": mean(data), "one": (1, 0)})
    assert list(found.frame.index) == ["mean", "one"]
    assert found.frame.loc["one", "std_error"] == 0


@pytest.mark.parametrize(
    ("estimates", "variances", "words"),
    [
        ([1, 2], [1, 2], "has 3 sets"),
        ([1, 2, 3], [1, 2], "variances of 2"),
        ([[1, 2]] * 3, [1, 2, 3], "2 estimates have variances of shape"),
        ([1, 2, 3], [1, 1, -1], "negative"),
        ([1, 2, "a"], [1, 1, 1], "cannot be combined"),
        ([pd.Series({"a": 1}), pd.Series({"a": 1}), pd.Series({"b": 1})], [1] * 3, "names"),
    ],
)
def test_what_does_not_fit_the_sets_is_refused(made, estimates, variances, words):
    with pytest.raises(dp.BadInput, match=words):
        made.combine(estimates, variances)


def test_a_function_that_returns_no_variance_is_refused(made):
    with pytest.raises(dp.BadInput, match="must return estimates and variances"):
        made.apply(lambda data: data.pay.mean())
    with pytest.raises(dp.BadInput, match="must return estimates and variances"):
        made.apply(lambda data: {"mean": data.pay.mean()})
    with pytest.raises(dp.BadInput, match="level must be between 0 and 1"):
        made.apply(mean, level=95)
    with pytest.raises(TypeError, match="level"):
        made.apply(mean, level="high")


def test_intervals_of_one_set_warn():
    rng = np.random.default_rng(1)
    file = pd.DataFrame({"sex": rng.choice(["f", "m"], 500), "pay": rng.uniform(0, 100, 500)})
    one = dp.release(file, SCHEMA, epsilon=2, sets=1, seed=1)
    assert "too narrow" in one.apply(mean).warnings[0]
