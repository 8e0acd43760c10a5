"""All faults of a schema in one error, without those that only follow from another."""

import pytest

from dp_core.analysis.notebook.schemas import read_schema
from dp_core.errors import BadInput
from dp_core.schema.column_types.registry import words
from dp_core.schema.reading.schema_file import parse_schema
from dp_core.text.documents.faults import MOST_FAULTS, fault_json
from tests.schema_texts import read

NO_TYPE = f"'int' is not one of {', '.join(words())}."
INT = f"{NO_TYPE} Did you mean 'integer'?"
HEAD = "version: 1\ntitle: t\ncolumns:\n"
GOOD = "  visits: {type: integer, min: 0, max: 9}\n"
BAD = "  age: {type: int, min: 0, max: 9}\n"


def faults(text):
    """Return the place and the text of every fault, by line."""
    with pytest.raises(BadInput) as caught:
        read(text)
    return [(one.line, one.key, one.text) for one in caught.value.faults]


def test_each_key_column_and_rule_has_its_fault():
    text = f"""\
version: 1
title: t
rows_about: many
publcation: x
columns:
{GOOD}{BAD}  sex: {{type: category, levels: male, female}}
  health: {{type: ordinal, levels: [good, bad]}}
impossible:
  - {{visits: "<5", helth: bad}}
  - {{visits: "<5", health: worse}}
  - {{visits: "<5", health: bad}}
rules:
  - visits <= nothing
  - if health == fair then visits == 0
expectations:
  - expect_colum_values_to_be_between: {{column: visits}}
ignore: [visits]
"""
    found = faults(text)
    assert [(line, key) for line, key, _ in found] == [
        (3, "rows_about"),
        (4, ""),
        (7, "columns.age.type"),
        (8, "columns.sex"),
        (11, "impossible[1]"),
        (12, "impossible[2].health"),
        (15, "rules[1]"),
        (16, "rules[2]"),
        (18, "expectations[1]"),
        (19, "ignore"),
    ]
    with pytest.raises(BadInput) as caught:
        read(text)
    lines = caught.value.message.splitlines()
    assert lines[0] == "s.yaml has 10 faults:"
    assert lines[3] == (f"- line 7, columns.age.type: {INT}")
    assert len(lines) == 11
    assert caught.value.exit_code == 2


def test_a_single_fault_is_one_sentence():
    with pytest.raises(BadInput) as caught:
        read(HEAD + GOOD + BAD)
    assert caught.value.message == (f"s.yaml, line 5, columns.age.type: {INT}")
    (fault,) = caught.value.faults
    assert fault_json(fault) == {
        "severity": "refusal",
        "file": "s.yaml",
        "line": 5,
        "key": "columns.age.type",
        "message": NO_TYPE,
        "fix": "Did you mean 'integer'?",
    }


@pytest.mark.parametrize(
    "rest",
    [
        "impossible:\n  - {age: '<5', visits: '<3'}\n",
        "impossible:\n  - {agee: '<5', visits: '<3'}\n",
        "rules:\n  - age <= visits\n",
        "rules:\n  - agee <= visits\n",
        "expectations:\n  - expect_column_values_to_be_between: {column: age, min_value: 0}\n",
        "calibrate:\n  - {totals: {age: {a: 1}}}\n",
        "ignore: [other]\n",
        "unit: {column: person, max_rows: 2}\n",
    ],
)
def test_no_fault_follows_from_a_faulty_column(rest):
    assert [key for _, key, _ in faults(HEAD + GOOD + BAD + rest)] == ["columns.age.type"]


def test_columns_that_follow_a_faulty_one_have_no_fault():
    follower = "  group: {type: category, levels: [a, b], follows: %s, edges: [5]}\n"
    text = HEAD + GOOD + BAD + follower % "age" + follower.replace("group", "other") % "group"
    assert [key for _, key, _ in faults(text)] == ["columns.age.type"]
    found = faults(text + follower.replace("group", "third") % "visits" + "  x: {type: int}\n")
    assert [key for _, key, _ in found] == ["columns.age.type", "columns.x.type"]


def test_a_key_that_is_read_twice_has_one_fault():
    unit = "  person: {role: id}\nunit: {column: person, max_rows: 2}\n"
    found = faults(HEAD + GOOD + unit + "ignore: id, name\n")
    assert [(line, key) for line, key, _ in found] == [(7, "ignore")]


def test_a_misspelt_key_is_not_also_reported_as_missing():
    found = faults("version: 1\ntitel: t\ncolumns:\n" + GOOD)
    assert [text for _, _, text in found] == ["there is no key 'titel' here. Did you mean 'title'?"]


@pytest.mark.parametrize(
    "text",
    [
        f"version: 2\ntitle: t\ncolumns:\n{BAD}",
        "version: 1\nrelease: a\nprivacy: {}\ncolour: x\n",
        "version: 1\ntitle: t\ncolums:\n  a: {type: int}\n",
        "version: 1\ntitle: t\ncolumns: [{a: 1}, b]\n",
        f"{HEAD}{BAD}{BAD}",
    ],
)
def test_a_fault_of_the_whole_document_is_the_only_one(text):
    with pytest.raises(BadInput) as caught:
        read(text)
    assert "\n" not in caught.value.message


def test_equal_faults_share_a_line_and_long_lists_are_cut():
    columns = "".join(f"  c{n}: {{type: int, min: 0, max: 9}}\n" for n in range(3))
    with pytest.raises(BadInput) as caught:
        read(HEAD + columns)
    assert caught.value.message == (
        f"s.yaml has 3 faults:\n- line 4, columns.c0.type: {INT}"
        " The same in columns.c1.type (line 5), columns.c2.type (line 6)."
    )
    columns = "".join(f"  c{n}: {{type: kind{n}}}\n" for n in range(MOST_FAULTS + 3))
    with pytest.raises(BadInput) as caught:
        read(HEAD + columns)
    assert len(caught.value.faults) == MOST_FAULTS + 3
    lines = caught.value.message.splitlines()
    assert len(lines) == MOST_FAULTS + 2
    assert lines[-1] == "- and 3 more."


def test_all_faults_of_a_mapping_are_listed_on_request():
    mapping = {
        "version": 1,
        "titel": "t",
        "colour": "x",
        "columns": {"a": {"type": "int"}, "b": {"type": "category", "levels": None}, "c": None},
    }
    with pytest.raises(BadInput) as caught:
        parse_schema(mapping)
    assert len(caught.value.faults) == 1
    with pytest.raises(BadInput) as caught:
        read_schema(mapping)
    assert [one.key for one in caught.value.faults] == [
        "",
        "",
        "columns.a.type",
        "columns.b.levels",
        "columns.c",
    ]
    assert f"\n- columns.a.type: {INT}" in caught.value.message
