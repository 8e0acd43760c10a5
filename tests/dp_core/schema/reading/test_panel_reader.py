"""The schema of a panel becomes one of records, with a column for each wave."""

from __future__ import annotations

import numpy as np
import pytest

from dp_core.errors import BadInput
from dp_core.kernel.counting.dataset import Dataset
from dp_core.schema.panel.panel_waves import ABSENT
from dp_core.schema.reading.restricted_schema import restricted_schema
from dp_core.schema.reading.schema_file import parse_schema
from tests.panel_files import COLUMNS, WAVES, panel_document


def read(document=None, *, columns=None, panel=None, **keys):
    return parse_schema((document or panel_document(columns=columns, **(panel or {}))) | keys)


def possible(schema, **levels):
    """Return whether the structural zeros allow a record with these levels."""
    codes = {
        name: list(schema.column(name).code_labels()).index(label) for name, label in levels.items()
    }
    domain = schema.domain.project(tuple(codes))
    data = Dataset(domain, np.array([[codes[name]] for name in domain.columns], np.uint16))
    rules = [rule for rule in schema.zeros.rules if {*rule.columns} <= {*codes}]
    return not any(rule.breaks(data).any() for rule in rules)


def test_constant_columns_come_first_and_then_each_wave():
    schema = read()
    each = [[f"{name}_{w}" for name in ("in", "work", "income", "health")] for w in WAVES]
    assert schema.names == ("sex", "birth", *each[0], *each[1], *each[2])
    assert (schema.unit.column, schema.unit.max_rows) == ("id", 1)
    assert schema.column("work_2024").description == "work (wave 2024)"


def test_the_panel_says_which_column_belongs_to_which_wave():
    panel = read().panel
    assert panel.name("work", "2024") == "work_2024"
    assert panel.place("work_2024") == ("work", "2024")
    assert panel.place("in_2024") == ("in", "2024")
    assert panel.place("sex") is None
    with pytest.raises(KeyError):
        panel.name("sex", "2024")


def test_a_column_says_that_a_person_is_absent_if_and_only_if_the_wave_does():
    schema = read()
    assert schema.column("work_2023").code_labels() == ("employed", "other", ABSENT)
    assert possible(schema, in_2023="no", work_2023=ABSENT)
    assert not possible(schema, in_2023="no", work_2023="other")
    assert not possible(schema, in_2023="yes", work_2023=ABSENT)
    assert possible(schema, in_2023="no", income_2023="(missing)")
    assert not possible(schema, in_2023="yes", income_2023="(missing)")
    assert not possible(schema, in_2023="no", health_2023="good")
    # This column may be missing also if the person takes part.
    assert possible(schema, in_2023="yes", health_2023="(missing)")


def test_a_person_who_is_absent_in_every_wave_is_impossible():
    schema = read()
    assert not possible(schema, in_2023="no", in_2024="no", in_2025="no")
    assert possible(schema, in_2023="no", in_2024="no", in_2025="yes")


def test_a_category_that_may_be_missing_is_not_missing_in_a_wave_without_the_person():
    columns = COLUMNS | {"work": COLUMNS["work"] | {"missing": "level"}}
    schema = read(columns=columns)
    assert not possible(schema, in_2023="no", work_2023="(missing)")
    assert possible(schema, in_2023="yes", work_2023="(missing)")


def test_if_everyone_takes_part_nothing_is_added():
    schema = read(panel={"everyone": "true"})
    assert schema.panel.balanced
    assert not [name for name in schema.names if name.startswith("in_")]
    assert schema.column("work_2023").code_labels() == ("employed", "other")
    assert schema.column("income_2023").missing == "reject"
    assert not schema.zeros.rules


def test_the_document_of_records_gives_the_same_schema_again():
    rules = ["income >= 0", "if work == employed then income <= 3999"]
    for panel in ({}, {"everyone": "true"}, {"ignore_waves": ["2022"], "repeated": "keep_one"}):
        schema = read(panel=panel, rules=rules[1:], ignore=["x"])
        assert parse_schema(schema.document) == schema
        assert parse_schema(schema.document).document == schema.document


