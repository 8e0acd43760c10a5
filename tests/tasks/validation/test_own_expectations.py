"""A team's own expectations: each that a schema may state, on each type of column that it takes.

The library judges a file that fits and one that does not.
"""

import inspect
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_core.confidential.source import open_source
from dp_core.errors import BadInput, SchemaViolation
from dp_core.schema.expectations.offered import OFFERED, Expectation
from dp_core.schema.expectations.suite import rules_of
from tasks.validation import judged_frames, suite_judge
from tasks.validation.expectations import try_expectations, validate
from tests.schema_texts import read

ROOT = Path(__file__).parents[3]
HEAD = """\
version: 1
title: t
columns:
  i: {type: integer, min: 0, max: 80, bins: 8, missing: level}
  j: {type: integer, min: 0, max: 80, bins: 8}
  n: {type: number, min: 0, max: 100, bins: 10, missing: level}
  m: {type: number, min: 0, max: 100, bins: 10}
  d: {type: date, min: 1990-01-01, max: 2025-01-01, bins: year, missing: level}
  e: {type: date, min: 1990-01-01, max: 2025-01-01, bins: year}
  c: {type: category, levels: [A1, A2, B1], missing: level}
  b: {type: category, levels: [A1, A2, B1]}
  o: {type: ordinal, levels: [A1, A2, B1], missing: level}
  p: {type: ordinal, levels: [A1, A2, B1]}
  k: {type: integer, min: 0, max: 80, bins: 8, missing: level}
  q: {type: number, min: 0, max: 100, bins: 10, missing: level}
  f: {type: date, min: 1990-01-01, max: 2025-01-01, bins: year, missing: level}
expectations:
"""
ROWS = {
    "i": ["10", "20", "20", ""],
    "j": ["1", "2", "3", "3"],
    "n": ["1.5", "2.25", "2.25", ""],
    "m": ["0.5", "0.25", "0.25", "0.1"],
    "d": ["2001-01-01", "2020-01-02", "2020-01-02", ""],
    "e": ["2000-01-01", "2000-01-02", "2000-01-02", "2000-01-03"],
    "c": ["A2", "B1", "B1", ""],
    "b": ["A1", "A2", "A2", "B1"],
    "o": ["A2", "B1", "B1", ""],
    "p": ["A1", "A2", "A2", "B1"],
}
ROWS |= {"k": ROWS["i"], "q": ROWS["n"], "f": ROWS["d"]}
LOW, HIGH = ({"i": low, "n": low, "d": day} for low, day in ((1, "2001-01-01"), (21, "2020-01-03")))
VALUES = {
    "i": ("10", "20", "30"),
    "n": ("1.5", "2.25", "3"),
    "d": ("2001-01-01", "2020-01-02", "2020-01-03"),
    "c": ("A2", "B1", "A1"),
    "o": ("A2", "B1", "A1"),
}
"""By column: a value of the first row, of the two next, and one that no row has."""
PARTNER = {"i": "j", "n": "m", "d": "e", "c": "b", "o": "p"}
PAIRS = {
    "i": "[10, 1], [20, 2], [20, 3]",
    "n": "[1.5, 0.5], [2.25, 0.25]",
    "d": "[2001-01-01, 2000-01-01], [2020-01-02, 2000-01-02]",
    "c": "[A2, A1], [B1, A2]",
    "o": "[A2, A1], [B1, A2]",
}
SCALES = tuple(LOW)
NUMBERS = ("i", "n")
TEXTS = ("c", "o")
ANY = tuple(VALUES)
TWIN = {"i": "k", "n": "q", "d": "f", "c": "o", "o": "c"}
"""A column with the same values."""
EITHER = "ignore_row_if: either_value_is_missing"
FIGURES = {"mean": {"i": 16.7, "n": 2.1}, "median": {"i": 20, "n": 2.25}, "stdev": {"i": 6, "n": 1}}


