"""Reading `rules`: what is refused, and how a rule is kept."""

import pytest

from dp_core.errors import BadInput
from dp_core.schema.reading.schema_file import load_schema
from tests.schema_texts import assert_reads_back

SCHEMA = """\
version: 1
title: Panel
columns:
  start: {type: date, min: 2000-01-01, max: 2009-12-31, bins: year}
  end: {type: date, min: 2000-01-01, max: 2009-12-31, bins: year, missing: level}
  wages: {type: number, min: 0, max: 1000, bins: 4, decimals: 2}
  profit: {type: number, min: -9000, max: 1000, bins: 4, decimals: 4}
  rough: {type: number, min: 0, max: 1000, bins: 4, missing: level}
  hours-per-week: {type: integer, min: 0, max: 60, bins: 4, missing: level}
  hours: {type: integer, min: 0, max: 60, bins: 4}
  status: {type: category, levels: {1: child, 2: adult}}
  school: {type: ordinal, levels: [low, mid, high], missing: level}
  age: {type: integer, min: 0, max: 99, edges: [0, 15, 40, 100]}
  stage: {type: ordinal, levels: [kid, big], follows: age, edges: [15]}
  hidden: {type: integer, min: 0, max: 100, bins: {private: 5}, missing: level}
  town: {type: category, levels: {private: 1}, groups: {g: [u, v, w]}, missing: level}
  weight: {type: number, min: 0, max: 100, bins: 5, role: weight, decimals: 1}
  person: {type: category, role: id}
ignore: [note]
"""


def read(tmp_path, *rules, extra=""):
    path = tmp_path / "panel.yaml"
    path.write_text(SCHEMA + extra + "rules:\n" + "".join(f"  - {rule}\n" for rule in rules))
    return load_schema(path)


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ("start =< end", "<="),
        ("Start <= end", "start"),
        ("ende >= start", "end"),
        ("end <= wages", "dates"),
        ("end <= start + 0.5", "whole days"),
        ("start + wages <= end", "whole days"),
        ("wages <= rough", "decimals"),
        ("wages <= profit", "too large for their decimals"),
        ("rough < 300", "250 and 500"),
        ("rough <= 250", "<"),
        ("wages == 0.001", "decimals"),
        ("status < child", "order"),
        ("status == grown", "grown"),
        ("status == school", "school"),
        ("wages == status", "status"),
        ("status + hours <= 3", "be added or subtracted"),
        ("wages * 2 <= 5", "write a rule as in"),
        ("hours + hours <= 3", "twice"),
        ("0 <= hours <= 4", "the end of the rule, at '<= 4'"),
        ("hours > 3 or age > 4", "or"),
        ("hours > 3 then age > 4", "if"),
        ("if hours > 3", "then"),
        ("if hours > 3 then", "end"),
        ("hours", "comparison"),
        ("1 <= 2", "column"),
        ("hours in 3", "["),
        ("school in [low, top]", "top"),
        ("hours is empty", "missing"),
        ("if status is missing then hours == 0", "missing: level"),
        ("school == missing", "is missing"),
        ("hours = 61", "no record"),
        ("hours <= 60", "every record"),
        ("note <= 3", "no column 'note'"),
        ("person == 3", "person"),
        ("town == u", "chosen privately"),
        ("start >= 2001-02-30", "2001-02-30"),
        ("{hours: 3}", "single value"),
        ('""', "empty"),
        ('"`hours <= 3"', "closing"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused_with_its_place(tmp_path, rule, says):
    with pytest.raises(BadInput) as found:
        read(tmp_path, rule)
    assert says in found.value.message
    assert "panel.yaml, line 21" in found.value.message


@pytest.mark.parametrize(
    ("rule", "columns"),
    [
        ("hours-per-week >= hours", ("hours-per-week", "hours")),
        ("'`hours-per-week` - hours >= 0'", ("hours-per-week", "hours")),
        ("IF status = 1 THEN school IS NOT MISSING", ("status", "school")),
        ("if stage == kid then school is missing", ("age", "school")),
        ("if status == child and age ≥ 13 then wages = 0", ("status", "age", "wages")),
        ("rough < 250", ("rough",)),
        ("if hidden < 13 then hours == 0", ("hidden", "hours")),
        ("if town is missing then hidden is missing", ("town", "hidden")),
        ("end - start <= 30", ("end", "start")),
        ("weight <= hours", ("weight", "hours")),
    ],
)
def test_a_rule_names_its_columns(tmp_path, rule, columns):
    schema = read(tmp_path, rule)
    assert schema.rules[0].columns == columns
    assert_reads_back(schema)


def test_a_schema_without_rules_keeps_its_document(tmp_path):
    path = tmp_path / "panel.yaml"
    path.write_text(SCHEMA)
    assert "rules" not in load_schema(path).document


def test_a_rule_about_a_calibrated_weight_is_refused(tmp_path):
    totals = "calibrate:\n  - {status: {child: 10, adult: 20}}\n"
    with pytest.raises(BadInput, match=r"rules\[2\]: .*calibrate"):
        read(tmp_path, "hours <= age", "weight <= hours", extra=totals)


def test_impossible_rules_may_name_missing_values_and_thresholds_of_private_bins(tmp_path):
    rules = (
        'impossible:\n  - {age: "<15", hidden: {not: missing}}\n'
        '  - {hidden: "30..39", status: 1}\n  - {hidden: {not: ["<20", missing]}, school: low}\n'
    )
    schema = read(tmp_path, "hours <= age", extra=rules)
    assert [rule.key for rule in schema.rules] == ["impossible"] * 3 + ["rules"]
    boxes = {(rule.text, rule.columns, rule.codes) for rule in schema.zeros.rules}
    # Whatever the edges will be, children have no value.
    text = "age: <15, hidden: not missing"
    assert (text, ("age", "hidden"), ((0,), (0, 1, 2, 3, 4))) in boxes
    assert {rule.text for rule in schema.zeros.rules} == {text, "hours <= age"}


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        ('{town: u, age: "<15"}', "chosen privately"),
        ("{hidden: low}", "whole"),
        ("{hidden: []}", ""),
    ],
)
def test_impossible_rules_about_private_columns_that_make_no_sense_are_refused(
    tmp_path, condition, says
):
    with pytest.raises(BadInput) as found:
        read(tmp_path, "hours <= age", extra=f"impossible:\n  - {condition}\n")
    assert says in found.value.message
