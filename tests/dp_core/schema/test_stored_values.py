"""Columns stored on a fine grid (`with_values`): bins and refused values stay the same."""

from __future__ import annotations

import datetime
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_core.confidential.encoding import Encoder
from dp_core.errors import BadInput
from dp_core.plan.chosen_domain import recoding
from dp_core.schema.decoding import stored_codes
from dp_core.schema.grid import MOST_POSITIONS, stored_variable, with_values
from tests.full import at_full_size
from tests.schema_texts import read

HEAD = 'version: 1\ntitle: t\nmissing_values: ["", "?"]\ncolumns:\n'
COLUMNS = {
    "integer": "x: {type: integer, min: 0, max: 99, edges: [0, 15, 40, 100]}",
    "single integers": "x: {type: integer, min: 3, max: 9}",
    "far integers": "x: {type: integer, min: 100000, max: 399999, bins: 3}",
    "negative integers": "x: {type: integer, min: -500, max: 499, edges: [-500, 0, 500]}",
    "number": "x: {type: number, min: 0, max: 1000, bins: 4, decimals: 2}",
    "thirds": "x: {type: number, min: 0, max: 1, bins: 3}",
    "far number": "x: {type: number, min: 500000, max: 500003, edges: [500000, 500001.5, 500003]}",
    "fine edges": "x: {type: number, min: 0, max: 10, edges: [0, 0.001, 10]}",
    "date": "x: {type: date, min: 2000-01-01, max: 2009-12-31, bins: year}",
    "quarters": "x: {type: date, min: 1950-01-01, max: 2026-12-31, bins: quarter}",
}


def schema_of(text, rest="", missing="reject", out_of_range="reject"):
    own = text.replace("}", f", missing: {missing}, out_of_range: {out_of_range}}}")
    return read(f"{HEAD}  {own}\n{rest}")


def values_of(column, number, rng):
    """Return legal values of a column, with all of its edges among them."""
    low, high = column.edges[0], column.edges[-1]
    draws = [low + (high - low) * Fraction(float(part)) for part in rng.random(number)]
    if column.kind != "number":
        draws = [Fraction(int(each)) for each in draws]
    found = [*draws, *column.edges[:-1]]
    if column.kind == "date":
        return pa.array([datetime.date.fromordinal(int(each)) for each in found])
    kind = pa.int64() if column.kind == "integer" else pa.float64()
    return pa.array(
        [int(each) if column.kind == "integer" else float(each) for each in found], kind
    )


@pytest.mark.parametrize("missing", ["reject", "level"])
@pytest.mark.parametrize("kind", COLUMNS)
def test_the_grid_contains_every_edge_and_its_steps_are_equal(kind, missing):
    schema = schema_of(COLUMNS[kind], missing=missing)
    fine = with_values(schema, ["x"])
    (column,), (stored,) = schema.columns, fine.stored.columns
    assert fine.recoded
    assert fine.domain == schema.domain
    assert {*column.edges} <= {*stored.edges}
    steps = {other - one for one, other in zip(stored.edges, stored.edges[1:], strict=False)}
    assert len(steps) == 1
    assert stored.size <= MOST_POSITIONS + 1
    assert (stored.missing_code is None) == (column.missing_code is None)
    if column.kind != "number":
        assert steps.pop().denominator == 1


@pytest.mark.parametrize("kind", COLUMNS)
def test_stored_codes_become_the_codes_of_the_schema_exactly(kind):
    schema = schema_of(COLUMNS[kind], missing="level")
    fine = with_values(schema, ["x"])
    (column,), (stored,) = schema.columns, fine.stored.columns
    values = values_of(column, 2000, np.random.default_rng(1))
    values = pa.concat_arrays([values, pa.nulls(3, values.type)])
    wanted = Encoder(column).encode(values).codes
    found = recoding(fine).codes("x", Encoder(stored).encode(values).codes)
    np.testing.assert_array_equal(found, wanted)
    assert wanted[-1] == column.missing_code


@given(
    low=st.integers(-1000, 1000),
    widths=st.lists(st.integers(1, 3000), min_size=1, max_size=6),
    scale=st.sampled_from([1, 2, 3, 10, 100, 1000]),
    seed=st.integers(0, 100),
)
@settings(max_examples=50 if at_full_size() else 20)
def test_any_edges_are_met_exactly(low, widths, scale, seed):
    edges = [Fraction(low, scale)]
    for width in widths:
        edges.append(edges[-1] + Fraction(width, scale))
    listed = ", ".join(str(each) for each in edges)
    schema = read(
        f"{HEAD}  x: {{type: number, min: {edges[0]}, max: {edges[-1]}, edges: [{listed}]}}\n"
    )
    fine = with_values(schema, ["x"])
    (column,), (stored,) = schema.columns, fine.stored.columns
    values = values_of(column, 50, np.random.default_rng(seed))
    np.testing.assert_array_equal(
        recoding(fine).codes("x", Encoder(stored).encode(values).codes),
        Encoder(column).encode(values).codes,
    )


