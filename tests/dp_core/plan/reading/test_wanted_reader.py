"""`tables` and `synthesize: {sets: 0}` as a person writes them, right and wrong."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from dp_core.errors import BadInput
from dp_core.plan.plan import make_plan
from dp_core.plan.reading.spec_file import load_spec
from tests.specs import write_spec

ROOT = Path(__file__).parents[4]

SCHEMA = """\
version: 1
title: Small survey
unit: row
rows_about: 1000
columns:
  sex: {type: category, levels: [x, y]}
  age: {type: integer, min: 0, max: 9, missing: level}
  pay: {type: number, min: 0, max: 10, bins: 4}
  adult: {type: ordinal, levels: [no, yes], follows: age, edges: [5]}
  one: {type: category, levels: [x]}
  big: {type: number, min: 0, max: 1, bins: 10000}
  wide: {type: number, min: 0, max: 1, bins: 10000}
"""


def read(folder, text, method="fixed"):
    # One method does not take the large columns.
    schema = SCHEMA.replace("10000", "10") if method == "pegs" else SCHEMA
    return write_spec(folder, text, schema=schema, method=method)


def test_entries_are_read_with_their_weights_and_sums(tmp_path):
    spec = read(
        tmp_path,
        "tables:\n  - {of: [age, sex], weight: 2.5, ranges: [age]}\n  - {of: [pay]}\n",
    )
    one, other = spec.selector.workload
    assert (one.of, one.weight, one.ranges, one.missing) == (
        ("sex", "age"),
        Fraction(5, 2),
        ("age",),
        ("age",),
    )
    assert (other.of, other.weight) == (("pay",), 1)
    assert spec.document["tables"] == [
        {"of": ["sex", "age"], "weight": "5/2", "ranges": ["age"]},
        {"of": ["pay"], "weight": "1"},
    ]


def test_a_spec_without_tables_says_nothing_of_them(tmp_path):
    assert "tables" not in read(tmp_path, "select: {cliques: [[age, sex]]}\n").document


def test_a_weight_is_part_of_the_plan(tmp_path):
    hashes = {
        make_plan(
            read(tmp_path, f"tables: [{{of: [age], weight: {weight}}}, {{of: [pay]}}]\n")
        ).hash
        for weight in (1, 2)
    }
    assert len(hashes) == 2


def test_the_short_forms_of_a_table_are_the_same_plan(tmp_path):
    forms = ("{of: [sex, age]}", '"sex, age"', "[sex, age]", "'age,sex'")
    hashes = {
        make_plan(read(tmp_path, f"tables: [{form}, {{of: [pay]}}]\n")).hash for form in forms
    }
    assert len(hashes) == 1


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ("[{of: [agee]}]", ("agee", "age")),
        ("[{of: [adult]}]", ("adult", "age")),
        ("[{of: []}]", ("no column",)),
        ("[{of: [age, age]}]", ("age", "twice")),
        ("[{of: [sex, age]}, {of: [age, sex]}]", ("sex x age", "twice")),
        ("[{of: [age], weight: 0}]", ("weight", "greater than 0")),
        ("[{of: [age], ranges: [sex]}]", ("sex", "of")),
        ("[{of: [sex], ranges: [sex]}]", ("sex", "category")),
        ("[{of: [age], ranges: [age], prefixes: [age]}]", ("age", "ranges")),
        ("[{of: [one]}]", ("one", "single cell")),
        ("[{of: [big, wide]}]", ("big x wide", "100,000,000")),
        ("[{off: [age]}]", ("off", "of")),
        ("[[agee, sex]]", ("agee", "Did you mean 'age'")),
        ('["sex,"]', ("no column",)),
        ("{of: [age]}", ("list",)),
        ("[]", ("empty",)),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path, tables, words):
    with pytest.raises(BadInput) as refused:
        read(tmp_path, f"tables: {tables}\n")
    assert "tables" in str(refused.value)
    assert all(word in str(refused.value) for word in words)


def test_a_share_for_tables_that_are_not_there_is_refused(tmp_path):
    with pytest.raises(BadInput, match=r"tables_share.*no `tables`"):
        read(tmp_path, "select: {tables_share: 1/3}\n", method="auto")


@pytest.mark.parametrize("method", ["privsyn", "independent", "modips", "aim"])
def test_a_method_that_ignores_tables_is_refused(tmp_path, method):
    with pytest.raises(BadInput, match=r"auto.*fixed"):
        read(tmp_path, "tables: [{of: [age]}]\n", method=method)


@pytest.mark.parametrize(
    ("text", "method", "words"),
    [
        ("synthesize: {sets: 0, mode: split}", "auto", ("mode", "sets is 0")),
        ("synthesize: {sets: 0, rows: 500}", "auto", ("rows", "sets is 0")),
        ("synthesize: {sets: 0}\nreconstruct: {method: gum}", "auto", ("reconstruct", "sets is 0")),
        ("synthesize: {sets: 0}\nchecks: {share: 0.1}", "auto", ("checks", "sets is 0")),
        ("synthesize: {sets: 0}", "modips", ("modips", "records")),
        ("synthesize: {sets: 0}", "pegs", ("pegs", "records")),
    ],
)
def test_no_sets_and_something_about_sets_is_refused(tmp_path, text, method, words):
    with pytest.raises(BadInput) as refused:
        read(tmp_path, text + "\n", method=method)
    assert all(word in str(refused.value) for word in words)


def test_without_sets_only_the_wanted_tables_are_paid_for(tmp_path):
    spec = read(tmp_path, "tables: [{of: [age, sex]}]\nsynthesize: {sets: 0}\n")
    assert (spec.sets, spec.mode, spec.shares["measure"]) == (0, "shared", 1)
    plan = make_plan(spec)
    assert {name for table in plan.tables for name in table.clique} <= {"age", "sex"}
    assert sum(table.cost for table in plan.tables) == plan.currency.limit


def test_the_example_of_a_release_of_tables_is_planned():
    plan = make_plan(load_spec(ROOT / "deployments" / "specs" / "yrbss-tables.release.yaml"))
    assert [table.of for table in plan.spec.selector.workload][1] == ("grade", "helmet_12m")
    assert plan.fixed_beforehand


def test_with_sets_every_column_is_measured(tmp_path):
    plan = make_plan(read(tmp_path, "tables: [{of: [age, sex]}]\n"))
    assert {name for table in plan.tables for name in table.clique} == {
        *("sex", "age", "pay", "one", "big", "wide")
    }
