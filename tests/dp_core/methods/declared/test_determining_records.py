"""Model records of a declared regression, and its answer from sets that lack a level."""

from __future__ import annotations

import numpy as np
import pytest

from dp_core.client.released import Totals
from dp_core.inference.formulas.declared_analysis import declared_analysis
from dp_core.kernel.questions.regressions.shortened import LONGEST, Scores, SecondMoments
from dp_core.methods.declared.declared_answers import declared_fits, determining_records
from dp_core.methods.declared.declared_moments import Moments, features_of
from dp_core.methods.declared.declared_regression import DeclaredRegression
from dp_core.methods.declared.whitening import whole
from dp_core.schema.grid import with_values
from dp_core.schema.reading.schema_file import parse_schema

ROWS = 2000
PAID = {"noise": "gaussian", "scale": 1e6, "stage": "analyses", "replicate": 0, "grant": 1}


def regression_of(formula):
    columns = {
        "x": {"type": "integer", "min": "0", "max": "20"},
        "group": {"type": "category", "levels": ["a", "b", "c"]},
        "y": {"type": "integer", "min": "0", "max": "100", "bins": "10"},
        "works": {"type": "category", "levels": ["no", "yes"]},
    }
    schema = parse_schema({"version": "1", "title": "t", "columns": columns})
    analysis = declared_analysis(formula, schema)
    return DeclaredRegression.of(analysis, with_values(schema, analysis.columns))


def codes_of(regression, rng):
    """Return records whose outcome is higher for level c, which a tenth of them have."""
    x, group = rng.integers(0, 21, ROWS), rng.choice(3, ROWS, p=[0.5, 0.4, 0.1])
    if regression.linear:
        y = np.clip(20 + x + 30 * (group == 2) + rng.normal(0, 5, ROWS), 0, 100).astype(int)
    else:
        y = rng.random(ROWS) < 1 / (1 + np.exp(1 - 2 * (group == 2)))
    return np.column_stack([x, group, y]).astype(np.int64)


def moments_of(regression, codes):
    z = features_of(regression, codes)
    moments = z.T @ z / len(z)
    return Moments(moments, 0 * moments, np.eye(len(moments)), regression.features.width)


def test_records_that_determine_every_coefficient_are_left_as_they_are():
    regression = regression_of("y ~ x + group")
    codes = codes_of(regression, np.random.default_rng(1))
    assert determining_records(regression, codes, moments_of(regression, codes)) is codes


@pytest.mark.parametrize("lacking", ["a level", "a number", "most records", "independence"])
def test_records_are_added_until_every_coefficient_is_determined(lacking):
    regression = regression_of("y ~ x + group")
    codes = codes_of(regression, np.random.default_rng(1))
    moments = moments_of(regression, codes)
    if lacking == "a level":
        codes = codes[codes[:, 1] != 2]
    elif lacking == "a number":
        codes[:, 0] = 7
    elif lacking == "most records":
        codes = codes[:1]
    else:
        codes[:, 0] = 5 * codes[:, 1]
    before = np.linalg.matrix_rank(regression.x(codes))

    found = determining_records(regression, codes, moments)

    assert before < np.linalg.matrix_rank(regression.x(found)) == 4
    np.testing.assert_array_equal(found[: len(codes)], codes)
    assert {*found[:, 2]} <= {*codes[:, 2]}
    np.testing.assert_array_equal(determining_records(regression, codes, moments), found)
    if lacking == "a level":
        assert (found[:, 1] == 2).mean() == pytest.approx(0.1, abs=0.03)


@pytest.mark.parametrize("formula", ["y ~ x + group", "works ~ x + group"])
def test_sums_determine_the_coefficient_of_a_level_that_no_set_has(formula):
    regression = regression_of(formula)
    codes = codes_of(regression, np.random.default_rng(2))
    p, q = regression.features.width, regression.residuals
    every = np.ones(len(codes), dtype=np.int64)
    of_moments = SecondMoments(
        features=regression.together,
        transform=whole(np.eye(regression.together.width)),
        length_limit=LONGEST,
    )
    of_scores = Scores(
        outcome=regression.outcome,
        features=regression.features,
        transform=whole(np.eye(p)),
        at=whole(np.zeros((q, p))),
        length_limit=LONGEST,
    )
    moments, scores = (
        Totals(values=of.total(codes, every), of=of, **PAID) for of in (of_moments, of_scores)
    )
    without = [codes[codes[:, 1] != 2][part::2] for part in (0, 1)]

    own, *_ = declared_fits(regression, moments, [scores], [codes, codes], records=ROWS)
    found, *_ = declared_fits(regression, moments, [scores], without, records=ROWS)

    errors = np.sqrt(np.diag(own.covariance))
    place = 3  # of level c
    assert own.coefficients[0, place] > 10 * errors[place]
    np.testing.assert_allclose(found.coefficients, own.coefficients, atol=3 * errors[place])
    np.testing.assert_allclose(np.sqrt(np.diag(found.covariance)), errors, rtol=0.7)
