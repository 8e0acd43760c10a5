"""Schemas of two linked tables: what is read, and what is refused in which words."""

import numpy as np
import pytest

from dp_core.errors import BadInput
from dp_core.schema.reading.schema_document import schema_hash
from dp_core.schema.reading.schema_file import parse_schema
from tests.schema_texts import FLATS, assert_reads_back, read, refusal


def edited(*edits: tuple[str, str]) -> str:
    text = FLATS
    for old, new in edits:
        assert text.count(old) == 1, f"{old} is there {text.count(old)} times"
        text = text.replace(old, new)
    return text


EMPTY = edited(
    ("max_members: 4", "max_members: 4, min_members: 0"),
    ("children < members", "children <= members"),
)
"""Changes to the schema after which households may be without members."""


def test_the_wide_domain_has_the_households_their_size_a_member_and_another_member():
    schema = read(FLATS)

    assert schema.domain.columns == (
        *("district", "income", "children", "members", "age", "sex", "job"),
        *("other.age", "other.sex", "other.job"),
    )
    assert schema.domain.sizes == (2, 6, 4, 4, 4, 3, 3, 5, 4, 4)
    assert schema.names == schema.domain.columns
    assert schema.column("members").code_labels() == ("1", "2", "3", "4")
    assert schema.unit.word == "household"
    assert schema.unit.most == 4
    assert schema.rows_about == 28000


def test_the_tables_and_their_keys_are_known():
    linked = read(FLATS).linked

    assert (linked.households, linked.persons) == ("households", "persons")
    assert linked.household_reads == ("hh", "district", "income", "children")
    assert linked.person_reads == ("hh", "number", "age", "sex", "job")
    assert linked.household_ignore == ("street",)
    assert linked.person_ignore == ("street", "passport")
    assert (linked.min_members, linked.max_members, linked.larger) == (1, 4, "reject")


def test_another_member_has_the_codes_of_a_member_and_one_for_nobody():
    schema = read(FLATS)

    for name in schema.linked.person_columns:
        labels = schema.column(f"other.{name}").code_labels()
        assert labels == (*schema.column(name).code_labels(), "(no other member)")
    assert schema.column("other.sex").kind == "category"
    assert schema.column("other.age").kind == "ordinal"
    # A level is named by the text of the file, as in the column itself.
    assert [level.text for level in schema.column("other.sex").levels[:2]] == ["m", "f"]


def test_a_structural_zero_of_persons_holds_for_the_other_member_too():
    schema = read(FLATS)
    alone = {rule.columns: rule.codes for rule in schema.zeros.rules if not rule.derived}

    assert alone == {("age", "job"): ((0,), (1, 2)), ("other.age", "other.job"): ((0,), (1, 2))}
    derived = {rule.columns for rule in schema.zeros.rules if rule.derived}
    assert derived == {("children", "members"), ("income", "job"), ("income", "other.job")}


def test_rules_may_name_the_number_of_members():
    schema = read(FLATS)
    impossible = schema.zeros.mask(schema.domain.project(("children", "members")))

    assert [[int(members) for members in row] for row in impossible] == [
        [0, 0, 0, 0],
        [1, 0, 0, 0],
        [1, 1, 0, 0],
        [1, 1, 1, 0],
    ]


def test_without_members_person_columns_have_a_code_of_their_own():
    plain, schema = read(FLATS), read(EMPTY)

    assert schema.domain.sizes == (2, 6, 4, 5, 5, 4, 4, 5, 4, 4)
    assert schema.column("members").code_labels() == ("0", "1", "2", "3", "4")
    for name in schema.linked.person_columns:
        labels = plain.column(name).code_labels()
        assert schema.column(name).code_labels() == (*labels, "(no member)")
        assert schema.column(name).of_member == plain.column(name)
        # Another member has no code for a household without members: it has no other one.
        assert schema.column(f"other.{name}") == plain.column(f"other.{name}")
    assert schema.person_schema.domain == plain.person_schema.domain
    assert schema.person_schema.zeros == plain.person_schema.zeros
    assert schema.household_schema.domain == plain.household_schema.domain


def test_a_household_has_no_members_exactly_if_every_person_column_says_so():
    schema = read(EMPTY)
    of_size = schema.zeros.mask(schema.domain.project(("members", "sex")))
    of_person = schema.zeros.mask(schema.domain.project(("age", "sex")))
    of_other = schema.zeros.mask(schema.domain.project(("age", "other.sex")))

    np.testing.assert_array_equal(of_size[0], [True, True, True, False])
    np.testing.assert_array_equal(of_size[1:, -1], True)
    np.testing.assert_array_equal(of_person[-1], [True, True, True, False])
    np.testing.assert_array_equal(of_person[:-1, -1], True)
    np.testing.assert_array_equal(of_other[-1], [True, True, True, False])
    assert not of_other[:-1, -1].any()  # a person who lives alone
    assert not of_size[1:, :-1].any()


