"""Weighted regressions: against statsmodels, and whether their intervals hold."""

from __future__ import annotations

import numpy as np
import pytest

from dp_core.analysis.regression.design import Design, Outcome
from dp_core.analysis.regression.weighted import weighted_fit
from dp_core.errors import BadInput

ROWS = 400


def design_of(family, levels=()):
    return Design(("Intercept", "x", "z"), Outcome("y", family, levels, ""), (), (), ())


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(11)
    x = np.column_stack([np.ones(ROWS), rng.normal(50, 9, ROWS), rng.integers(0, 2, ROWS)])
    weights = rng.integers(1, 6, ROWS).astype(float)
    linear = -2 + 0.04 * x[:, 1] + x[:, 2]
    return (
        x,
        weights,
        {
            "linear": linear + rng.normal(size=ROWS) * (1 + x[:, 2]),
            "logistic": (rng.random(ROWS) < 1 / (1 + np.exp(-linear))).astype(float),
            "poisson": rng.poisson(np.exp(linear / 2)).astype(float),
            "multinomial": np.minimum(rng.poisson(np.exp(linear / 2)), 2).astype(float),
        },
    )


def by_statsmodels(family, y, x, weights):
    """Return the same estimate and sandwich: rows repeated by their weight, and as clusters."""
    import statsmodels.api as sm

    times = weights.astype(int)
    rows = np.repeat(np.arange(len(y)), times)
    cluster = {"groups": rows, "use_correction": False}
    model = {
        "linear": sm.OLS,
        "logistic": sm.Logit,
        "poisson": sm.Poisson,
        "multinomial": sm.MNLogit,
    }[family](y[rows], x[rows])
    options = {} if family == "linear" else {"disp": 0, "maxiter": 200, "tol": 1e-12}
    plain = model.fit(**options)
    if family == "multinomial":  # whose sandwich statsmodels does not make by clusters
        scores = model.score_obs(plain.params)
        summed = np.zeros((len(y), scores.shape[1]))
        np.add.at(summed, rows, scores)
        bread = np.linalg.inv(-model.hessian(plain.params))
        return np.asarray(plain.params).reshape(-1, order="F"), bread @ summed.T @ summed @ bread
    found = model.fit(cov_type="cluster", cov_kwds=cluster, **options)
    return np.asarray(found.params), np.asarray(found.cov_params())


@pytest.mark.parametrize("family", ["linear", "logistic", "poisson", "multinomial"])
def test_estimates_and_variances_are_those_of_repeated_rows_taken_as_clusters(data, family):
    x, weights, outcomes = data
    y = outcomes[family]
    levels = {"logistic": ("0", "1"), "multinomial": ("0", "1", "2")}.get(family, ())

    found, covariance = weighted_fit(design_of(family, levels), y, x, weights, "set 1")

    wanted, sandwich = by_statsmodels(family, y, x, weights)
    assert np.allclose(found, wanted, rtol=1e-6, atol=1e-8)
    assert np.allclose(covariance, sandwich * ROWS / (ROWS - 1), rtol=1e-4)


def test_a_common_factor_of_the_weights_changes_nothing(data):
    x, weights, outcomes = data
    for family, levels in (("linear", ()), ("logistic", ("0", "1"))):
        design = design_of(family, levels)
        one = weighted_fit(design, outcomes[family], x, weights, "set 1")
        other = weighted_fit(design, outcomes[family], x, 1e6 * weights, "set 1")
        for mine, theirs in zip(one, other, strict=True):
            assert np.allclose(mine, theirs, rtol=1e-8)


def test_rows_without_a_weight_count_for_nothing(data):
    x, weights, outcomes = data
    y = outcomes["linear"]
    none = np.where(np.arange(ROWS) < 100, 0.0, weights)

    whole = weighted_fit(design_of("linear"), y, x, none, "set 1")
    part = weighted_fit(design_of("linear"), y[100:], x[100:], weights[100:], "set 1")

    assert all(np.allclose(one, other) for one, other in zip(whole, part, strict=True))


def test_no_solution_is_a_sentence(data):
    x, weights, _ = data
    apart = (x[:, 1] > 50).astype(float)
    with pytest.raises(BadInput, match="separate the values of y perfectly"):
        weighted_fit(design_of("logistic", ("0", "1")), apart, x, weights, "set 2")
    with pytest.raises(BadInput, match="In set 2 the terms separate"):  # no weights to speak of
        weighted_fit(design_of("logistic", ("0", "1")), apart, x, np.ones(ROWS), "set 2")
    with pytest.raises(BadInput, match="only 2 rows have a weight"):
        weighted_fit(
            design_of("linear"), apart, x, np.where(np.arange(ROWS) < 2, 1.0, 0.0), "set 2"
        )
    with pytest.raises(BadInput, match="without error"):
        weighted_fit(design_of("linear"), x @ np.array([1.0, 2, 3]), x, weights, "set 2")
    only = np.where(x[:, 2] == 1, weights, 0.0)
    with pytest.raises(BadInput, match="collinear"):
        weighted_fit(design_of("linear"), apart, x, only, "set 2")