def test_a_column_of_the_file_may_be_ignored_whose_name_is_that_of_a_wave():
    schema = read(ignore=["work_2024"])
    assert schema.ignore == ("work_2024",)
    assert parse_schema(schema.document) == schema


def test_an_ignored_person_is_one_fault():
    with pytest.raises(BadInput) as refused:
        read(ignore=["id"])
    assert "\n" not in refused.value.message


def test_a_rule_that_names_a_column_of_the_file_holds_in_every_wave():
    rules = ["if work == employed then income <= 3999", "income_2024 <= income_2025"]
    schema = read(
        rules=rules, impossible=[{"work": "other", "health": "good"}, {"health_2023": "bad"}]
    )
    texts = [rule.text for rule in schema.rules]
    assert texts == [
        *(f"if in_{w} == yes and work_{w} == employed then income_{w} <= 3999" for w in WAVES),
        "income_2024 <= income_2025",
    ]
    stated = [rule.text for rule in schema.zeros.rules if "good" in rule.text]
    assert stated == [f"work_{w}: other, health_{w}: good" for w in WAVES]
    assert "health_2023: bad" in [rule.text for rule in schema.zeros.rules]


def test_a_rule_about_levels_does_not_hold_for_persons_who_are_absent():
    schema = read(rules=["health in [good, bad]"])
    assert [rule.text for rule in schema.rules] == [
        f"if in_{w} == yes then health_{w} in [good, bad]" for w in WAVES
    ]


def test_a_level_with_the_name_of_a_column_is_not_taken_for_it():
    columns = COLUMNS | {"health": {"type": "category", "levels": ["work", "income", "rest"]}}
    schema = read(
        columns=columns,
        rules=["if health == work then income <= 3999", "if work == other then health in [rest]"],
    )
    assert (
        schema.rules[1].text == "if in_2024 == yes and health_2024 == work then income_2024 <= 3999"
    )
    assert (
        schema.rules[5].text
        == "if in_2025 == yes and work_2025 == other then health_2025 in [rest]"
    )


def test_a_column_of_some_waves_has_no_column_for_the_others():
    columns = COLUMNS | {"health": COLUMNS["health"] | {"waves": ["2025", "2024"]}}
    schema = read(columns=columns, impossible=[{"work": "other", "health": "good"}])
    assert schema.panel.columns["health"] == {"2024": "health_2024", "2025": "health_2025"}
    assert "health_2023" not in schema.names
    rules = [rule.text for rule in schema.zeros.rules]
    assert "work_2023: other, health_2023: good" not in rules
    assert "work_2024: other, health_2024: good" in rules


def test_waves_are_named_by_letters_and_digits():
    schema = read(panel={"waves": ["2023-Q1", "2023-Q2"]})
    assert schema.panel.name("work", "2023-Q2") == "work_2023_Q2"


@pytest.mark.parametrize("missing", ["reject", "level"])
def test_a_column_that_follows_another_follows_it_in_each_wave(missing):
    columns = COLUMNS | {
        "any": {
            "type": "category",
            "levels": ["yes", "no"],
            "follows": "work",
            "map": {"1": "yes", "2": "no"},
        },
        "high": {
            "type": "ordinal",
            "levels": ["low", "high"],
            "follows": "income",
            "edges": ["0", "2000", "5000"],
        },
        "old": {
            "type": "ordinal",
            "levels": ["old", "young"],
            "follows": "birth",
            "edges": ["1968"],
            "constant": "true",
        },
    }
    columns["work"] = COLUMNS["work"] | {"missing": missing}
    schema = read(columns=columns)
    sources = {one.column.name: one.source for one in schema.dependents}
    assert (sources["any_2024"], sources["high_2025"]) == ("work_2024", "income_2025")
    assert sources["old"] == "birth"
    found = next(one for one in schema.dependents if one.column.name == "any_2024")
    assert found.column.levels[found.codes[2]].label == ABSENT
    assert parse_schema(schema.document) == schema