def _cases():
    """Yield name, column, arguments that the rows meet, and arguments that they do not."""
    yield "expect_table_row_count_to_be_between", "", "min_value: 4", "min_value: 5"
    yield "expect_table_row_count_to_equal", "", "value: 4", "value: 5"
    for one in SCALES:
        for name in ("column_min", "column_max", "column_values"):
            yield (
                f"expect_{name}_to_be_between",
                one,
                f"column: {one}, min_value: {LOW[one]}, max_value: {HIGH[one]}",
                f"column: {one}, min_value: {HIGH[one]}",
            )
    for one in TEXTS:
        first, second, other = VALUES[one]
        for name, fits in {
            "be_in_set": f"[{first}, {second}, {other}]",
            "contain_set": f"[{first}]",
            "equal_set": f"[{first}, {second}]",
        }.items():
            breaks = f"[{first}, {other}]"
            yield (
                f"expect_column_distinct_values_to_{name}",
                one,
                f"column: {one}, value_set: {fits}",
                f"column: {one}, value_set: {breaks}",
            )
        for name, fits, breaks in (
            ("value_lengths_to_be_between", "max_value: 2", "max_value: 1"),
            ("value_lengths_to_equal", "value: 2", "value: 1"),
            ("values_to_match_regex", 'regex: "^[AB]([0-9])$"', 'regex: "^A"'),
            ("values_to_not_match_regex", 'regex: "^C"', 'regex: "^A"'),
            ("values_to_match_regex_list", 'regex_list: ["A", "B"]', 'regex_list: ["A", "C"]'),
            ("values_to_not_match_regex_list", 'regex_list: ["C"]', 'regex_list: ["A", "C"]'),
        ):
            yield f"expect_column_{name}", one, f"column: {one}, {fits}", f"column: {one}, {breaks}"
    for one in ANY:
        first, second, other = VALUES[one]
        partner = PARTNER[one]
        pair = f"column_A: {one}, column_B: {partner}"
        for name, fits, breaks in (
            ("values_to_be_in_set", f"value_set: [{first}, {second}]", f"value_set: [{first}]"),
            ("values_to_not_be_in_set", f"value_set: [{other}]", f"value_set: [{other}, {first}]"),
            ("values_to_be_null", "mostly: 0.25", "mostly: 0.3"),
            ("values_to_not_be_null", "mostly: 0.75", "mostly: 0.8"),
            (
                "most_common_value_to_be_in_set",
                f"value_set: [{second}]",
                f"value_set: [{first}, {other}]",
            ),
            (
                "proportion_of_non_null_values_to_be_between",
                "max_value: 0.75",
                "max_value: 0.7",
            ),
        ):
            yield f"expect_column_{name}", one, f"column: {one}, {fits}", f"column: {one}, {breaks}"
        yield (
            "expect_column_pair_values_to_be_in_set",
            one,
            f"{pair}, {EITHER}, value_pairs_set: [{PAIRS[one]}]",
            f"{pair}, {EITHER}, value_pairs_set: [{PAIRS[one].partition('], ')[0]}]]",
        )
        yield (
            "expect_column_pair_values_to_be_equal",
            one,
            f"column_A: {one}, column_B: {one}, {EITHER}",
            f"{pair}, {EITHER}",
        )
        yield (
            "expect_column_pair_values_a_to_be_greater_than_b",
            one,
            f"{pair}, {EITHER}",
            f"column_A: {partner}, column_B: {one}, {EITHER}",
        )
        yield (
            "expect_select_column_values_to_be_unique_within_record",
            one,
            f"column_list: [{one}, {partner}]",
            f"column_list: [{one}, {TWIN[one]}]",
        )
    for one in NUMBERS:
        for name, figures in FIGURES.items():
            fits, breaks = (f"{bound}: {figures[one]}" for bound in ("max_value", "min_value"))
            yield (
                f"expect_column_{name}_to_be_between",
                one,
                f"column: {one}, {fits}",
                f"column: {one}, {breaks}, strict_min: true",
            )
        sums = f"column_list: [{one}, {PARTNER[one]}], ignore_row_if: any_value_is_missing"
        total = {"i": 22, "n": 2.5}[one]
        yield (
            "expect_multicolumn_sum_to_equal",
            one,
            f"{sums}, sum_total: {total}, mostly: 0.3",
            f"{sums}, sum_total: {total}",
        )


