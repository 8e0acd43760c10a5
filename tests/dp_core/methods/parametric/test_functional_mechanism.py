from __future__ import annotations

import numpy as np
import pytest

from dp_core.kernel.counting.dataset import Dataset
from dp_core.methods.parametric.regressions import column_by_column, functional_mechanism
from dp_core.methods.parametric.sequential_regression import SequentialRegression
from dp_core.schema.variables import Variable, Variables
from tests.memory_measurement import EXACT, model_in_memory

X = Variable(name="x", size=1001, positions=1001, low=-1, high=1)
Y = Variable(name="y", size=1001, positions=1001, low=-1, high=1)
Z = Variable(name="z", size=1002, positions=1001, low=-1, high=1, missing=True)
C = Variable(name="c", size=3)


def chain_of(data, variables, epsilon=EXACT, *, kind="pure", **options):
    method = SequentialRegression(**options)
    return model_in_memory(method, variables, data, epsilon, kind=kind)[0].chain


def skewed(rows=5_000):
    """Return x with a heavy tail, and y by x and its square, which no normal model has."""
    rng = np.random.default_rng(4)
    x = np.clip(rng.exponential(0.3, rows) - 0.9, -1, 1)
    y = np.clip(0.8 * (x + 0.9) ** 2 - 0.5 + 0.1 * rng.normal(size=rows), -1, 1)
    variables = Variables((X, Y))
    codes = np.stack([X.position(x), Y.position(y)]).astype(np.uint16)
    return variables, Dataset(variables.domain, codes)


def test_a_linear_regression_is_that_of_the_file_whatever_the_model_of_the_predictors_is(
    monkeypatch,
):
    variables, data = skewed()
    x, y = (X.value(data.column(name).astype(float)) for name in ("x", "y"))
    slope, intercept = np.polyfit(x, y, 1)
    found = chain_of(data, variables, minimiser="functional").fits[1, "number"]
    assert found.coefficients == pytest.approx([intercept, slope], abs=2e-3)
    spread = np.mean((y - intercept - slope * x) ** 2)
    assert found.variance == pytest.approx(spread, rel=0.01)
    # With predictors from the model it is not.
    monkeypatch.setattr(functional_mechanism, "REACH", 1e3)
    modelled = chain_of(data, variables, minimiser="gradient").fits[1, "number"]
    assert abs(modelled.coefficients[1] - slope) > 0.02


def test_a_number_with_missing_values_is_regressed_over_the_records_that_have_one():
    rng = np.random.default_rng(5)
    c = rng.choice(3, 6_000, p=[0.5, 0.3, 0.2])
    z = np.clip(0.4 * (c == 1) - 0.3 * (c == 2) + 0.2 * rng.normal(size=6_000), -1, 1)
    codes = np.where(rng.random(6_000) < 0.3, Z.positions, Z.position(z))
    variables = Variables((C, Z))
    data = Dataset(variables.domain, np.stack([c, codes]).astype(np.uint16))
    found = chain_of(data, variables, minimiser="functional").fits[1, "number"]
    there = codes < Z.positions
    by_level = [z[there & (c == level)].mean() for level in range(3)]
    fitted = found.coefficients[0] + np.array([0, *found.coefficients[1:]])
    assert fitted == pytest.approx(by_level, abs=0.01)


def test_classes_share_the_curvature_of_a_multinomial_loss(monkeypatch):
    """At equal proportions the polynomial's minimiser has 3 (T_k + sum T) for 3 classes."""
    codes = np.array([[0, 0, 0, 1, 1, 1, 1, 1, 1], [0, 1, 2, 0, 0, 1, 1, 2, 2]], dtype=np.uint16)
    codes = np.repeat(codes, 300, axis=1)
    variables = Variables((Variable(name="a", size=2), C))
    codes[1, :60] = 1
    data = Dataset(variables.domain, codes)
    monkeypatch.setattr(column_by_column, "CLASS_PRIOR", 1e4)
    found = chain_of(data, variables, minimiser="functional-zero")
    a, c = data.column("a"), data.column("c")
    away = a - a.mean()
    linear = np.array([np.sum(away * (c == level)) for level in (1, 2)]) / np.sum(away**2)
    slopes = found.fits[1, "levels"].coefficients[:, 1]
    assert slopes == pytest.approx(3 * (linear + linear.sum()), rel=1e-3)


def test_the_questions_are_those_of_gradients():
    variables = Variables((C, X, Z, Y))
    functional, gradient = (
        SequentialRegression(minimiser=each).asks(variables) for each in ("functional", "gradient")
    )
    assert functional == gradient


def test_directions_without_a_positive_eigenvalue_are_left_out():
    """Section 6: 4 standard deviations are added, then what is not positive is trimmed."""
    noisy = np.diag([50.0, -3.0, -10.0])
    linear = np.array([[54.0, 1.0, 5.0]])
    found, _ = functional_mechanism._minimum(noisy, linear, np.eye(1), 0.0, 1.0, 1e9)
    assert found == pytest.approx(np.array([[54 / 54, 1 / 1, 0.0]]))
