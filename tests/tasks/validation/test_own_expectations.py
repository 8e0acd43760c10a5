"""A team's own expectations: each name that a schema may state, judged by the library."""

import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_core.confidential.source import open_source
from dp_core.errors import SchemaViolation
from dp_core.schema.expectations.offered import OFFERED
from dp_core.schema.expectations.suite import rules_of
from tasks.validation import row_frame, suite_judge
from tasks.validation.expectations import validate
from tests.schema_texts import read

ROOT = Path(__file__).parents[3]
HEAD = """\
version: 1
title: t
columns:
  age:  {type: integer, min: 0, max: 80, bins: 8}
  pay:  {type: number, min: 0, max: 100, bins: 10, missing: level}
  got:  {type: number, min: 0, max: 100, bins: 10}
  sex:  {type: category, levels: {1: male, 2: female}, missing: level}
  born: {type: date, min: 1990-01-01, max: 2005-01-01, bins: year}
  died: {type: date, min: 1990-01-01, max: 2025-01-01, bins: year}
expectations:
"""
ROWS = {
    "age": ["10", "20", "30", "40"],
    "pay": ["5", "15", "", "25"],
    "got": ["1", "2", "3", "4"],
    "sex": ["1", "2", "2", ""],
    "born": ["2000-01-01", "2001-01-01", "2002-01-01", "2003-01-01"],
    "died": ["2010-01-01", "2001-01-01", "2012-01-01", "2013-01-01"],
}
PAIR = "column_A: pay, column_B: got, ignore_row_if: either_value_is_missing"
DATES = "column_A: died, column_B: born"
ALL = "ignore_row_if: any_value_is_missing"
JUDGED = {
    "expect_table_row_count_to_be_between": ("min_value: 4, max_value: 4", "max_value: 3"),
    "expect_table_row_count_to_equal": ("value: 4", "value: 5"),
    "expect_column_max_to_be_between": (
        "column: born, max_value: 2003-01-01",
        "column: age, max_value: 39",
    ),
    "expect_column_min_to_be_between": ("column: pay, min_value: 5", "column: pay, min_value: 6"),
    "expect_column_distinct_values_to_be_in_set": (
        "column: sex, value_set: [1, 2]",
        "column: sex, value_set: [1]",
    ),
    "expect_column_distinct_values_to_contain_set": ("column: sex, value_set: [1]", None),
    "expect_column_distinct_values_to_equal_set": (
        "column: sex, value_set: [2, 1]",
        "column: sex, value_set: [2]",
    ),
    "expect_column_values_to_be_between": (
        "column: died, min_value: 2001-01-01",
        "column: died, min_value: 2001-01-02",
    ),
    "expect_column_values_to_be_in_set": (
        "column: age, value_set: [10, 20, 30, 40]",
        "column: age, value_set: [10, 20]",
    ),
    "expect_column_values_to_not_be_in_set": (
        "column: sex, value_set: [1], mostly: 0.5",
        "column: sex, value_set: [1]",
    ),
    "expect_column_values_to_be_null": ("column: pay, mostly: 0.2", "column: pay"),
    "expect_column_values_to_not_be_null": ("column: pay, mostly: 0.75", "column: pay"),
    "expect_column_value_lengths_to_be_between": (
        "column: sex, max_value: 1",
        "column: sex, min_value: 2",
    ),
    "expect_column_value_lengths_to_equal": ("column: sex, value: 1", "column: sex, value: 2"),
    "expect_column_values_to_match_regex": (
        'column: sex, regex: "^[0-9]$"',
        'column: sex, regex: "^1$"',
    ),
    "expect_column_values_to_not_match_regex": (
        'column: sex, regex: "^3$"',
        'column: sex, regex: "^1$"',
    ),
    "expect_column_values_to_match_regex_list": (
        'column: sex, regex_list: ["1", "2"], match_on: any',
        'column: sex, regex_list: ["1", "2"], match_on: all',
    ),
    "expect_column_values_to_not_match_regex_list": (
        'column: sex, regex_list: ["3"]',
        'column: sex, regex_list: ["1"]',
    ),
    "expect_column_values_to_match_strftime_format": (
        'column: sex, strftime_format: "%d"',
        'column: sex, strftime_format: "%Y"',
    ),
    "expect_column_pair_values_a_to_be_greater_than_b": (f"{DATES}, or_equal: true", DATES),
    "expect_column_pair_values_to_be_equal": (f"{DATES}, mostly: 0.25", DATES),
    "expect_column_pair_values_to_be_in_set": (
        "column_A: age, column_B: got, value_pairs_set: [[10, 1], [20, 2], [30, 3], [40, 4]]",
        "column_A: age, column_B: got, value_pairs_set: [[10, 1]]",
    ),
    "expect_multicolumn_sum_to_equal": (
        f"column_list: [pay, got], sum_total: 6, mostly: 0.3, {ALL}",
        f"column_list: [pay, got], sum_total: 6, {ALL}",
    ),
    "expect_select_column_values_to_be_unique_within_record": (
        "column_list: [age, got]",
        "column_list: [born, died]",
    ),
    "expect_column_mean_to_be_between": (
        "column: age, min_value: 25, max_value: 25",
        "column: age, max_value: 24",
    ),
    "expect_column_median_to_be_between": (
        "column: got, max_value: 2.5",
        "column: got, max_value: 2",
    ),
    "expect_column_stdev_to_be_between": (
        "column: got, max_value: 1.3",
        "column: got, max_value: 1.2",
    ),
    "expect_column_most_common_value_to_be_in_set": (
        "column: sex, value_set: [2]",
        "column: sex, value_set: [1]",
    ),
    "expect_column_proportion_of_non_null_values_to_be_between": (
        "column: pay, min_value: 0.75, max_value: 0.75",
        "column: pay, min_value: 0.8",
    ),
}
"""For each name, arguments that the rows meet, and arguments that they do not."""


