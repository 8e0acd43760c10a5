"""Features of declared regressions: columns, functions of numbers, and interactions."""

from __future__ import annotations

import numpy as np
import pytest

from dp_core.inference.formulas.declared_analysis import declared_analysis
from dp_core.kernel.questions.regressions.features import ONE
from dp_core.methods.declared.declared_regression import (
    MOST_TELLING,
    DeclaredRegression,
    knots_of,
    own_places,
    telling_numbers,
)
from dp_core.schema.grid import with_values
from dp_core.schema.reading.schema_file import parse_schema

COLUMNS = {
    "age": {"type": "integer", "min": 18, "max": 90, "edges": [18, 40, 65, 91]},
    "pay": {"type": "number", "min": 10, "max": 10_000, "edges": [10, 100, 1000, 10_000]},
    "born": {"type": "date", "min": "1990-01-01", "max": "1999-12-31", "bins": "year"},
    "flag": {"type": "integer", "min": 0, "max": 1},
    "sex": {"type": "category", "levels": ["f", "m"]},
    "place": {"type": "category", "levels": ["a", "b", "c"], "missing": "level"},
}
SCHEMA = parse_schema({"version": 1, "title": "People", "unit": "row", "columns": COLUMNS})
STORED = with_values(SCHEMA, COLUMNS)


def regression(formula):
    return DeclaredRegression.of(declared_analysis(formula, SCHEMA), STORED)


def drawn(found, rows=200):
    """Return records without missing values, and their values by name."""
    rng = np.random.default_rng(1)
    sizes = [each.codes for each in found.together.claimed_codes()]
    codes = np.column_stack([rng.integers(0, size, rows) for size in sizes])
    values = {}
    for name, own in zip(found.analysis.columns, codes.T, strict=True):
        column = STORED.column(name)
        edges = np.array([float(edge - column.scale.zero) for edge in column.stored.edges])
        middle = (edges[own] + edges[own + 1]) / 2 if not column.levels else own
        # The position of a whole number stands for that number.
        values[name] = middle - 0.5 * (not column.levels and not column.type.continuous)
    return codes, values


def scaled(values, low, high):
    return (2 * values - low - high) / (high - low)


def test_a_function_is_scaled_by_its_values_on_the_grid():
    found = regression("pay ~ log(age) + I(age**2) + I(age > 65)")
    codes, values = drawn(found)
    age = values["age"]
    expected = [
        scaled(np.log(age), np.log(18), np.log(90)),
        scaled(age**2, 18**2, 90**2),
        scaled(age > 65, 0, 1),
    ]
    np.testing.assert_allclose(found.x(codes).T[1:], expected, atol=1.5 / ONE)
    assert found.analysis.columns == ("age", "pay")


def test_an_outcome_may_be_a_function():
    found = regression("log(pay) ~ 1")
    codes, values = drawn(found)
    (low, high) = found.ends[found.analysis.outcome]
    own = np.log(values["pay"])
    np.testing.assert_allclose(found.y(codes), scaled(own, low, high), atol=1.5 / ONE)
    # The grid's first value is half a step above the least.
    assert np.log(10) < low < np.log(12)
    assert high == pytest.approx(np.log(10_000), rel=1e-3)


def test_dates_count_days_since_1970():
    found = regression("pay ~ I((born - 7305) / 365.25)")
    codes, values = drawn(found)
    own = (values["born"] - 7305) / 365.25
    assert own.min() >= 0
    assert own.max() < 10
    # A linear function has the feature of the date itself.
    np.testing.assert_array_equal(found.x(codes), regression("pay ~ born").x(codes))


def test_an_interaction_has_the_products_of_its_features():
    found = regression("pay ~ sex * place * log(age)")
    codes, _ = drawn(found)
    x = found.x(codes)
    sex, place, age = codes[:, 0] == 1, codes[:, 1][:, None] == [1, 2], x[:, 4]
    parts = {
        "sex": sex[:, None],
        "place": place,
        "log(age)": age[:, None],
        "sex:place": sex[:, None] * place,
        "sex:log(age)": (sex * age)[:, None],
        "place:log(age)": place * age[:, None],
        "sex:place:log(age)": sex[:, None] * place * age[:, None],
    }
    terms = [":".join(each.code for each in term) for term in found.analysis.terms]
    assert sorted(terms) == sorted(parts)
    expected = np.hstack([np.ones((len(x), 1)), *(parts[term] for term in terms)])
    np.testing.assert_allclose(x, expected, atol=1.5 / ONE)


def test_a_column_in_several_terms_is_one_column_of_the_records():
    found = regression("flag ~ age + I(age**2) + sex + sex:age")
    assert found.features.names == ("age", "sex")
    assert found.complete(np.array([[72, 1, 1], [73, 1, 1], [72, 2, 1]])).tolist() == [1, 0, 0]
    assert not found.linear
    assert regression("log1p(flag) ~ age").linear


def test_the_features_of_columns_are_found_beside_functions_of_them():
    found = regression("pay ~ I(age**2) + age + sex + sex:age")
    assert own_places(found.features, STORED) == {"age": range(2, 3), "sex": range(3, 4)}


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x,
        np.log,
        np.square,
        lambda x: np.sin(x / 10),
        lambda x: 1.0 * (x > 40),
        lambda x: abs(x - 50),
    ],
)
def test_lines_between_the_knots_are_within_half_a_unit(function):
    values = function(np.linspace(1, 90, 5000))
    units = scaled(values, values.min(), values.max()) * ONE
    knots = knots_of(units)
    assert (knots[0], knots[-1]) == (0, 4999)
    assert np.abs(np.interp(np.arange(5000), knots, units[knots]) - units).max() <= 0.5
    assert len(knots) < 500


def test_a_line_has_two_knots():
    assert knots_of(np.linspace(-ONE, ONE, 5000)) == [0, 4999]


def test_the_numbers_that_tell_functions_apart_are_those_where_they_turn():
    found = regression("pay ~ log(age) + I(age == 40) + flag")
    numbers = telling_numbers(found, STORED)
    assert {18, 39, 40, 41, 90} <= {*numbers["age"]}
    assert numbers["flag"].tolist() == [0, 1]


def test_a_step_is_told_from_a_function_with_many_turns():
    found = regression("age ~ log(pay) + I((pay > 1234) & (pay < 1240))")
    numbers = telling_numbers(found, STORED)["pay"]
    assert len(numbers) <= 2 * MOST_TELLING
    assert ((numbers > 1234) & (numbers < 1240)).any()
