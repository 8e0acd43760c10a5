"""The schema of some columns: what is kept of the whole one, and what may be left out."""

import pytest

from dp_core.errors import BadInput
from dp_core.schema.reading.restricted_schema import restricted_schema
from dp_core.schema.reading.schema_file import parse_schema

WHOLE = {
    "version": 1,
    "title": "Town",
    "unit": {"column": "person", "max_rows": 2},
    "rows_about": 400,
    "columns": {
        "region": {"type": "category", "levels": ["n", "s"]},
        "county": {
            "type": "category",
            "levels": ["n1", "n2", "s1"],
            "within": "region",
            "map": {"n1": "n", "n2": "n", "s1": "s"},
        },
        "age": {"type": "integer", "min": 0, "max": 99, "edges": [0, 15, 40, 100]},
        "group": {"type": "ordinal", "levels": ["child", "adult"], "follows": "age", "edges": [15]},
        "marital": {
            "type": "category",
            "levels": ["single", "married"],
            "missing": "level",
            "out_of_range": "missing",
        },
        "wage": {"type": "integer", "min": 0, "max": 999, "bins": 5},
        "total": {"type": "integer", "min": 0, "max": 1999, "bins": 5},
        "w": {"type": "number", "min": 0, "max": 10, "bins": 5, "role": "weight"},
    },
    "ignore": ["note"],
    "impossible": [{"age": "<15", "marital": ["married"]}],
    "rules": ["wage <= total"],
    "totals": [{"county": {"n1": 100, "n2": 100, "s1": 200}, "source": "Census"}],
    "expectations": [
        {"expect_column_values_to_not_be_null": {"column": "wage"}},
        {"expect_table_row_count_to_be_between": {"min_value": 10, "only": "file"}},
    ],
}


@pytest.fixture(scope="module")
def whole():
    return parse_schema(WHOLE)


def test_other_columns_are_ignored_and_the_unit_stays(whole):
    found = restricted_schema(whole, ["wage"])
    assert found.names == ("wage",)
    assert {*found.ignore} == {"note", *whole.names} - {"wage"}
    assert (found.unit, found.rows_about) == (whole.unit, whole.rows_about)
    assert found.column("wage") == whole.column("wage")


def test_an_expectation_stays_with_its_columns(whole):
    names = [each.name for each in restricted_schema(whole, ["total"]).expectations]
    assert names == ["expect_table_row_count_to_be_between"]
    assert len(restricted_schema(whole, ["wage"]).expectations) == 2


def test_a_rule_is_dropped_with_a_column_that_it_cannot_change(whole):
    assert restricted_schema(whole, ["wage"]).rules == ()
    both = restricted_schema(whole, ["wage", "total"])
    assert [rule.text for rule in both.rules] == ["wage <= total"]


def test_a_rule_that_sets_a_value_to_missing_keeps_all_its_columns(whole):
    found = restricted_schema(whole, ["marital"])
    assert found.names == ("age", "marital")
    assert restricted_schema(whole, ["age"]).names == ("age", "marital")
    assert [rule.text for rule in found.zeros.rules] == ["age: <15, marital: [married]"]


def test_a_dependent_column_keeps_its_source(whole):
    assert {"age", "group"} <= {*restricted_schema(whole, ["group"]).names}


def test_an_area_is_an_ordinary_column_without_the_larger_one(whole):
    alone = restricted_schema(whole, ["county"])
    assert (alone.names, alone.nested) == (("county",), None)
    assert [each.column for each in alone.totals] == ["county"]
    both = restricted_schema(whole, ["region", "county"])
    assert both.nested is not None
    assert both.nested.columns == ("region", "county")
    assert restricted_schema(whole, ["region"]).totals == ()


def test_a_weight_is_an_ordinary_number(whole):
    found = restricted_schema(whole, ["w"])
    assert (found.weight, found.column("w").kind) == (None, "number")


def test_all_columns_keep_every_rule(whole):
    found = restricted_schema(whole, whole.names)
    assert found.names == whole.names
    assert [rule.text for rule in found.rules] == [rule.text for rule in whole.rules]


def test_the_document_is_read_again_as_the_same_schema(whole):
    found = restricted_schema(whole, ["group", "county", "region"])
    again = restricted_schema(parse_schema(found.document), ["group", "county", "region"])
    assert again.document == found.document


def test_an_unknown_column_is_refused(whole):
    with pytest.raises(BadInput, match="Did you mean 'wage'"):
        restricted_schema(whole, ["wag"])
