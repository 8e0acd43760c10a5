from __future__ import annotations

import numpy as np
import pytest

from dp_core.errors import BadInput
from dp_core.kernel.counting.dataset import Dataset
from dp_core.methods.parametric.slomag import Slomag
from dp_core.schema.variables import Variable, Variables
from tests.dp_core.methods.parametric.test_sequential_regression import B, X
from tests.memory_measurement import model_in_memory

Z = Variable(name="z", size=1024, positions=1024, low=-4, high=4)
W = Variable(name="w", size=3)
VARIABLES = Variables((W, X, B, Z))


def data_of(rows, seed=3):
    """Return records of the model of Bowen & Liu (2020), section 4.3.2, without W2."""
    rng = np.random.default_rng(seed)
    x, z = rng.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], rows).T
    b = rng.random(rows) < 1 / (1 + np.exp(1 - 0.5 * x + z))
    odds = np.exp(np.column_stack([0 * x, -2.5 * x + z + 0.5 * b, 0.1 - x - 0.5 * z]))
    w = (rng.random((rows, 1)) > np.cumsum(odds / odds.sum(1, keepdims=True), 1)[:, :2]).sum(1)
    codes = [w, X.position(x), b, Z.position(z)]
    return Dataset(VARIABLES.domain, np.stack(codes).astype(np.uint16))


def numbers(data):
    return np.stack([v.value(data.column(v.name).astype(float)) for v in (X, Z)])


def logistic(data):
    """Return the coefficients of b on both numbers."""
    x = np.vstack([np.ones(data.rows), numbers(data)]).T
    y, beta = data.column("b").astype(float), np.zeros(3)
    for _ in range(20):
        p = 1 / (1 + np.exp(-x @ beta))
        beta += np.linalg.solve((x * (p * (1 - p))[:, None]).T @ x, x.T @ (y - p))
    return beta


def test_without_noise_sets_have_the_paper_s_coefficients():
    """Bounds: 5 standard errors of a set of 20,000 by coefficients drawn from as many."""
    model, _ = model_in_memory(Slomag(), VARIABLES, data_of(20_000))
    drawn = model.sample(20_000, rng=np.random.default_rng(1))
    assert np.cov(numbers(drawn)) == pytest.approx(np.array([[1, 0.5], [0.5, 1]]), abs=0.09)
    assert logistic(drawn) == pytest.approx([-1, 0.5, -1], abs=0.22)
    shares = [np.bincount(each.column("w"), minlength=3) for each in (drawn, data_of(20_000, 4))]
    assert shares[0] / 20_000 == pytest.approx(shares[1] / 20_000, abs=0.05)


def test_numbers_come_first_whatever_the_schema_s_order_is():
    assert [v.name for v in Slomag().arrange(VARIABLES)] == ["x", "z", "w", "b"]
    stated = Slomag(order=("z", "x", "b", "w"))
    assert [v.name for v in stated.arrange(VARIABLES)] == ["z", "x", "b", "w"]
    with pytest.raises(BadInput, match="numbers before levels"):
        Slomag(order=("w", "x", "b", "z")).check(VARIABLES, "add-remove")


def test_the_covariance_is_one_whatever_the_noise_is():
    """At an epsilon of .01 noisy squares are negative half of the time."""
    for _ in range(10):
        model, _ = model_in_memory(Slomag(), VARIABLES, data_of(100), 0.01)
        drawn = model.sample(200, rng=np.random.default_rng(0))
        assert (drawn.codes.max(axis=1) < np.array(VARIABLES.domain.sizes)).all()
