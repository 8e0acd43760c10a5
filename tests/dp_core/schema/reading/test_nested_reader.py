"""Columns within one another, as a schema states them: maps, code lists and mistakes."""

from __future__ import annotations

import pytest

from dp_core.errors import BadInput
from dp_core.schema.expectations.suite import rules_of
from dp_core.schema.reading.schema_document import schema_hash
from dp_core.schema.reading.schema_file import load_schema
from tests.schema_texts import assert_reads_back

COLUMNS = """\
  district: {type: category, levels: {1: Alt, 2: Berg, 3: Col, 4: Dal}, within: county, map: d.csv}
  region:   {type: ordinal, levels: [north, south]}
  age:      {type: integer, min: 0, max: 99, bins: 5}
  county:   {type: category, levels: [x, y, z], within: region, map: {x: north, y: south, z: south}}
"""
DISTRICTS = "district,county\n1,y\n2,x\n3,z\n4,y\n"
# A code list: parishes in districts, so that no map is needed.
CODES = "code,label,parent\nA,Ham,\nA1,Hill,A\nA2,Lake,A\nB,Wood,\nB1,Ford,B\n"
CODED = """\
  parish: {type: category, codes: codes.csv, group: 2, within: place}
  place:  {type: category, codes: codes.csv, group: 1}
  sex:    {type: category, levels: [f, m]}
"""


def text_of(columns=COLUMNS, extra=""):
    return f"version: 1\ntitle: Town\ncolumns:\n{columns}{extra}"


def load(folder, columns=COLUMNS, extra="", districts=DISTRICTS):
    (folder / "d.csv").write_text(districts)
    (folder / "codes.csv").write_text(CODES)
    (folder / "s.yaml").write_text(text_of(columns, extra))
    return load_schema(folder / "s.yaml")


def refused(folder, columns, extra="", districts=DISTRICTS):
    """Return the message of a schema that is refused with exactly one fault."""
    with pytest.raises(BadInput) as found:
        load(folder, columns, extra, districts)
    message = str(found.value)
    assert "faults" not in message
    return message


def test_levels_lie_where_maps_in_the_schema_and_in_a_file_say(tmp_path):
    schema = load(tmp_path)
    nested = schema.nested
    assert nested is not None
    assert nested.columns == ("region", "county", "district")
    assert nested.parents == ((0, 1, 1), (1, 0, 2, 1))
    # Each level is a column of its own, in the place where the schema has it.
    assert schema.names == schema.domain.columns == ("district", "region", "age", "county")
    assert schema.domain.nested == nested
    assert [each.text for each in schema.nestings] == [
        "county lies within region",
        "district lies within county",
    ]


def test_a_schema_without_within_has_no_nested_columns(tmp_path):
    schema = load(tmp_path, "  sex: {type: category, levels: [f, m]}\n")
    assert (schema.nested, schema.domain.nested, schema.nestings) == (None, None, ())


def test_a_code_list_says_where_its_codes_lie_without_a_map(tmp_path):
    schema = load(tmp_path, CODED)
    nested = schema.nested
    assert nested is not None
    assert nested.columns == ("place", "parish")
    labels = {name: schema.column(name).code_labels() for name in nested.columns}
    told = {
        labels["parish"][code]: labels["place"][upper]
        for code, upper in enumerate(nested.map("place", "parish"))
    }
    assert told == {"Hill": "Ham", "Lake": "Ham", "Ford": "Wood"}


@pytest.mark.parametrize("columns", [COLUMNS, CODED])
def test_the_document_reads_back_as_the_same_schema(tmp_path, columns):
    schema = load(tmp_path, columns)
    assert_reads_back(schema)


def test_another_map_makes_another_schema(tmp_path):
    first = load(tmp_path)
    moved = load(tmp_path, districts=DISTRICTS.replace("4,y", "4,x"))
    assert schema_hash(moved) != schema_hash(first)
    assert moved != first


def test_the_suite_states_that_areas_lie_within_one_another(tmp_path):
    about = [rule.about for rule in rules_of(load(tmp_path), sets=False)]
    assert about.count("district lies within county") == 1
    assert about.count("county lies within region") == 1


MISTAKES = {
    "no such column": ("within: county", "within: countyy", "there is no column 'countyy'"),
    "itself": ("within: county", "within: district", "'district' cannot lie within itself"),
    "a number": ("within: county", "within: age", "'age' is not a category or an ordinal"),
    "a list": ("within: county", "within: [county, region]", "a single value"),
    "no map": (", map: d.csv", "", "the key 'map' is missing"),
    "no file": ("map: d.csv", "map: e.csv", "e.csv: there is no such file"),
    "no such area": ("x: north", "x: west", "'west' is not a level of 'region'"),
    "a level left out": ("x: north, y", "y", "'x' of 'county' is not mapped"),
    "an empty area": ("[north, south]", "[north, south, west]", "lies in 'west' of 'region'"),
    "it can be missing": ("within: county", "within: county, missing: level", "can be missing"),
    "a branch": ("within: county", "within: region", "in different hierarchies"),
    "no within": ("within: county, ", "", "name that column with `follows`, or with `within`"),
}


OF_COUNTY = ("no such area", "a level left out", "an empty area", "a branch")


