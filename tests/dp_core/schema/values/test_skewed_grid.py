"""Skewed grids: bins stay, steps are small near 0, and every position has a value in its step."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
import yaml

from dp_core.confidential.encoding import Encoder
from dp_core.errors import BadInput
from dp_core.schema.grid import MOST_POSITIONS, with_values
from dp_core.schema.reading.schema_file import parse_schema
from dp_core.schema.values.skewed_grid import FINE, stored_values, with_skewed_values

COLUMNS = {
    "turnover": "{type: integer, min: 0, max: 1000000000, edges: [0, 9999, 77777777, 1000000001]}",
    "profit": "{type: integer, min: -5000000, max: 90000000, bins: 19}",
    "debt": "{type: integer, min: -70000, max: -300, bins: 4}",
    "year": "{type: integer, min: 1900, max: 2020, bins: 4}",
    "price": "{type: number, min: 0, max: 200000, bins: 4, decimals: 2}",
    "share": "{type: number, min: -1, max: 3, edges: [-1, 0.3, 3]}",
    "few": "{type: integer, min: 0, max: 1}",
}


def read(columns):
    return parse_schema(yaml.safe_load("version: 1\ntitle: t\ncolumns:\n" + columns))


def column_of(kind):
    schema = read(f"  x: {COLUMNS[kind]}\n  y: {{type: category, levels: [a]}}\n")
    return schema, with_skewed_values(schema, ["x"]).column("x")


@pytest.mark.parametrize("kind", COLUMNS)
def test_bins_are_the_same_and_their_edges_are_on_the_grid(kind):
    schema, column = column_of(kind)
    assert column.edges == schema.column("x").edges
    assert {*column.edges} <= {*column.stored.edges}
    assert column.stored.bins <= MOST_POSITIONS
    assert with_skewed_values(schema, ["x"]).domain == schema.domain


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_step_is_small_relative_to_its_distance_from_0(kind):
    _, column = column_of(kind)
    edges = column.stored.edges
    origin = min(max(edges[0], Fraction(0)), edges[-1])
    smallest = min(high - low for low, high in pairwise(edges))
    for low, high in pairwise(edges):
        distance = max(abs(low - origin), abs(high - origin))
        # An edge may cut off a smaller piece.
        assert high - low <= max(2 * distance / FINE, edges[-1] - edges[-2], 2 * smallest) or (
            high - low <= 2 * distance / FINE
        )


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_position_stands_for_the_middle_of_its_step(kind):
    _, column = column_of(kind)
    edges, values = column.stored.edges, stored_values(column)
    numbers = values.numbers().tolist()
    assert values.positions == column.stored.bins
    below = {"price": Fraction(1, 100), "share": 0}.get(kind, 1)
    for place in range(0, values.positions, max(1, values.positions // 500)):
        middle = (edges[place] + edges[place + 1] - below) / 2
        assert values.unit * numbers[place] == middle
    assert len(values.runs) < 150


def test_whole_numbers_near_0_are_exact():
    _, column = column_of("turnover")
    values = stored_values(column)
    numbers = np.array([0, 1, 2, 1000, FINE - 1])
    codes = Encoder(column.stored).encode(pa.array(numbers)).codes
    assert (float(values.unit) * values.numbers()[codes]).tolist() == numbers.tolist()


def test_large_numbers_are_rounded_by_less_than_a_thousandth():
    _, column = column_of("turnover")
    values = stored_values(column)
    numbers = np.random.default_rng(2).integers(0, 10**9, 500)
    codes = Encoder(column.stored).encode(pa.array(numbers)).codes
    found = float(values.unit) * values.numbers()[codes]
    assert (np.abs(found - numbers) <= numbers / 1000).all()
    # The rounding errors have no direction.
    assert abs((found - numbers).mean()) < 5 * np.abs(found - numbers).std() / np.sqrt(500)


def test_a_column_of_a_regression_keeps_its_grid_of_equal_steps():
    schema, _ = column_of("year")
    equal = with_values(schema, ["x"])
    both = with_skewed_values(equal, ["x"])
    assert both.column("x").grid == equal.column("x").grid
    steps = {high - low for low, high in pairwise(stored_edges(both))}
    assert len(steps) == 1


def stored_edges(schema):
    return schema.column("x").stored.edges


def test_a_range_of_too_many_units_is_refused():
    schema = read("  x: {type: integer, min: 0, max: 99999999999, bins: 3}\n")
    with pytest.raises(BadInput, match="more than 34,359,738,368 units of 1"):
        with_skewed_values(schema, ["x"])


def test_a_range_that_begins_beside_its_steps_has_values_near_its_steps():
    column = read(
        "  x: {type: number, min: 1, max: 1000000, bins: 5}\n  y: {type: category, levels: [a]}\n"
    )
    column = with_skewed_values(column, ["x"]).column("x")
    values = stored_values(column)
    numbers = values.numbers().tolist()
    assert abs(numbers[-1]) < 2**40
    edges = column.stored.edges
    for position in range(0, values.positions, 501):
        middle = (edges[position] + edges[position + 1]) / 2
        assert abs(numbers[position] * values.unit - middle) < Fraction(1, 1000)
