from __future__ import annotations

from fractions import Fraction

import pytest

from dp_core.errors import BadInput
from dp_core.plan.chosen_domain import Chosen, with_choices
from dp_core.schema.grid import on_grid
from dp_core.schema.reading.schema_file import load_schema, parse_schema

GROUPS = {"indoors": ["clerk", "nurse"], "outdoors": {"f": "Farmer", "m": "Miner"}}
COLUMNS = {
    "age": {"type": "integer", "min": 0, "max": 99, "bins": {"private": 6}},
    "pay": {"type": "number", "min": 0, "max": 500, "missing": "level", "bins": {"private": 12}},
    "born": {"type": "date", "min": "1900-01-01", "max": "2020-12-31", "bins": {"private": 5}},
    "job": {"type": "category", "missing": "level", "levels": {"private": 2}, "groups": GROUPS},
    "sex": {"type": "category", "levels": ["f", "m"]},
}


def schema_of(columns, **keys):
    return parse_schema({"version": 1, "title": "t", "columns": columns} | keys)


def test_numbers_of_codes_are_public_before_anything_is_chosen():
    schema = schema_of(COLUMNS)
    assert schema.domain.sizes == (6, 13, 5, 5, 2)
    assert schema.stored.domain.sizes == (100, 4097, 4018 // 1, 5, 2)
    assert [column.name for column in schema.private] == ["age", "pay", "born", "job"]
    assert schema_of({"sex": COLUMNS["sex"]}).stored.columns[0].size == 2


def test_the_document_says_what_is_private_and_reads_back():
    schema = schema_of(COLUMNS)
    assert parse_schema(schema.document) == schema
    by_name = {name: column for each in schema.document["columns"] for name, column in each.items()}
    assert by_name["age"]["bins"] == {"private": "6"}
    assert by_name["job"]["levels"] == {"private": "2"}
    assert by_name["job"]["groups"][1] == {"outdoors": [{"f": "Farmer"}, {"m": "Miner"}]}


def test_positions_hold_a_number_of_the_decimals_each():
    column = {"type": "number", "min": 0, "max": 20, "decimals": 1, "bins": {"private": 4}}
    edges = schema_of({"x": column}).stored.columns[0].edges
    assert (len(edges), edges[1]) == (201, Fraction("0.1"))
    wide = schema_of({"x": column | {"max": 100_000, "decimals": 2}}).stored.columns[0]
    assert wide.bins <= 4096
    assert (wide.edges[1] * 100).denominator == 1


def test_levels_of_a_code_list_become_the_groups_at_its_top(tmp_path):
    (tmp_path / "c.csv").write_text(
        "code,label,parent\n1,Crops,\n11,Wheat,1\n12,Rye,1\n2,Trade,\n21,Shop,2\n22,Stall,2\n"
    )
    (tmp_path / "s.yaml").write_text(
        "version: 1\ntitle: t\ncolumns:\n"
        "  c: {type: category, codes: c.csv, levels: {private: 2}}\n"
    )
    schema = load_schema(tmp_path / "s.yaml")
    assert schema.columns[0].choice.groups == ("Crops", "Trade")
    assert schema.columns[0].choice.group_of == (0, 0, 0, 1, 1, 1)
    assert parse_schema(schema.document) == schema


NUMBER = {"type": "integer", "min": 0, "max": 99}
LEVELS = {"type": "category", "groups": {"a": ["x", "y"]}}


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (NUMBER | {"bins": {"private": 1}}, "at least 2"),
        (NUMBER | {"bins": {"private": 100_000}}, "at most 256"),
        (NUMBER | {"bins": {"private": 150}}, "more than the 100 values"),
        (NUMBER | {"bins": {"private": "many"}}, "not a whole number"),
        (NUMBER | {"bins": {"privat": 5}}, "Did you mean 'private'"),
        (NUMBER | {"bins": {"private": 5}, "edges": [0, 100]}, "not both"),
        ({"type": "integer", "max": 9, "bins": {"private": 5}}, "'min' is missing"),
        ({"type": "date", "min": "2000-01-01", "bins": {"private": 5}}, "'max' is missing"),
        ({"type": "number", "min": 1, "max": 1, "bins": {"private": 5}}, "equals min"),
        ({"type": "category", "levels": {"private": 20}}, "the key 'groups' is missing"),
        (LEVELS | {"levels": {"private": 0}}, "at least 1"),
        (LEVELS | {"levels": {"private": 2}}, "nothing to choose"),
        (LEVELS | {"levels": ["x"]}, "groups"),
        (LEVELS | {"levels": {"private": 1}, "type": "ordinal"}, "an ordinal"),
        (LEVELS | {"levels": {"private": 1}, "groups": {"a": ["x"], "b": ["x"]}}, "two groups"),
        (LEVELS | {"levels": {"private": 1}, "groups": {"a": ["x", "other a"]}}, "other a"),
        (LEVELS | {"levels": {"private": 1}, "groups": {"a": []}}, "without levels"),
        (LEVELS | {"levels": {"private": 1}, "groups": ["x", "y"]}, "clerk, manager"),
    ],
)
def test_a_mistake_gets_one_sentence(column, words):
    with pytest.raises(BadInput, match=words):
        schema_of({"c": column})


def test_no_rule_speaks_of_levels_that_are_chosen_privately():
    with pytest.raises(BadInput, match="levels of 'job'"):
        schema_of(COLUMNS, impossible=[{"sex": "f", "job": "f"}])


def test_a_rule_about_private_bins_is_judged_by_values():
    schema = schema_of(COLUMNS, impossible=[{"age": "<15", "sex": "f"}])
    assert [rule.columns for rule in schema.rules] == [("age", "sex")]


def test_a_code_list_without_a_hierarchy_has_no_groups(tmp_path):
    (tmp_path / "c.csv").write_text("code,label\n1,A\n2,B\n")
    (tmp_path / "s.yaml").write_text(
        "version: 1\ntitle: t\ncolumns:\n"
        "  c: {type: category, codes: c.csv, levels: {private: 1}}\n"
    )
    with pytest.raises(BadInput, match="parent"):
        load_schema(tmp_path / "s.yaml")


@pytest.mark.parametrize("source", ["job", "age"])
def test_nothing_follows_from_what_is_chosen_privately(source):
    rule = {"map": {"clerk": "x"}} if source == "job" else {"edges": [50]}
    dependent = {"type": "category", "levels": ["x", "y"], "follows": source} | rule
    with pytest.raises(BadInput, match="chosen privately, so no public rule"):
        schema_of(COLUMNS | {"old": dependent})


def test_no_public_total_is_of_what_is_chosen_privately():
    weight = {"type": "number", "min": 0, "max": 9, "role": "weight", "bins": {"private": 4}}
    columns = COLUMNS | {"w": weight}
    with pytest.raises(BadInput, match="'job'"):
        schema_of(columns, calibrate=[{"job": {"nurse": 3, "other indoors": 5}}])
    schema = schema_of(columns, calibrate=[{"sex": {"m": 3, "f": 5}}])
    # The column keeps its role on a grid, and when its bins are known.
    assert on_grid(schema, 4096).weight.name == "w"
    chosen = {"age": (1, 2, 3, 4, 5), "pay": tuple(range(1, 12)), "born": (1, 2, 3, 4)}
    chosen |= {"job": (0, 2), "w": (1, 2, 3)}
    made = {
        name: Chosen(codes, () if name == "job" else ((0, 1), *((code, 1) for code in codes)))
        for name, codes in chosen.items()
    }
    assert with_choices(schema, made).weight.bins == 4
