import pytest

from dp_core.schema.expectations.offered import OFFERED
from dp_core.schema.expectations.suite import rules_of, suite_document
from dp_core.schema.reading.schema_file import parse_schema
from tests.schema_texts import read, refusal

HEAD = """\
version: 1
title: t
columns:
  age:  {type: integer, min: 0, max: 80, bins: 8}
  pay:  {type: number, min: 0, max: 100, bins: 10, missing: level}
  got:  {type: number, min: 0, max: 100, bins: 10}
  sex:  {type: category, levels: {1: male, 2: female}}
  born: {type: date, min: 1990-01-01, max: 2005-01-01, bins: year}
expectations:
"""


def own(line):
    return read(f"{HEAD}  - {line}\n").expectations


@pytest.mark.parametrize(
    ("line", "arguments"),
    [
        (
            'expect_column_values_to_match_regex: {column: sex, regex: "^[12]$"}',
            {"column": "sex", "regex": "^[12]$"},
        ),
        (
            "expect_column_values_to_be_between: {column: age, min_value: 1, mostly: 0.5}",
            {"column": "age", "min_value": 1, "mostly": 0.5},
        ),
        (
            "expect_column_max_to_be_between: {column: born, max_value: 2004-12-31}",
            {"column": "born", "max_value": "2004-12-31"},
        ),
        (
            "expect_column_values_to_be_in_set: {column: sex, value_set: [1]}",
            {"column": "sex", "value_set": ["1"]},
        ),
        (
            "expect_multicolumn_sum_to_equal: {column_list: [pay, got], sum_total: 100}",
            {"column_list": ["pay", "got"], "sum_total": 100},
        ),
        (
            "expect_column_pair_values_to_be_in_set:"
            " {column_A: sex, column_B: sex, value_pairs_set: [[1, 1], [2, 2]]}",
            {"column_A": "sex", "column_B": "sex", "value_pairs_set": [["1", "1"], ["2", "2"]]},
        ),
        ("expect_table_row_count_to_equal: {value: 5, only: file}", {"value": 5}),
    ],
)
def test_arguments_are_read_by_their_kind(line, arguments):
    (one,) = own(line)
    assert dict(one.arguments) == arguments
    assert one.file_only == ("only: file" in line)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("expect_column_values_to_match_regexx: {column: sex, regex: x}", "Did you mean"),
        ("expect_column_values_to_match_regex: {column: sex, regexp: x}", "no key 'regexp'"),
        ("expect_column_values_to_match_regex: {column: sec, regex: x}", "no column 'sec' in"),
        ("expect_column_values_to_match_regex: {column: sex}", "the key 'regex' is missing"),
        *(
            (
                f"expect_column_values_to_match_regex: {{column: sex, regex: '{regex}'}}",
                "is not a regular expression of RE2, which has no lookaround",
            )
            for regex in ("(", "(?=1)1", r"(1)\1", "^(é1)++$", "a{2000}")
        ),
        *(
            (
                "expect_column_values_to_match_strftime_format:"
                f' {{column: sex, strftime_format: "{form}"}}',
                "is not a format that Python can read dates by",
            )
            for form in ("%Q", "%d %d", "%", "%G-%V")
        ),
        *(
            (line, "9007199254740991")
            for line in (
                "expect_column_max_to_be_between: {column: age, max_value: 9007199254740992}",
                "expect_column_max_to_be_between: {column: age, min_value: -9007199254740992}",
                "expect_column_values_to_be_in_set: {column: age, value_set: [9007199254740992]}",
                "expect_multicolumn_sum_to_equal:"
                " {column_list: [age, got], sum_total: 9007199254740992}",
                "expect_table_row_count_to_equal: {value: 9007199254740992}",
            )
        ),
        ("expect_nothing_of_the_sort: {column: age}", "docs/schema.md#expectations"),
        ("expect_column_values_to_match_regex: {column: age, regex: x}", "is of type integer"),
        ("expect_column_mean_to_be_between: {column: sex, min_value: 1}", "is of type category"),
        ("expect_column_max_to_be_between: {column: age}", "sets no bound"),
        ("expect_column_max_to_be_between: {column: sex, max_value: 1}", "texts without bounds"),
        (
            "expect_column_max_to_be_between: {column: age, min_value: 5, max_value: 4}",
            "min_value is greater than max_value",
        ),
        (
            "expect_column_values_to_be_in_set: {column: sex, value_set: [male]}",
            "Write its text, '1'.",
        ),
        ("expect_column_values_to_not_be_null: {column: sex, mostly: 2}", "must be at most 1"),
        ("expect_column_pair_values_to_be_equal: {column_A: sex, column_B: age}", "two columns"),
        (
            "expect_column_pair_values_to_be_equal:"
            " {column_A: pay, column_B: got, ignore_row_if: nether}",
            "Did you mean 'neither'?",
        ),
        ("expect_column_values_to_be_unique: {column: age}", "is not an expectation"),
        ("expect_table_row_count_to_equal: {value: 5, only: sets}", "is not one of file"),
        ("{a: 1, b: 2}", "must be one name with its arguments"),
        ("expect_select_column_values_to_be_unique_within_record: {column_list: [age]}", "two"),
    ],
)
def test_a_mistake_is_one_sentence_with_its_place(line, words):
    said = refusal(f"{HEAD}  - {line}\n")
    assert words in said
    assert "line 10" in said


def test_a_regex_is_one_of_re2_and_not_of_python():
    (one,) = own("expect_column_values_to_match_regex: {column: sex, regex: '^[[:digit:]]\\z'}")
    assert one.arguments["regex"] == r"^[[:digit:]]\z"


def test_the_document_gives_the_same_schema():
    schema = read(
        f"{HEAD}  - expect_column_max_to_be_between: {{column: born, max_value: 2004-12-31}}\n"
        "  - expect_table_row_count_to_equal: {value: 5, only: file}\n"
    )
    assert parse_schema(schema.document) == schema
    assert "expectations" not in read(HEAD.removesuffix("expectations:\n")).document


def test_the_suite_of_the_sets_leaves_out_what_is_about_the_file_only():
    schema = read(f"{HEAD}  - expect_table_row_count_to_equal: {{value: 5, only: file}}\n")
    rules = rules_of(schema)
    assert [rule.type for rule in rules if rule.kind == "own"] == [
        "expect_table_row_count_to_equal"
    ]
    assert rules[:-1] == rules_of(schema, sets=True)
    suite = suite_document(schema)
    assert suite["name"] == "t"
    assert [each["meta"]["number"] for each in suite["expectations"]] == [*range(len(rules))]


def test_counted_columns_have_names_that_no_column_has():
    schema = read(
        'version: 1\ntitle: t\ncolumns:\n  "age: rows that are not whole numbers":'
        " {type: category, levels: [a, b]}\n  age: {type: integer, min: 0, max: 8}\n"
    )
    names = [rule.kwargs["column"] for rule in rules_of(schema)]
    assert "age: rows that are not whole numbers*" in names


def test_every_name_says_what_it_sees():
    for name, offer in OFFERED.items():
        assert name.startswith("expect_")
        assert set(offer.required) <= set(offer.takes)
        assert ("column" in offer.takes) <= ("column" in offer.required)