@pytest.mark.parametrize("kind", ["integer", "number", "date", "far number"])
@pytest.mark.parametrize("how", ["reject", "clip", "missing"])
def test_the_same_values_are_refused_clipped_or_made_missing(kind, how):
    schema = schema_of(COLUMNS[kind], missing="level", out_of_range=how)
    fine = with_values(schema, ["x"])
    (column,), (stored,) = schema.columns, fine.stored.columns
    span = column.edges[-1] - column.edges[0]
    beyond = [column.edges[0] - span // 2 - 1, column.edges[0], column.edges[-1] + span // 2 + 1]
    if column.kind == "date":
        values = pa.array([datetime.date.fromordinal(int(each)) for each in beyond])
    else:
        values = pa.array([float(each) for each in beyond])
        values = values.cast(pa.int64()) if column.kind == "integer" else values
    before, after = Encoder(column).encode(values), Encoder(stored).encode(values)
    assert before.problems
    assert after.problems == before.problems
    np.testing.assert_array_equal(after.bad, before.bad)
    assert (before.bad is None) == (how != "reject")
    np.testing.assert_array_equal(recoding(fine).codes("x", after.codes), before.codes)


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_value_drawn_for_a_code_is_stored_in_that_code(kind):
    schema = with_values(schema_of(COLUMNS[kind], missing="level"), ["x"])
    (column,) = schema.columns
    codes = np.tile(np.arange(column.size, dtype=np.uint16), 100)
    drawn = stored_codes(column, codes, rng=np.random.default_rng(2))
    np.testing.assert_array_equal(recoding(schema).codes("x", drawn), codes)
    assert len(np.unique(drawn)) > column.size or column.stored.size == column.size


@pytest.mark.parametrize("kind", ["integer", "far integers", "date"])
def test_a_position_stands_for_the_mean_of_its_values(kind):
    schema = with_values(schema_of(COLUMNS[kind]), ["x"])
    (column,) = schema.columns
    variable, stored = stored_variable(column), column.stored
    middle = variable.value(np.arange(stored.bins, dtype=np.float64))
    for place in (0, 1, stored.bins - 1):
        values = range(int(stored.edges[place]), int(stored.edges[place + 1]))
        assert middle[place] == pytest.approx(float(np.mean(values)), rel=1e-12)


def test_other_columns_stay_as_they_are():
    schema = read(
        f"{HEAD}  x: {{type: integer, min: 0, max: 99, bins: 4}}\n"
        "  y: {type: integer, min: 0, max: 99, bins: 4}\n"
        "  z: {type: category, levels: [a, b]}\n"
    )
    fine = with_values(schema, ["x", "z"])
    assert [column.stored is column for column in fine.columns] == [False, True, True]
    assert not with_values(schema, ["z"]).recoded


# -- structural zeros

RULES = (
    "  m: {type: category, levels: [single, married], missing: level}\n"
    "impossible:\n  - {x: %s, m: married}\n"
)


@pytest.mark.parametrize(
    ("kind", "rule"),
    [
        ("integer", '"<15"'),
        ("integer", '">=40"'),
        ("number", '"<250"'),
        ("date", '"<2003-01-01"'),
        ("integer", "missing"),
    ],
)
def test_an_impossible_rule_means_the_same_in_stored_codes(kind, rule):
    schema = schema_of(COLUMNS[kind], RULES % rule, missing="level")
    fine = with_values(schema, ["x"])
    stored = fine.stored
    (coarse,), (own,) = schema.zeros.rules, stored.zeros.rules
    table = recoding(fine)
    codes = np.arange(stored.column("x").size, dtype=np.uint16)
    place = own.columns.index("x")
    broken = np.isin(codes, own.codes[place])
    np.testing.assert_array_equal(
        broken, np.isin(table.codes("x", codes), coarse.codes[coarse.columns.index("x")])
    )
    assert 0 < broken.sum() < len(codes)
    # The rules of the schema itself, for tables and sets, stay in its own codes.
    assert fine.zeros == schema.zeros


def test_edges_that_no_grid_contains_are_refused_with_the_column():
    schema = schema_of("x: {type: number, min: 0, max: 1, edges: [0, 0.123456789, 1]}")
    with pytest.raises(BadInput, match=r"'x'.*65,534.*multiples of 0\.00002,"):
        with_values(schema, ["x"])


@pytest.mark.parametrize("bins", ["bins: 24", "edges: [0, 20000, 500001]"])
def test_whole_numbers_whose_edges_have_no_common_step_are_told_one(bins):
    schema = schema_of(f"x: {{type: integer, min: 0, max: 500000, {bins}}}")
    with pytest.raises(BadInput, match=r"multiples of 10, the last of which is max \+ 1"):
        with_values(schema, ["x"])
    mended = schema_of("x: {type: integer, min: 0, max: 499999, edges: [0, 20000, 500000]}")
    assert with_values(mended, ["x"]).recoded


def test_dates_of_two_centuries_are_told_a_step():
    schema = schema_of("x: {type: date, min: 1800-01-01, max: 2026-12-31, bins: year}")
    with pytest.raises(BadInput, match=r"multiples of 2 days"):
        with_values(schema, ["x"])
