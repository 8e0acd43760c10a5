"""The expected width of a declared analysis's intervals."""

from __future__ import annotations

import math

import pytest

from dp_core.plan.forecast.error_forecast import forecast_error
from dp_core.plan.reading.spec_file import memory_plan
from dp_core.schema.reading.schema_file import parse_schema

COLUMNS = {
    "income": {"type": "number", "min": "0", "max": "1000", "bins": "10"},
    "age": {"type": "integer", "min": "18", "max": "80", "bins": "9"},
    "region": {"type": "category", "levels": list("abcdefgh")},
    "area": {"type": "category", "levels": list("abcd")},
    "works": {"type": "category", "levels": ["no", "yes"]},
}


def width(formula, epsilon="0.5", rows="8000"):
    schema = parse_schema(
        {"version": "1", "title": "t", "rows_about": rows, "columns": COLUMNS}
        if rows
        else {"version": "1", "title": "t", "columns": COLUMNS}
    )
    keys = {
        "privacy": {"epsilon": epsilon, "delta": "1e-9"},
        "method": "auto",
        "measure": {"noise": "gaussian"},
        "analyses": {"formulas": [formula], "share": "0.8"},
        "synthesize": {"sets": "2", "mode": "posterior"},
    }
    plan = memory_plan(schema, keys)
    (found,) = forecast_error(plan).widths
    return found


def excess(*given):
    """Return the variance that noise adds, relative to that of sampling."""
    return width(*given) ** 2 - 1


def test_a_forecast_needs_the_number_of_records():
    assert width("income ~ age", rows="") is None


@pytest.mark.parametrize("formula", ["income ~ age", "works ~ age", "area ~ age"])
def test_the_forecast_tends_to_the_files_own_width(formula):
    assert width(formula, "100", "1000000") == pytest.approx(1, abs=0.01)
    assert width(formula, "0.1") > width(formula, "0.5") > width(formula, "1") > 1
    assert width(formula, "0.5", "3000") > width(formula, "0.5", "8000")


@pytest.mark.parametrize("formula", ["income ~ age", "works ~ age", "area ~ age"])
def test_noise_of_the_second_moments_widens_intervals_more_than_in_proportion(formula):
    """At a small epsilon the answer is far from the last public coefficients."""
    noise = excess(formula, "0.1", "10000000") / excess(formula, "0.5", "10000000")
    assert excess(formula, "0.1", "2000") > 1.5 * noise * excess(formula, "0.5", "2000")


def test_each_level_of_the_outcome_widens_the_forecast():
    assert math.sqrt(excess("area ~ age")) > 1.5 * math.sqrt(excess("works ~ age"))


def test_each_coefficient_widens_the_forecast():
    assert excess("income ~ age + region", "1") > 4 * excess("income ~ age", "1")
