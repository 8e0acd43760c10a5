"""Each synthetic set is judged by itself, by the suite that judges the file."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_core.schema.expectations.suite import rules_of
from dp_core.schema.reading.schema_file import load_schema
from tasks.validation.judged_sets import judge_sets

SCHEMA = """\
version: 1
title: Town
unit: row
rows_about: 100
columns:
  sex: {type: category, levels: {1: male, 2: female}}
  work: {type: category, levels: ["no", "yes"]}
  age: {type: integer, min: 0, max: 9, edges: [0, 5, 10]}
expectations:
  - expect_column_values_to_match_regex: {column: sex, regex: "^[12]$"}
  - expect_column_mean_to_be_between: {column: age, max_value: 5}
impossible:
  - {work: "yes", age: "<5"}
"""
GOOD = {"sex": ["female", "male"], "work": ["no", "yes"], "age": [4, 5]}
SETS = {
    "as it should be": (GOOD, []),
    "an unknown level": ({**GOOD, "sex": ["female", "zebra"]}, ["value", "own"]),
    "a broken rule": ({**GOOD, "age": [4, 3]}, ["impossible"]),
    "too old": ({**GOOD, "age": [9, 9]}, ["own"]),
}


@pytest.mark.parametrize("names", [list(SETS), list(SETS)[::-1]])
def test_a_set_does_not_meet_what_it_breaks_itself_whatever_was_read_before_it(tmp_path, names):
    (tmp_path / "schema.yaml").write_text(SCHEMA)
    schema = load_schema(tmp_path / "schema.yaml")
    files = []
    for number, name in enumerate(names):
        values, _ = SETS[name]
        files.append((tmp_path / f"set-{number}.parquet",))
        texts = {name: pa.array(values[name]).dictionary_encode() for name in ("sex", "work")}
        pq.write_table(pa.table({**texts, "age": values["age"]}), *files[-1])
    told = []
    found = judge_sets(schema, files, told.append)
    kinds = [rule.kind for rule in rules_of(schema, sets=True)]
    assert [[kinds[at] for at in broken] for broken in found] == [SETS[name][1] for name in names]
    assert told == sorted(told)