def test_a_rule_about_the_number_of_members_is_also_about_households_without_any():
    schema = read(EMPTY)
    impossible = schema.zeros.mask(schema.domain.project(("children", "members")))

    assert impossible[:, 0].tolist() == [False, True, True, True]


def test_the_schema_of_households_with_members_is_that_without_empty_ones():
    plain = read(edited(("children < members", "children <= members")))
    schema = read(EMPTY).with_members

    assert schema.domain == plain.domain
    assert {(r.columns, r.codes) for r in schema.zeros.rules} == {
        (r.columns, r.codes) for r in plain.zeros.rules
    }
    assert plain.with_members is plain


@pytest.mark.parametrize("least", [0, 1])
def test_the_document_reads_back_as_the_same_schema_whatever_json_does_to_it(least):
    sizes = f"max_members: 7, larger: clip, min_members: {least}"
    schema = read(edited(("max_members: 4", sizes)))
    assert_reads_back(schema)
    assert schema.linked.larger == "clip"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("max_members: 4", "max_members: 5"),
        ("max_members: 4", "max_members: 4, larger: clip"),
        ("key: number", "key: no"),
        ("passport: {role: id}", "card: {role: id}"),
        ("children < members", "children <= members"),
        ("{m: male, f: female}", "{f: female, m: male}"),
    ],
)
def test_the_hash_knows_the_keys_the_sizes_and_the_tables(old, new):
    assert schema_hash(read(edited((old, new)))) != schema_hash(read(FLATS))


def test_the_order_of_the_two_tables_is_free():
    head, homes = FLATS.split("  households:\n")
    homes, persons = homes.split("  persons:\n")
    persons, rules = persons.split("impossible:")
    swapped = (
        f"{head}  persons:\n{persons}  households:\n{homes}impossible:{rules}"  # persons first
    )

    assert read(swapped) == read(FLATS)


def test_each_table_has_a_schema_of_its_own_that_reads_back():
    schema = read(edited(("  - children < members\n", "  - if age < 40 then job != full\n")))
    homes, persons = schema.household_schema, schema.person_schema

    assert homes.names == schema.linked.household_columns
    assert persons.names == schema.linked.person_columns
    assert homes.ignore == ("hh", "street")
    assert persons.ignore == ("hh", "number", "street", "passport")
    assert (homes.rows_about, persons.rows_about) == (28000, None)
    assert homes.rules == ()
    assert [rule.text for rule in persons.rules] == ["if age < 40 then job != full"]
    assert [rule.derived for rule in persons.zeros.rules] == [False, True]
    assert parse_schema(homes.document) == homes
    assert parse_schema(persons.document) == persons
    for one in (homes, persons):
        for column in one.columns:
            assert column == schema.column(column.name)


def test_a_single_table_has_no_schemas_of_two():
    with pytest.raises(ValueError, match="single table"):
        _ = read(FLATS).household_schema.person_schema


