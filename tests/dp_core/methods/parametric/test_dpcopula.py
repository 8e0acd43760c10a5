"""DPCopula: noisy one-way tables joined by a Gaussian copula."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from dp_core.errors import BadInput
from dp_core.kernel.counting.dataset import Dataset
from dp_core.methods.method_inputs import FitInputs
from dp_core.methods.parametric import dpcopula
from dp_core.methods.parametric.dpcopula import (
    MOST_COLUMNS,
    DPCopula,
    correlation_of,
    positive_definite,
)
from dp_core.schema.variables import Variable, Variables
from tests.memory_measurement import EXACT, NONE, measure_in_memory, model_in_memory

SIZE = 200
NUMBERS = Variables(
    tuple(
        Variable(name=name, size=SIZE, positions=SIZE, high=SIZE, bins=tuple(range(SIZE + 1)))
        for name in "abc"
    )
)
TRUE = np.array([[1.0, 0.7, -0.4], [0.7, 1.0, 0.0], [-0.4, 0.0, 1.0]])


def file_of(rows=100_000, seed=4):
    """Return records with a Gaussian copula; the first column is log-normal."""
    drawn = np.random.default_rng(seed).multivariate_normal(np.zeros(3), TRUE, rows)
    drawn[:, 0] = np.exp(drawn[:, 0]) - 3
    codes = np.clip((drawn + 4) * 25, 0, SIZE - 1).astype(np.uint16)
    return Dataset(NUMBERS.domain, np.ascontiguousarray(codes.T))


@pytest.mark.parametrize("groups", [2, 5])
@pytest.mark.parametrize("correlation", [-0.9, -0.3, 0.0, 0.5, 0.8])
def test_the_correlation_of_an_exact_table_of_groups_is_that_of_the_normal(groups, correlation):
    limits = np.array([-8.0, *np.linspace(-0.8, 0.9, groups - 1), 8.0])
    normal = multivariate_normal(cov=[[1.0, correlation], [correlation, 1.0]])
    below = np.array([[normal.cdf([x, y]) for y in limits] for x in limits])
    table = np.diff(np.diff(below, axis=0), axis=1)
    found = correlation_of(table, table.sum(axis=1), table.sum(axis=0))
    assert found == pytest.approx(correlation, abs=2e-3)


def test_a_correlation_that_noise_explains_is_0_and_a_large_one_stays():
    half = np.array([0.5, 0.5])
    table = np.array([[0.3, 0.2], [0.2, 0.3]])  # mean product of ranks .05
    assert correlation_of(table, half, half, variance=0.06**2 * 4) == 0
    small = correlation_of(table, half, half, variance=1e-6)
    assert small == pytest.approx(correlation_of(table, half, half), abs=1e-3)


def test_a_column_in_one_group_has_no_correlation():
    table = np.array([[0.4, 0.6], [0.0, 0.0]])
    assert correlation_of(table, np.array([1.0, 0.0]), np.array([0.4, 0.6])) == 0


def test_a_matrix_is_made_positive_definite_with_diagonal_1_and_a_good_one_stays():
    np.testing.assert_array_equal(positive_definite(TRUE), TRUE)
    bad = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])
    found = positive_definite(bad)
    assert np.linalg.eigvalsh(found)[0] > 0
    np.testing.assert_allclose(np.diag(found), 1)
    assert (np.sign(found) == np.sign(bad)).all()


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_without_noise_margins_and_correlations_are_those_of_the_file(neighbours):
    data = file_of()
    model, _ = model_in_memory(DPCopula(), NUMBERS, data, neighbours=neighbours)
    assert model.rows == data.rows
    for margin, codes in zip(model.margins, data.codes, strict=True):
        np.testing.assert_allclose(margin, np.bincount(codes, minlength=SIZE), atol=1e-6)
    # Three standard errors of a tetrachoric correlation of 100,000 records.
    np.testing.assert_allclose(model.correlation, TRUE, atol=0.016)
    drawn = model.sample(100_000, rng=np.random.default_rng(2))
    ranks = [np.argsort(np.argsort(each.codes, axis=1), axis=1) for each in (data, drawn)]
    np.testing.assert_allclose(np.corrcoef(ranks[1]), np.corrcoef(ranks[0]), atol=0.025)


def test_columns_of_few_levels_keep_their_pairs():
    variables = Variables((Variable(name="a", size=3), Variable(name="b", size=2)))
    rng = np.random.default_rng(3)
    hidden = rng.multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], 50_000)
    codes = np.stack([np.searchsorted([-0.5, 0.8], hidden[:, 0]), hidden[:, 1] > 1.2])
    data = Dataset(variables.domain, codes.astype(np.uint16))
    model, _ = model_in_memory(DPCopula(), variables, data)
    drawn = model.sample(50_000, rng=np.random.default_rng(5))
    tables = [np.zeros((3, 2)), np.zeros((3, 2))]
    for table, each in zip(tables, (data, drawn), strict=True):
        np.add.at(table, tuple(each.codes), 1 / each.rows)
    assert np.abs(tables[0] - tables[1]).max() < 0.012


@pytest.mark.parametrize("groups", [2, 3])
def test_the_groups_follow_the_noisy_margins(groups, monkeypatch):
    monkeypatch.setattr(dpcopula, "GROUPS", groups)
    data = file_of(20_000)
    _, session = model_in_memory(DPCopula(), NUMBERS, data)
    (pair,) = (grant.step for grant in session.charges if grant.step.name == "pair-1-2")
    for codes, edges in zip(data.codes, pair.asks["edges"], strict=False):
        # The quantiles, to the width of a bin.
        wanted = np.quantile(codes, np.arange(1, groups) / groups)
        np.testing.assert_allclose(edges[1:-1], wanted, atol=1.5)


def test_margins_and_pairs_have_half_of_the_budget_each():
    _, session = model_in_memory(DPCopula(), NUMBERS, file_of(100), 1)
    scales = {grant.step.name: grant.step.event.scale for grant in session.charges}
    assert scales["margin-1"] == scales["pair-1-2"] == 6


def test_the_fit_makes_a_correlation_that_its_noise_explains_0():
    released, _ = measure_in_memory(DPCopula(), NUMBERS, file_of(2000), EXACT)
    loud = [
        replace(item, scale=10_000.0) if len(item.of.clique) == 2 else item for item in released
    ]
    found = [
        DPCopula().model_of(NUMBERS, FitInputs(NUMBERS.domain, each, None, NONE)).correlation
        for each in (released, loud)
    ]
    np.testing.assert_allclose(found[0], TRUE, atol=0.2)  # 5 standard errors of 2,000 records
    np.testing.assert_allclose(found[1], np.eye(3), atol=1e-12)


def test_too_many_columns_are_refused():
    many = Variables(tuple(Variable(name=f"x{n}", size=2) for n in range(MOST_COLUMNS + 1)))
    with pytest.raises(BadInput, match="at most 60 columns"):
        DPCopula().check(many, "add-remove")
    DPCopula().check(Variables(many.all[:-1]), "add-remove")