def test_bins_and_levels_that_are_chosen_privately_have_an_absent_value_too():
    columns = COLUMNS | {
        "income": {"type": "integer", "min": "0", "max": "4999", "bins": {"private": "4"}},
        "work": {
            "type": "category",
            "levels": {"private": "2"},
            "groups": {"a": ["1", "2", "3"], "b": ["4", "5"]},
        },
    }
    schema = read(columns=columns)
    assert {column.name for column in schema.private} == {
        *(f"income_{w}" for w in WAVES),
        *(f"work_{w}" for w in WAVES),
    }
    assert "in_2023: no, work_2023: not missing" in [rule.text for rule in schema.rules]
    assert parse_schema(schema.document) == schema


def test_some_columns_of_a_panel_are_a_panel():
    schema = restricted_schema(read(), ["work_2024", "in_2024", "sex"])
    assert schema.names == ("sex", "in_2024", "work_2024")
    assert schema.panel.sources(schema.reads[:-1]) == ("sex", "work")
    assert schema.panel.sources(schema.reads[:-1], "2023") == ("sex",)
    assert not possible(schema, in_2024="yes", work_2024=ABSENT)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"panel": {"waves": ["2023"]}}, "has fewer than two waves"),
        ({"panel": {"waves": ["2023", "!"]}}, "cannot be part of the name of a column"),
        ({"panel": {"waves": ["a.b", "a-b"]}}, "would give the same names of columns"),
        ({"panel": {"wave": "id"}}, "is also the `person`"),
        ({"panel": {"wave": "work"}}, "'work' tells persons or waves apart and is not released"),
        ({"panel": {"ignore_waves": ["2023"]}}, "is also under `waves`"),
        ({"panel": {"balanced": "true"}}, "there is no key 'balanced' here"),
        ({"panel": {"repeated": "first"}}, "'first' is not one of reject, keep_one"),
        ({"unit": {"column": "id", "max_rows": "3"}}, "a panel protects persons with all their"),
        ({"ignore": ["id"]}, "so it is read; remove it from `ignore`"),
        ({"ignore": ["work"]}, "'work' is also under `columns`"),
        ({"ignore": ["sex"]}, "'sex' is also under `columns`"),
        ({"columns": {"sex": COLUMNS["sex"]}}, "has no column that varies between waves"),
        ({"columns": COLUMNS | {"work_2023": COLUMNS["birth"]}}, "'work_2023' is that of a"),
        ({"columns": COLUMNS | {"in_2025": COLUMNS["birth"]}}, "'in_2025' is that of a column"),
        (
            {"columns": COLUMNS | {"w": {"type": "number", "role": "weight", "min": "1"}}},
            "in a panel, weights and columns of the sample design are the same in every wave",
        ),
        (
            {"columns": COLUMNS | {"health": COLUMNS["health"] | {"waves": ["2022"]}}},
            "'2022' is not a wave of the panel, which has 2023, 2024, 2025",
        ),
        ({"columns": COLUMNS | {"sex": COLUMNS["sex"] | {"waves": ["2023"]}}}, "a constant"),
        (
            {"columns": COLUMNS | {"sex": COLUMNS["sex"] | {"constant": "perhaps"}}},
            "neither true nor false",
        ),
        ({"columns": COLUMNS | {"work": COLUMNS["work"] | {"level": "3"}}}, "columns.work:"),
        ({"impossible": [{"wrk": "other"}]}, "there is no column 'wrk'"),
    ],
)
def test_mistakes_are_named_with_their_place(change, message):
    panel = change.pop("panel", {})
    with pytest.raises(BadInput, match=message):
        parse_schema(panel_document(**panel) | change)


def test_a_key_of_a_panel_is_refused_without_one():
    document = panel_document()
    del document["panel"]
    with pytest.raises(BadInput, match="there is no key 'constant' here"):
        parse_schema(document)
