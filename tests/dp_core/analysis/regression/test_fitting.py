"""The solver of all families: against closed forms, the penalised likelihood, and statsmodels."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import special

from dp_core.analysis.regression.design import Design, Outcome
from dp_core.analysis.regression.fitting import coefficient_names, fit_sets, unequal_sizes_warning
from dp_core.errors import BadInput

ROWS = 400
NAMES = ("Intercept", "x", "z")
LEVELS = {"logistic": ("0", "1"), "multinomial": ("0", "1", "2")}


def fit(family, y, x, weights=None, also=None):
    names = NAMES[: x.shape[1]]
    design = Design(
        *(names, Outcome("y", family, LEVELS.get(family, ()), ""), (y.astype(float),), (x,), ()),
        weights=() if weights is None else (weights,),
        also=() if also is None else (also,),
    )
    return fit_sets(design)[0]


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


FAMILIES = ["linear", "logistic", "poisson", "multinomial"]


def chances(family, beta, x):
    """Return the mean of each outcome that has a coefficient, shape (rows, levels)."""
    linear = x @ beta.reshape(-1, x.shape[1]).T
    if family == "linear":
        return linear
    if family == "poisson":
        return np.exp(linear)
    return special.softmax(np.column_stack([np.zeros(len(x)), linear]), axis=1)[:, 1:]


def information(family, beta, x, weights):
    p = chances(family, beta, x)
    levels, width = p.shape[1], x.shape[1]
    found = np.zeros((levels * width,) * 2)
    for row, own, weight in zip(x, p, weights, strict=True):
        curve = {"linear": np.eye(1), "poisson": np.diag(own)}.get(
            family, np.diag(own) - np.outer(own, own)
        )
        found += weight * np.kron(curve, np.outer(row, row))
    return found


def penalised(family, beta, y, x, weights):
    """Return the weighted likelihood with Jeffreys' prior."""
    p = chances(family, beta, x)
    if family == "poisson":
        likelihood = y * np.log(p[:, 0]) - p[:, 0]
    else:
        whole = np.column_stack([1 - p.sum(axis=1), p])
        likelihood = np.log(whole[np.arange(len(y)), y.astype(int)])
    size = np.linalg.slogdet(information(family, beta, x, weights))[1]
    return weights @ likelihood + size / 2


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("family", ["logistic", "poisson", "multinomial"])
def test_the_estimate_is_the_maximum_of_the_penalised_likelihood(data, family, weighted):
    x, weights, outcomes = data
    y, own = outcomes[family], weights / weights.mean() if weighted else np.ones(ROWS)
    found = fit(family, y, x, weights if weighted else None)
    errors = np.sqrt(np.diag(found.covariance))
    top = penalised(family, found.coefficients, y, x, own)
    for place, error in enumerate(errors):
        for step in (-1e-2, 1e-2):
            moved = found.coefficients.copy()
            moved[place] += step * error
            # The curve is even about its maximum: what a step loses is half its square.
            other = penalised(family, moved, y, x, own)
            back = found.coefficients.copy()
            back[place] -= step * error
            slope = (other - penalised(family, back, y, x, own)) / (2 * step)
            assert other < top
            assert abs(slope) < 1e-3


@pytest.mark.parametrize(("family", "levels"), [("logistic", 2), ("multinomial", 3)])
def test_of_groups_the_prior_adds_half_a_record_to_each_cell(family, levels):
    """Jeffreys' prior of a multinomial is that of Dirichlet(1/2); some cells are empty."""
    counts = np.array([[40, 0, 7][:levels], [0, 25, 3][:levels]])
    group, y = np.repeat([0, 1], counts.sum(axis=1)), []
    for row in counts:
        y += np.repeat(np.arange(levels), row).tolist()
    found = fit(family, np.array(y), np.column_stack([np.ones(group.size), group]).astype(float))
    logs = np.log(counts + 0.5)
    first = logs[0, 1:] - logs[0, 0]
    slopes = logs[1, 1:] - logs[1, 0] - first
    np.testing.assert_allclose(found.coefficients, np.column_stack([first, slopes]).ravel())


def test_of_counts_the_prior_adds_half_an_event_to_each_group():
    y = np.array([0, 0, 0, 2, 5, 1])
    x = np.column_stack([np.ones(6), np.repeat([0, 1], 3)])
    found = fit("poisson", y, x)
    wanted = [np.log(0.5 / 3), np.log(8.5 / 3) - np.log(0.5 / 3)]
    np.testing.assert_allclose(found.coefficients, wanted)


