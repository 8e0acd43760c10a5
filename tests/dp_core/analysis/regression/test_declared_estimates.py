"""Estimates from declared sums and from sets together."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from patsy import dmatrices

import dp_core as dp
from dp_core.analysis.regression.declared_estimates import combined_by_precision
from dp_core.inference.combine import Combined


def estimates(values, variances, within, *, df=np.inf):
    size = len(values)
    return Combined(
        *("posterior", 5, np.array(values, dtype=float), np.diag(variances).astype(float)),
        *(np.diag(within).astype(float), np.zeros((size, size)), np.full(size, df), 1000.0),
    )


def test_each_estimate_has_the_weight_of_the_other_s_noise():
    """Sampling of variance 1; noise of variance 2 of the sums and 1 of the sets."""
    sums, sets = estimates([1.5], [3.0], [3.0]), estimates([0.0], [2.0], [1.0])
    found = combined_by_precision(["x"], sums, {"x": 0}, sets)
    assert found.estimate == pytest.approx([0.5])
    # The sampling error is common; the noise has the harmonic sum.
    assert found.variance[0, 0] == pytest.approx(1 + 1 / (1 / 2 + 1))
    assert found.degrees_of_freedom[0] == 1000


def test_what_the_sets_do_not_tell_follows_from_the_sums_alone():
    sums = estimates([3.0, 5.0, 2.0], [3.0, 4.0, 5.0], [1.0, 1.0, 1.0], df=9.0)
    found = combined_by_precision(["a", "b", "c"], sums, {"c": 0}, estimates([1.0], [2.0], [1.0]))
    np.testing.assert_allclose(found.estimate[:2], [3.0, 5.0])
    np.testing.assert_allclose(np.diag(found.variance)[:2], [3.0, 4.0])
    np.testing.assert_allclose(found.degrees_of_freedom[:2], 9.0)
    assert found.estimate[2] == pytest.approx((1 * 2 + 4 * 1) / 5)
    assert found.variance[2, 2] == pytest.approx(1 + 1 / (1 / 4 + 1))


def test_sets_that_contradict_the_sums_count_for_little():
    """They differ by 10, with noise of 2: the sets' noise is taken to be 98, not 1."""
    sums, sets = estimates([10.0], [3.0], [3.0]), estimates([0.0], [2.0], [1.0])
    found = combined_by_precision(["x"], sums, {"x": 0}, sets)
    assert found.estimate == pytest.approx([9.8])
    assert found.variance[0, 0] == pytest.approx(1 + 1 / (1 / 2 + 1 / 98))


def test_sets_that_vary_too_little_do_not_narrow_the_sampling_error():
    sums, sets = estimates([1.0], [5.0], [5.0]), estimates([1.0], [2.0], [1.0])
    found = combined_by_precision(["x"], sums, {"x": 0}, sets, sampling=np.array([4.0]))
    # Sampling of variance 4 in both; noise of variance 1 in both.
    assert found.variance[0, 0] == pytest.approx(4 + 1 / 2)


def test_what_the_noise_of_the_sums_hides_follows_from_the_sets_alone():
    sums, sets = estimates([50.0], [400.0], [1.0]), estimates([1.0], [2.0], [1.0])
    found = combined_by_precision(["x"], sums, {"x": 0}, sets, {"x"})
    assert (found.estimate, found.variance) == (pytest.approx(1.0), pytest.approx(2.0))
    alone = combined_by_precision(["x"], sums, {}, sets, {"x"})
    assert (alone.estimate, alone.variance) == (pytest.approx(50.0), pytest.approx(400.0))


def test_the_variance_is_that_of_draws():
    """Correlated coefficients, with sampling error in common: against the estimates' own spread."""
    rng = np.random.default_rng(1)
    roots = [rng.normal(size=(3, 3)) for _ in range(3)]
    sampling, noise, other = (root @ root.T for root in roots)
    sums = estimates(np.zeros(3), np.ones(3), np.ones(3))
    sets = estimates(np.zeros(3), np.ones(3), np.ones(3))
    sums = Combined("posterior", 5, np.zeros(3), sampling + noise, None, None, np.full(3, np.inf))
    sets = Combined(
        "posterior", 5, np.zeros(3), sampling + other, sampling, None, np.full(3, np.inf)
    )
    names = ["a", "b", "c"]
    places = {name: at for at, name in enumerate(names)}
    found = combined_by_precision(names, sums, places, sets)
    common = rng.normal(size=(40_000, 3)) @ roots[0].T
    first, second = (common + rng.normal(size=common.shape) @ root.T for root in roots[1:])
    weight = np.diag(other) / (np.diag(noise) + np.diag(other))
    drawn = np.cov((weight * first + (1 - weight) * second).T)
    np.testing.assert_allclose(found.variance, drawn, atol=0.05 * np.abs(drawn).max())