CASES = tuple(_cases())


def broken(folder, lines):
    """Return the numbers, among the team's own, of the expectations that the rows break."""
    schema = read(HEAD + "".join(f"  - {line}\n" for line in lines))
    table = [",".join(ROWS), *(",".join(row) for row in zip(*ROWS.values(), strict=True))]
    (folder / "d.csv").write_text("\n".join(table) + "\n")
    source = open_source("d.csv", folder, schema.reads, schema.ignore)
    try:
        validate(source, schema, folder / "internal")
    except SchemaViolation:
        results = json.loads((folder / "internal/expectations/results.json").read_text())
        own = [
            one["expectation_config"]["meta"]["number"]
            for run in results["results"]
            for one in run["results"]
            if one["expectation_config"]["meta"]["says"] == "own" and not one["success"]
        ]
        first = len(rules_of(schema)) - len(lines)
        return sorted(number - first for number in own)
    return []


def test_every_name_is_tried_on_every_type_that_it_takes():
    tried = {(name, column) for name, column, _, _ in CASES}
    for name, offer in OFFERED.items():
        if "strftime" in name:  # no level of these columns is a date; see below
            continue
        kinds = set(offer.takes.values())
        columns = ANY
        if kinds & {"number column", "number columns"}:
            columns = NUMBERS
        elif "text column" in kinds:
            columns = TEXTS
        elif "value" in kinds:
            columns = SCALES
        elif offer.sees == "table":
            columns = ("",)
        assert {(name, column) for column in columns} <= tried, name


def test_a_file_that_fits_passes(tmp_path):
    lines = [f"{name}: {{{fits}}}" for name, _, fits, _ in CASES]
    assert [lines[at] for at in broken(tmp_path, lines)] == []


def test_a_file_that_does_not_fit_breaks_each(tmp_path):
    lines = [f"{name}: {{{breaks}}}" for name, _, _, breaks in CASES]
    passed = set(range(len(lines))) - set(broken(tmp_path, lines))
    assert [lines[at] for at in sorted(passed)] == []


@pytest.mark.parametrize("kind", ["category", "ordinal"])
def test_a_date_format_is_judged_on_the_texts_of_levels(tmp_path, kind):
    schema = read(
        f"version: 1\ntitle: t\ncolumns:\n  x: {{type: {kind}, levels: [2001-02, 2001-13]}}\n"
        "expectations:\n"
        '  - expect_column_values_to_match_strftime_format: {column: x, strftime_format: "%Y-%m"}\n'
    )
    for name, text in (("fits", "2001-02"), ("breaks", "2001-13")):
        (tmp_path / f"{name}.csv").write_text(f"x\n{text}\n{text}\n")
    source = open_source("fits.csv", tmp_path, schema.reads, schema.ignore)
    validate(source, schema, tmp_path / "internal")
    source = open_source("breaks.csv", tmp_path, schema.reads, schema.ignore)
    with pytest.raises(SchemaViolation, match="strftime_format of 'x'"):
        validate(source, schema, tmp_path / "internal")