def check(folder, text, rows=ROWS):
    schema = read(text)
    table = [",".join(rows), *(",".join(row) for row in zip(*rows.values(), strict=True))]
    (folder / "d.csv").write_text("\n".join(table) + "\n")
    source = open_source("d.csv", folder, schema.reads, schema.ignore)
    return validate(source, schema, folder / "internal")


def test_every_name_that_a_schema_may_state_is_tried():
    assert JUDGED.keys() == OFFERED.keys()


def test_what_holds_passes_and_what_does_not_is_named(tmp_path):
    lines = [f"  - {name}: {{{holds}}}\n" for name, (holds, _) in JUDGED.items()]
    check(tmp_path, HEAD + "".join(lines))
    broken = {name: breaks for name, (_, breaks) in JUDGED.items() if breaks is not None}
    lines = [f"  - {name}: {{{breaks}}}\n" for name, breaks in broken.items()]
    with pytest.raises(SchemaViolation, match="does not meet the schema's expectations") as caught:
        check(tmp_path, HEAD + "".join(lines))
    assert "expect_table_row_count_to_be_between; expect_table_row_count" in caught.value.message
    report = json.loads((tmp_path / "internal/validation.json").read_text())
    assert {one["about"] for one in report["broken"]} == broken.keys()


def test_a_level_that_never_occurs_is_found(tmp_path):
    rows = {**ROWS, "sex": ["1", "1", "", "1"]}
    line = "  - expect_column_distinct_values_to_contain_set: {column: sex, value_set: [1, 2]}\n"
    with pytest.raises(SchemaViolation, match="distinct_values_to_contain_set of 'sex'"):
        check(tmp_path, HEAD + line, rows)


def test_rows_are_seen_in_pieces_and_their_number_as_a_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(row_frame, "PIECE_ROWS", 10)
    schema = read(
        f"{HEAD}"
        "  - expect_table_row_count_to_equal: {value: 35}\n"
        "  - expect_column_max_to_be_between: {column: age, min_value: 34}\n"
        "  - expect_column_mean_to_be_between: {column: age, min_value: 4, max_value: 28}\n"
    )
    table = {name: values[:1] * 35 for name, values in ROWS.items()} | {"age": range(35)}
    pq.write_table(pa.table(table), tmp_path / "d.parquet", row_group_size=4)
    source = open_source("d.parquet", tmp_path, schema.reads, schema.ignore)
    validate(source, schema, tmp_path / "internal")  # of the file, the mean is 17
    results = json.loads((tmp_path / "internal/expectations/results.json").read_text())["results"]
    assert [one["suite_name"] for one in results] == ["t: rows"] * 3 + ["t: profile", "t: table"]


@pytest.mark.parametrize(
    ("rows", "lengths"), [(5, [5]), (19, [19]), (20, [10, 10]), (35, [10, 10, 15]), (0, [])]
)
def test_pieces_have_every_row_once_and_none_is_small(monkeypatch, rows, lengths):
    from dp_core.schema.expectations.suite import rules_of

    monkeypatch.setattr(row_frame, "PIECE_ROWS", 10)
    schema = read(f"{HEAD}  - expect_column_mean_to_be_between: {{column: age, min_value: 4}}\n")
    pieces = row_frame.RowPieces(schema, rules_of(schema))
    found = []
    for start in range(0, rows, 4):
        batch = pa.RecordBatch.from_pydict({"age": [*range(start, min(start + 4, rows))]})
        found += pieces.add(batch)
    found += pieces.last()
    assert [length for _, length in found] == lengths
    assert [age for frame, _ in found for age in frame["age"].tolist()] == [*range(rows)]


TABLE = """
import json
import great_expectations.expectations as gxe
from great_expectations.expectations.expectation import Expectation
found = {}
for name in dir(gxe):
    one = getattr(gxe, name)
    if isinstance(one, type) and issubclass(one, Expectation) and one is not Expectation:
        if not name.startswith("Expect") or one.__module__.startswith(Expectation.__module__):
            continue
        own = {key: field.required for key, field in one.__fields__.items()}
        found[one.__module__.rpartition(".")[2]] = own
print(json.dumps(found))
"""


def test_the_table_of_names_and_arguments_is_that_of_the_library():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", inspect.cleandoc(TABLE)],
        cwd=ROOT,
        env={**os.environ, "GX_ANALYTICS_ENABLED": "false"},
        capture_output=True,
        text=True,
        check=True,
    )
    library = json.loads(done.stdout)
    for name, offer in OFFERED.items():
        assert set(offer.takes) <= set(library[name]), name
        needed = {key for key, required in library[name].items() if required}
        assert needed <= set(offer.required), name


def test_the_first_runs_and_the_last_failures_are_kept(monkeypatch):
    """A file of many pieces that fail does not fill the memory or the internal folder."""
    monkeypatch.setattr(suite_judge, "KEPT", 2)
    rules = rules_of(read(f"{HEAD}  - expect_column_values_to_be_null: {{column: pay}}\n"))
    judge = suite_judge.SuiteJudge("t", rules)
    for rows in range(1, 8):
        judge.judge("rows", {"pay": np.ones(rows)}, rows)
    counts = [kept["results"][0]["result"]["element_count"] for kept in judge.results]
    assert counts == [1, 2, 6, 7]
    assert not judge.success