@pytest.mark.parametrize("family", FAMILIES)
def test_without_weights_the_variance_is_the_model_s(data, family):
    x, _, outcomes = data
    y = outcomes[family]
    found = fit(family, y, x)
    wanted = np.linalg.inv(information(family, found.coefficients, x, np.ones(ROWS)))
    if family == "linear":
        rest = y - x @ found.coefficients
        wanted *= rest @ rest / (ROWS - 3)
        assert found.residual_df == ROWS - 3
    np.testing.assert_allclose(found.covariance, wanted, rtol=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_with_weights_the_variance_is_the_sandwich_of_weighted_scores(data, family):
    x, weights, outcomes = data
    y, own = outcomes[family], weights / weights.mean()
    found = fit(family, y, x, weights)
    p = chances(family, found.coefficients, x)
    hit = y[:, None] == np.arange(1, p.shape[1] + 1)
    away = (hit if family in LEVELS else y[:, None]) - p
    scores = np.hstack([x * (away[:, [one]] * own[:, None]) for one in range(p.shape[1])])
    bread = np.linalg.inv(information(family, found.coefficients, x, own))
    scores -= scores.mean(axis=0)
    wanted = bread @ scores.T @ scores @ bread * ROWS / (ROWS - 1)
    np.testing.assert_allclose(found.covariance, wanted, rtol=1e-5)


def test_a_common_factor_of_the_weights_changes_nothing(data):
    x, weights, outcomes = data
    for family in ("linear", "logistic"):
        one, other = (fit(family, outcomes[family], x, each * weights) for each in (1, 1e6))
        np.testing.assert_allclose(one.coefficients, other.coefficients, rtol=1e-8)
        np.testing.assert_allclose(one.covariance, other.covariance, rtol=1e-8)


def test_rows_without_a_weight_count_for_nothing(data):
    x, weights, outcomes = data
    y, none = outcomes["linear"], np.where(np.arange(ROWS) < 100, 0.0, weights)
    whole, part = fit("linear", y, x, none), fit("linear", y[100:], x[100:], weights[100:])
    np.testing.assert_allclose(whole.coefficients, part.coefficients)
    np.testing.assert_allclose(whole.covariance, part.covariance)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_column_without_a_coefficient_is_fitted_all_the_same(data, family):
    """Twice the column, and one that is 0, add nothing: only what is new is fitted."""
    x, _, outcomes = data
    also = np.column_stack([x[:, 2], 2 * x[:, 2], np.zeros(ROWS)])
    y = outcomes[family]
    whole, part = fit(family, y, x), fit(family, y, x[:, :2], None, also)
    kept = [place for place in range(whole.coefficients.size) if place % 3 < 2]
    np.testing.assert_allclose(part.coefficients, whole.coefficients[kept])
    np.testing.assert_allclose(part.covariance, whole.covariance[np.ix_(kept, kept)])
    assert part.residual_df == whole.residual_df


def test_no_solution_is_a_sentence(data):
    x, weights, _ = data
    y = (x[:, 1] > 50).astype(float)
    with pytest.raises(BadInput, match="only 2 rows have a weight"):
        fit("linear", y, x, np.where(np.arange(ROWS) < 2, 1.0, 0.0))
    with pytest.raises(BadInput, match="without error"):
        fit("linear", x @ np.array([1.0, 2, 3]), x, weights)
    with pytest.raises(BadInput, match="collinear"):
        fit("linear", y, x, np.where(x[:, 2] == 1, weights, 0.0))


def test_a_multinomial_s_names_are_those_of_their_numbers():
    """Shares, slopes and errors of every level differ, so that no two numbers can be exchanged."""
    import statsmodels.api as sm

    rng = np.random.default_rng(3)
    ages, sexes = rng.normal(size=6000), (rng.random(6000) < 0.5).astype(float)
    x = pd.DataFrame({"Intercept": 1.0, "age": ages, "sex": sexes})
    slopes = np.array([[0, 0, 0], [0.5, 1, -1], [-0.3, 0.3, 0.7], [0.2, -0.8, 0.1]])
    odds = np.exp(x.to_numpy() @ slopes.T)
    odds /= odds.sum(axis=1, keepdims=True)
    y = (odds.cumsum(axis=1) < rng.random((6000, 1))).sum(axis=1)
    levels = ("poor", "fair", "good", "very good")
    outcome = Outcome("health", "multinomial", levels, "")
    design = Design(tuple(x.columns), outcome, (y.astype(float),), (x.to_numpy(),), ())

    (found,) = fit_sets(design)
    named = dict(zip(coefficient_names(design), found.coefficients, strict=True))
    errors = dict(zip(named, np.sqrt(np.diag(found.covariance)), strict=True))
    theirs = sm.MNLogit(y, x).fit(disp=0)

    assert len(named) == 9
    for column, level in enumerate(levels[1:]):
        for term in x.columns:
            name, error = f"{level}: {term}", theirs.bse.loc[term, column]
            # The prior moves an estimate by a small part of its error.
            assert abs(named[name] - theirs.params.loc[term, column]) < 0.05 * error
            assert errors[name] == pytest.approx(error, rel=0.01)


def test_sets_of_different_length_are_told_where_it_matters(data):
    x, _, outcomes = data
    y = outcomes["linear"]
    fits = [fit("linear", y[:rows], x[:rows]) for rows in (300, 320, 400)]
    assert unequal_sizes_warning(fits[:2]) == ""
    assert "between 300 and 400 complete rows" in unequal_sizes_warning(fits)