@pytest.mark.parametrize("mistake", MISTAKES)
def test_each_mistake_is_told_with_its_column(tmp_path, mistake):
    right, wrong, told = MISTAKES[mistake]
    assert COLUMNS.count(right) == 1
    districts = DISTRICTS
    if mistake == "a branch":
        districts = "district,region\n1,south\n2,north\n3,south\n4,south\n"
    message = refused(tmp_path, COLUMNS.replace(right, wrong), districts=districts)
    assert told in message
    column = "county" if mistake in OF_COUNTY else "district"
    assert f"columns.{column}" in message


def test_a_larger_area_that_can_be_missing_is_refused(tmp_path):
    columns = COLUMNS.replace("[north, south]}", "[north, south], missing: level}")
    assert "'region' can be missing" in refused(tmp_path, columns)


def test_a_line_that_ends_where_it_begins_is_refused(tmp_path):
    columns = COLUMNS.replace(
        "[north, south]}", "[north, south], within: district, map: {1: north}}"
    )
    assert "lies within itself" in refused(tmp_path, columns)


def test_a_circle_beside_a_line_is_told_as_a_circle(tmp_path):
    circle = "".join(
        f"  {one}: {{type: category, levels: [p], within: {other}, map: {{p: p}}}}\n"
        for one, other in (("left", "right"), ("right", "left"))
    )
    assert "'left' lies within itself" in refused(tmp_path, COLUMNS + circle)


def test_two_lines_of_areas_are_refused(tmp_path):
    more = (
        "  field: {type: category, levels: [p, q]}\n"
        "  job: {type: category, levels: [p, q], within: field, map: {p: p, q: q}}\n"
    )
    message = refused(tmp_path, COLUMNS + more)
    assert "in different hierarchies" in message
    assert "job" in message


@pytest.mark.parametrize("source", ["county", "age"])
def test_a_column_does_not_both_follow_and_lie_within_another(tmp_path, source):
    how = "map: d.csv" if source == "county" else "edges: [20, 40, 60]"
    columns = COLUMNS.replace(
        "within: county, map: d.csv", f"within: county, follows: {source}, {how}"
    )
    districts = "county,district\nx,1\ny,2\nz,3\n"
    assert "remove `within`" in refused(tmp_path, columns, districts=districts)


@pytest.mark.parametrize("key", ["impossible", "rules"])
@pytest.mark.parametrize("name", ["region", "county"])
def test_a_rule_about_a_larger_area_is_refused(tmp_path, key, name):
    level = {"region": "north", "county": "x"}[name]
    rule = {
        "impossible": "impossible:\n  - {district: 1, age: '<20'}\n"
        f"  - {{{name}: {level}, age: '<20'}}\n",
        "rules": "rules:\n  - if district == 1 then age >= 20\n"
        f"  - if {name} == {level} then age >= 20\n",
    }[key]
    message = refused(tmp_path, COLUMNS, rule)
    assert f"{key}[2]: " in message
    assert f"names {name!r}" in message
    assert "state it for 'district'" in message


def test_a_rule_about_the_smallest_areas_is_read(tmp_path):
    schema = load(tmp_path, extra="impossible:\n  - {district: 1, age: '<20'}\n")
    assert [rule.columns for rule in schema.zeros.rules] == [("district", "age")]


def test_a_faulty_area_is_told_once(tmp_path):
    columns = COLUMNS.replace("levels: [x, y, z], within", "levels: [x, x, z], within")
    message = refused(tmp_path, columns)
    assert "county" in message


LINKED = """\
version: 1
title: Flats
unit: {table: homes, max_members: 3}
tables:
  homes:
    key: home
    columns:
      region: {type: category, levels: [north, south]}
      county: {type: category, levels: [x, y], WITHIN}
  people:
    key: person
    parent: homes
    link: home
    columns:
      sex:   {type: category, levels: [f, m]}
      place: {type: category, levels: [p, q]INSIDE}
"""


def linked(folder, within, inside=""):
    path = folder / "linked.yaml"
    path.write_text(LINKED.replace("WITHIN", within).replace("INSIDE", inside))
    return load_schema(path)


def test_columns_of_households_lie_within_one_another(tmp_path):
    schema = linked(tmp_path, "within: region, map: {x: north, y: south}")
    assert schema.domain.nested is not None
    assert schema.domain.nested.columns == ("region", "county")
    assert_reads_back(schema)


@pytest.mark.parametrize("upper", ["sex", "county"])
def test_columns_of_persons_do_not_lie_within_others(tmp_path, upper):
    levels = {"sex": ("f", "m"), "county": ("x", "y")}[upper]
    inside = f", within: {upper}, map: {{p: {levels[0]}, q: {levels[1]}}}"
    with pytest.raises(BadInput, match="only columns of households") as found:
        linked(tmp_path, "missing: reject", inside)
    assert "place" in str(found.value)


def test_a_column_of_households_does_not_lie_within_one_of_persons(tmp_path):
    # The message is about `within`, and not about the levels in the map.
    with pytest.raises(BadInput) as found:
        linked(tmp_path, "within: sex, map: {x: north, y: south}")
    (fault,) = found.value.faults
    assert fault.key == "tables.homes.columns.county.within"
    assert "only columns of households can lie within one another" in fault.text