def test_a_variance_below_the_sampling_error_is_not_believed():
    """Both are estimates: with less than the sampling error, the noise is a part of that."""
    sums, sets = estimates([1.0], [0.5], [0.5]), estimates([1.0], [2.0], [1.0])
    found = combined_by_precision(["x"], sums, {"x": 0}, sets)
    assert found.variance[0, 0] == pytest.approx(1 + 1 / (1 / 0.05 + 1))


def test_what_neither_sums_nor_sets_tell_is_not_given():
    """No record has the level. The others are given, from sums and sets or from the sets alone."""
    rng = np.random.default_rng(3)
    group = rng.choice(["a", "b", "rare"], 4000, p=[0.6, 0.4, 0])
    pay = np.clip(20 + 5 * (group == "b") + rng.normal(0, 8, 4000), 0, 59.9)
    made = dp.release(
        pd.DataFrame({"group": group, "pay": pay}),
        schema={
            "version": 1,
            "title": "Pay",
            "columns": {
                "group": {"type": "category", "levels": ["rare", "a", "b"]},
                "pay": {"type": "number", "min": 0, "max": 60, "bins": 20},
            },
        },
        epsilon=0.5,
        sets=3,
        seed=1,
        analyses=["pay ~ group"],
    )
    answer = made.infer("pay ~ group")
    assert answer.answered_from == "declared"
    given = {each.name: each.combined for each in answer.coefficients}
    gone = {name: each for each in answer.not_given for name in each.coefficients}
    assert {"Intercept", "group[T.b]"} <= {*given}
    assert {*given, *gone} == {"Intercept", "group[T.rare]", "group[T.b]"}
    # Whatever the noise: what is given has an error of less than half a usual effect.
    assert all((each.high - each.low) / 3.92 < 0.55 * pay.std() for each in given.values())
    for each in gone.values():
        assert each.kind == "noise"
        assert each.epsilon_times > 1
        assert "the noise of the declared sums" in each.reason


CURVED = (
    "np.log(pay) ~ age * group + I(age ** 2)",
    "pay ~ group + I(age > 40) + np.log1p(age):group + np.log1p(age)",
)


@pytest.fixture(scope="module")
def without_noise():
    """Return a file, and a release of it with hardly any noise that declares functions."""
    rng = np.random.default_rng(4)
    age, group = rng.integers(18, 66, 6000), rng.choice(["a", "b", "c"], 6000, p=[0.6, 0.3, 0.1])
    size = 2 + 0.05 * age - 0.0006 * age**2 + 0.01 * age * (group == "b") - 0.3 * (group == "c")
    pay = np.clip(np.exp(size + rng.normal(0, 0.3, 6000)), 1, 199.9).round(1)
    file = pd.DataFrame({"age": age, "group": group, "pay": pay})
    made = dp.release(
        file,
        schema={
            "version": 1,
            "title": "Pay",
            "columns": {
                "age": {"type": "integer", "min": 18, "max": 65, "edges": [18, 30, 40, 50, 66]},
                "group": {"type": "category", "levels": ["a", "b", "c"]},
                "pay": {"type": "number", "min": 1, "max": 200, "bins": 199, "decimals": 1},
            },
        },
        epsilon=1000,
        sets=2,
        seed=1,
        analyses=[*CURVED],
    )
    return file, made


@pytest.mark.parametrize(
    ("asked", "fitted"),
    [
        *zip(CURVED, CURVED, strict=True),
        ("log(pay) ~ I(age**2) + group + age + age:group", CURVED[0]),
        (
            "log(pay) ~ I(age**2) + age * C(group, Treatment('c'))",
            "np.log(pay) ~ I(age ** 2) + age * C(group, Treatment('c'))",
        ),
    ],
)
def test_without_noise_functions_and_interactions_have_the_file_s_coefficients(
    without_noise, asked, fitted
):
    file, made = without_noise
    answer = made.infer(asked)
    assert answer.answered_from == "declared"
    y, x = dmatrices(fitted, file, return_type="dataframe")
    own = np.linalg.lstsq(x, y, rcond=None)[0].ravel()
    names = [name.replace("np.log(", "log(").replace("np.log1p", "log1p") for name in x.columns]
    found = {
        each.name.replace("np.", "").replace(" ", ""): each.combined for each in answer.coefficients
    }
    assert len(found) == len(names)
    for name, value in zip(names, own, strict=True):
        combined = found[name.replace(" ", "")]
        assert abs(combined.estimate - value) < 0.1 * combined.std_error
