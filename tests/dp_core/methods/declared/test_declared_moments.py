"""What noisy second moments and model records together tell, and how far it errs."""

from __future__ import annotations

import numpy as np
import pytest

from dp_core.client.released import Totals
from dp_core.inference.formulas.declared_analysis import declared_analysis
from dp_core.kernel.questions.regressions.shortened import LONGEST, UNIT, SecondMoments
from dp_core.methods.declared.declared_answers import DeclaredFit
from dp_core.methods.declared.declared_moments import Moments, estimated_moments, features_of
from dp_core.methods.declared.declared_regression import DeclaredRegression
from dp_core.methods.declared.whitening import whitening, whole
from dp_core.schema.grid import with_values
from dp_core.schema.reading.schema_file import parse_schema

ROWS = 20_000
COLUMNS = {name: {"type": "integer", "min": 0, "max": 80, "bins": 9} for name in ("a", "b", "y")}


def regression():
    schema = parse_schema({"version": 1, "title": "t", "columns": COLUMNS})
    analysis = declared_analysis("y ~ a + b", schema)
    return DeclaredRegression.of(analysis, with_values(schema, COLUMNS))


def records(rng, correlation):
    a, b, y = rng.normal(size=(3, ROWS))
    b = correlation * a + (1 - correlation**2) ** 0.5 * b
    numbers = 40 + 10 * np.column_stack([a, b, 0.5 * a - 0.3 * b + y])
    return np.clip(np.rint(numbers), 0, 80).astype(np.int64)


def answer(found, model, file, error, rng):
    """Return noisy moments of a file; the noise of a mean has this standard deviation."""
    z = features_of(found, model)
    transform = whole(whitening(z.T @ z / len(z), ROWS))
    asked = SecondMoments(features=found.together, transform=transform, length_limit=LONGEST)
    scale = error * UNIT**2 * ROWS
    values = asked.vectors(file).sum(axis=0) + np.rint(rng.normal(0, scale, asked.length))
    paid = {"noise": "gaussian", "stage": "analyses", "replicate": 0, "grant": 1}
    return Totals(of=asked, values=values, scale=scale, **paid)


@pytest.mark.parametrize("correlation", [0.0, 0.3, 0.9])
@pytest.mark.parametrize("error", [0.003, 0.1])
def test_errors_are_about_as_large_as_they_are_said_to_be(correlation, error):
    """The model records show no correlation, as if no table contained the pair."""
    found, rng = regression(), np.random.default_rng(5)
    model, file = records(rng, 0.0), records(rng, correlation)
    z = features_of(found, file)
    away = []
    for _ in range(40):
        moments = estimated_moments(found, answer(found, model, file, error, rng), model, ROWS)
        true = moments.transform.T @ (z.T @ z / len(z)) @ moments.transform
        away.append((moments.scaled - true) / moments.errors)
    assert 0.5 < np.sqrt(np.mean(np.square(away))) < 1.5


def test_an_entry_that_the_model_records_miss_is_as_measured():
    found, rng = regression(), np.random.default_rng(5)
    model, file = records(rng, 0.0), records(rng, 0.9)
    moments = estimated_moments(found, answer(found, model, file, 0.05, rng), model, ROWS)
    means = moments.all[0]
    covariance = moments.all - np.outer(means, means)
    assert covariance[1, 2] / np.sqrt(covariance[1, 1] * covariance[2, 2]) > 0.75


def test_draws_spread_as_the_errors_say():
    moments = Moments(np.eye(4), np.full((4, 4), 0.05), 2 * np.eye(4), 3)
    assert moments.drawn_x.shape == (200, 3, 3)
    np.testing.assert_allclose(moments.drawn_x.mean(axis=0), np.eye(3) / 4, atol=0.005)
    np.testing.assert_allclose(moments.drawn_x.std(axis=0), 0.05 / 4, rtol=0.2)
    np.testing.assert_allclose(moments.drawn_x, moments.drawn_x.transpose(0, 2, 1), atol=1e-12)


def test_two_estimates_are_weighted_by_the_precision_of_their_noise():
    rng = np.random.default_rng(2)
    roots = [rng.normal(size=(4, 4)) for _ in range(2)]
    earlier, later = (
        DeclaredFit(rng.normal(size=(2, 2)), root @ root.T, np.eye(4)) for root in roots
    )
    both = later.with_earlier(earlier)
    one, other = np.linalg.inv(earlier.noise), np.linalg.inv(later.noise)
    noise = np.linalg.inv(one + other)
    expected = noise @ (one @ earlier.coefficients.ravel() + other @ later.coefficients.ravel())
    np.testing.assert_allclose(both.coefficients.ravel(), expected)
    np.testing.assert_allclose(both.noise, noise)
    np.testing.assert_allclose(both.covariance, noise + np.eye(4))