WITHOUT_PERSONS = FLATS[: FLATS.index("  persons:")] + FLATS[FLATS.index("impossible:") :]
THIRD = """\
  rooms:
    key: room
    parent: {}
    link: hh
    columns:
      floor: {{type: integer, min: 0, max: 9}}
impossible:
"""
REFUSED = [
    (
        (("impossible:\n", THIRD.format("households")),),
        "has 3 tables; linked tables are two, one of",
    ),
    (
        (("impossible:\n", THIRD.format("persons")),),
        "tables.rooms.parent: the table 'persons' has a",
    ),
    ((("parent: households", "parent: household"),), "there is no table 'household'. Did you mean"),
    ((("parent: households", "parent: persons"),), "cannot be its own parent"),
    ((("    parent: households\n    link: hh\n", ""),), "does not say which table has the persons"),
    ((("    key: hh\n", "    key: hh\n    link: hh\n"),), "only the table of persons has a link"),
    ((("    key: hh\n", ""),), "the key 'key' is missing"),
    ((("key: number", "key: hh"),), "is also the `link`"),
    (
        (("      age:", "      number: {type: integer, min: 1, max: 4}\n      age:"),),
        "'number' is a key and is not released; remove",
    ),
    (
        (("      passport: {role: id}\n    ignore: [street]", "    ignore: [number]"),),
        "'number' is a key, so it is read; remove it",
    ),
    (
        (
            ("children: {", "number: {"),
            ("children < members", "number < members"),
        ),
        "'number' is a key of the other table",
    ),
    ((("sex: {type", "income: {type"),), "tables.persons.columns.income: 'income' is also"),
    (
        (("passport: {role: id}\n    ignore: [street]", "x: {role: id}\n    ignore: [age]"),),
        "'age' is also under `columns`",
    ),
    (
        (
            ("children: {", "members: {"),
            ("children < members", "members < 4"),
        ),
        "the name members is reserved",
    ),
    (
        (
            ("children: {", "other.age: {"),
            ("children < members", "other.age < members"),
        ),
        "a name that begins with other. is reserved",
    ),
    (
        (("{m: male, f: female}", '{m: male, f: "(no other member)"}'),),
        "the level '(no other member)' is reserved",
    ),
    ((("  persons:", "  a/b:"),), "not a valid name"),
    ((("tables:", "columns: {}\ntables:"),), "columns: with linked tables, it stands under"),
    (
        (("passport: {role: id}", "old: {follows: age, map: {}}"),),
        "linked tables have no columns that follow",
    ),
    (
        (("passport: {role: id}", "w: {type: number, min: 0, max: 9, bins: 3, role: weight}"),),
        "linked tables have no weights and no sample",
    ),
    (
        (
            ("bins: 5, decimals: 0", "bins: {private: 4}, decimals: 0"),
            ("  - if income < 20 then job != full\n", ""),
        ),
        "tables.households.columns.income.bins: the bins",
    ),
    (
        (("levels: {1: north, 2: south}", "levels: {private: 1}, groups: {a: [1, 2]}"),),
        "the levels of linked tables cannot be chosen",
    ),
    ((("tables:", "calibrate: []\ntables:"),), "weights are not calibrated"),
    ((("unit: {table: households, max_members: 4}\n", ""),), "'unit' is missing"),
    ((("{table: households, max_members: 4}", "row"),), "'row' is not a unit"),
    ((("table: households", "table: persons"),), "'persons' is the table of persons, but linked"),
    ((("table: households", "column: hh"),), "there is no key 'column' here. Known: larger"),
    ((("table: households", "table: homes"),), "no table 'homes'"),
    (((", max_members: 4", ""),), "the key 'max_members' is missing"),
    ((("max_members: 4", "max_members: 21"),), "must be at most 20"),
    ((("max_members: 4", "max_members: 4, min_members: 2"),), "must be at most 1"),
    (
        (("impossible:\n", "impossible:\n  - {members: 0, children: '>0'}\n"),),
        "impossible[1].members: no value of column",
    ),
    ((("max_members: 4", "max_members: 4, larger: drop"),), "'drop' is not one of reject, clip"),
    ((("if income < 20", "if income < 30"),), "rules[2]: `if income < 30 then job != full`"),
    (
        (("children < members", "children <= age"),),
        "two columns that it compares must have one bin",
    ),
]


@pytest.mark.parametrize(("edits", "said"), REFUSED)
def test_what_is_wrong_is_said_in_one_sentence_with_its_place(edits, said):
    message = refusal(edited(*edits))

    assert said in message
    assert " faults:" not in message


def test_one_table_needs_no_list_of_tables():
    assert "one table" in refusal(WITHOUT_PERSONS)


def test_all_faults_of_both_tables_are_listed_at_once():
    text = edited(
        ("max_members: 4", "max_members: 40"),
        ("children: {", "members: {"),
        ("  - children < members\n", ""),
        ("type: ordinal", "type: ordinary"),
    )
    with pytest.raises(BadInput) as caught:
        read(text)

    assert [fault.key for fault in caught.value.faults] == [
        "unit.max_members",
        "tables.households.columns.members",
        "tables.persons.columns.job.type",
    ]


def test_a_rule_over_both_tables_compares_columns_with_one_bin_for_each_value():
    age = "age: {type: integer, min: 0, max: 99}"
    schema = read(
        edited(
            ("age: {type: integer, min: 0, max: 99, edges: [0, 16, 40, 65, 100]}", age),
            ("children < members", "children <= age"),
        )
    )
    impossible = schema.zeros.mask(schema.domain.project(("children", "age")))

    assert all(
        impossible[children, age] == (children > age) for children in range(4) for age in range(100)
    )


def test_a_release_spec_with_tables_is_still_said_to_be_one():
    with pytest.raises(BadInput, match="is a release spec, not a schema"):
        parse_schema({"version": 1, "release": "r", "tables": [{"of": ["a", "b"]}]})


def test_a_fault_in_the_unit_makes_no_second_fault_of_a_rule_about_the_number_of_members():
    text = edited(
        ("max_members: 4", "max_member: 4"),
        ("impossible:\n", "impossible:\n  - {members: 0, children: '>0'}\n"),
    )

    message = refusal(text)

    assert "Did you mean 'max_members'" in message
    assert "impossible" not in message