@pytest.mark.parametrize(
    "regex",
    [r"^(a+)+$", r"^(\\w+)+x$", r"^(\\s|é|é)+x$"],
)
def test_a_regex_that_backtracks_does_not_hang(tmp_path, regex):
    """Python's `re` needs 2**60 steps for these texts."""
    long = "a" * 60 + "é" * 60 + "!"
    schema = read(
        f'version: 1\ntitle: t\ncolumns:\n  x: {{type: category, levels: [A, "{long}"]}}\n'
        "expectations:\n"
        f'  - expect_column_values_to_not_match_regex: {{column: x, regex: "{regex}"}}\n'
        "  - expect_column_values_to_not_match_regex_list:\n"
        f'      {{column: x, regex_list: ["{regex}"]}}\n'
    )
    (tmp_path / "d.csv").write_text(f"x\nA\n{long}\n")
    source = open_source("d.csv", tmp_path, schema.reads, schema.ignore)
    validate(source, schema, tmp_path / "internal")


def test_rows_are_seen_in_pieces_and_their_number_as_a_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(judged_frames, "PIECE_ROWS", 10)
    schema = read(
        f"{HEAD}"
        "  - expect_table_row_count_to_equal: {value: 35}\n"
        "  - expect_column_max_to_be_between: {column: j, min_value: 34}\n"
        "  - expect_column_mean_to_be_between: {column: j, min_value: 4, max_value: 28}\n"
    )
    table = {name: values[:1] * 35 for name, values in ROWS.items()} | {"j": range(35)}
    pq.write_table(pa.table(table), tmp_path / "d.parquet", row_group_size=4)
    source = open_source("d.parquet", tmp_path, schema.reads, schema.ignore)
    validate(source, schema, tmp_path / "internal")  # of the file, the mean is 17
    results = json.loads((tmp_path / "internal/expectations/results.json").read_text())["results"]
    assert [one["suite_name"] for one in results] == ["t: rows"] * 3 + ["t: profile", "t: table"]


@pytest.mark.parametrize(
    ("rows", "lengths"), [(5, [5]), (19, [19]), (20, [10, 10]), (35, [10, 10, 15]), (0, [])]
)
def test_pieces_have_every_row_once_and_none_is_small(monkeypatch, rows, lengths):
    monkeypatch.setattr(judged_frames, "PIECE_ROWS", 10)
    schema = read(f"{HEAD}  - expect_column_mean_to_be_between: {{column: j, min_value: 4}}\n")
    pieces = judged_frames.RowPieces(schema, rules_of(schema))
    found = []
    for start in range(0, rows, 4):
        batch = pa.RecordBatch.from_pydict({"j": [*range(start, min(start + 4, rows))]})
        found += pieces.add(batch)
    found += pieces.last()
    assert [length for _, length in found] == lengths
    assert [value for frame, _ in found for value in frame["j"].tolist()] == [*range(rows)]


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
    rules = rules_of(read(f"{HEAD}  - expect_column_values_to_be_null: {{column: i}}\n"))
    judge = suite_judge.SuiteJudge("t", rules)
    for rows in range(1, 8):
        judge.judge("rows", {"i": np.ones(rows)}, rows)
    counts = [kept["results"][0]["result"]["element_count"] for kept in judge.results]
    assert counts == [1, 2, 6, 7]
    assert not judge.success


# -- the trial on a row of legal values


def test_what_the_library_can_judge_passes_whether_the_row_meets_it_or_not():
    lines = [f"  - {name}: {{{words}}}\n" for name, _, *both in CASES for words in both]
    try_expectations(read(HEAD + "".join(lines)))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("expect_column_values_to_match_strftime_format", {"strftime_format": "%Q%"}),
        ("expect_column_values_to_match_regex", {"regex": "("}),
        ("expect_column_values_to_be_in_set", {"value_set": 5}),
    ],
)
def test_what_it_cannot_judge_is_named(name, arguments):
    wrong = Expectation(name=name, arguments={"column": "c", **arguments})
    schema = read(f"{HEAD}  - expect_table_row_count_to_equal: {{value: 4}}\n")
    schema = replace(schema, expectations=(*schema.expectations, wrong))
    with pytest.raises(BadInput, match=f"cannot judge {name} with") as caught:
        try_expectations(schema)
    assert caught.value.exit_code == 2
