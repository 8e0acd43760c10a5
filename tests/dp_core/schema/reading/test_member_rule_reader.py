"""Rules that count the members of a household: what is read, and what is refused in which words."""

from __future__ import annotations

import json

import pytest

from dp_core.schema.reading.schema_document import schema_hash
from dp_core.schema.reading.schema_file import parse_schema
from dp_core.tables.member_rules import MemberRule
from dp_core.text.canonical import canonical_json
from tests.member_rules import ADULT, REFERENCE, RULES, SPOUSE, schema_with, text_with
from tests.schema_texts import RAND, refusal

READ = {
    REFERENCE: MemberRule(text=REFERENCE, columns=("relation",), codes=((0,),), least=1, most=1),
    SPOUSE: MemberRule(text=SPOUSE, columns=("relation",), codes=((1,),), most=1),
    ADULT: MemberRule(text=ADULT, columns=("age",), codes=((2, 3),), least=1),
    # A level is named by the text of the file, too.
    "At most 3 relation in [2, child] and age < 18": MemberRule(
        text="At most 3 relation in [2, child] and age < 18",
        columns=("age", "relation"),
        codes=((0, 1), (1, 2)),
        most=3,
    ),
    "exactly two job is missing": MemberRule(
        text="exactly two job is missing", columns=("job",), codes=((3,),), least=2, most=2
    ),
    # A missing value meets no condition about values.
    "at least one job != none": MemberRule(
        text="at least one job != none", columns=("job",), codes=((1, 2),), least=1
    ),
    "at most one age >= 16 and age < 65": MemberRule(
        text="at most one age >= 16 and age < 65", columns=("age",), codes=((1, 2),), most=1
    ),
}


@pytest.mark.parametrize("text", READ)
def test_a_rule_has_the_codes_that_are_counted_and_its_limits(text):
    assert schema_with(text).linked.rules == (READ[text],)


def test_rules_that_count_stand_among_those_between_columns():
    schema = schema_with(*RULES)

    assert [rule.text for rule in schema.member_rules] == [*RULES[:3]]
    assert [rule.text for rule in schema.rules] == [RULES[3]]
    assert schema.document["rules"] == [*RULES]
    # A rule is not one of the table of persons by itself.
    assert schema.person_schema.document["rules"] == [RULES[3]]
    assert schema.person_schema.member_rules == ()


def test_the_document_reads_back_as_the_same_schema():
    schema = schema_with(*RULES)
    again = parse_schema(json.loads(canonical_json(schema.document)))

    assert again == schema
    assert schema_hash(again) == schema_hash(schema)
    assert schema_hash(schema_with(*RULES[1:])) != schema_hash(schema)


UNDER_PERSONS = text_with("if age < 16 then job != full").replace(
    "    columns:\n      age", f"    rules: [{REFERENCE}]\n    columns:\n      age"
)
REFUSED = {
    "a column of the household": (
        text_with("exactly one tenure == own"),
        "names 'tenure', a column of the household, but a rule that counts members is about columns"
        " of the table people; remove this condition.",
    ),
    "the number of members": (
        text_with("at least one age >= 18 and members > 1"),
        "names `members`, but a rule that counts members is about columns of the table people",
    ),
    "an unknown column": (
        text_with("exactly one relations == reference"),
        "there is no column 'relations' in the schema. Did you mean 'relation'?",
    ),
    "another form": (
        text_with("no more than one relation == reference"),
        "there is no column 'no' in the schema. Known: age",
    ),
    "an implication before the number": (
        text_with("if members == 1 then exactly one relation == reference"),
        "there is no column 'exactly' in the schema. Known: age",
    ),
    "an unknown level": (
        text_with("exactly one relation == head"),
        "'head' is not a level of 'relation'",
    ),
    "a value within a bin": (
        text_with("at least one age >= 17"),
        "bin edge of column 'age'",
    ),
    "values within a bin": (
        text_with("at most one age in [16, 40]"),
        "bin edge of column 'age'",
    ),
    "two columns": (
        text_with("at least one age - age <= 3")
        .replace("age - age", "age + nr2")
        .replace("      relation:", "      nr2: {type: integer, min: 0, max: 9}\n      relation:"),
        "compares 'age' with 'nr2', but a rule that counts members compares columns only with"
        " values; write a value.",
    ),
    "no condition": (text_with("exactly one"), "ends after the number; add a condition"),
    "another number": (
        text_with("at least some age >= 18"),
        "'some' is not a number of members; write one to ten, or digits",
    ),
    "no member": (
        text_with("exactly 0 relation == spouse"),
        "a rule cannot count 0 members; state a value that no member may have under `impossible`.",
    ),
    "an implication": (
        text_with("at most one if age >= 18 then relation == spouse"),
        "a rule of this form has no `if`",
    ),
    "nobody": (
        text_with("at least one age >= 18 and age < 16"),
        "no person meets the conditions of `at least one age >= 18 and age < 16`",
    ),
    "everybody": (
        text_with("at least one age <= 99"),
        "every person meets the conditions of `at least one age <= 99`; to limit the size of"
        " households, name `members` under `impossible`.",
    ),
    "too many": (
        text_with("at least five relation == child"),
        "no household obeys `at least five relation == child`, because a household has at most 4"
        " members",
    ),
    "a limit that is never reached": (
        text_with("at most 4 relation == child"),
        "every household obeys `at most 4 relation == child`, because a household has at most 4"
        " members",
    ),
    "rules that exclude one another": (
        text_with(
            REFERENCE, "at least one age < 16", "if relation == child then age >= 16"
        ).replace("max_members: 4", "max_members: 1")
        + "  - if relation == reference then age >= 16\n",
        "no household of any size can obey `exactly one relation == reference`, `at least one age <"
        " 16` together with the other rules; correct or remove one of them.",
    ),
    "under the table of persons": (
        UNDER_PERSONS,
        "there is no key 'rules' here. Known: columns, ignore",
    ),
    "a single table": (
        f"{RAND}rules:\n  - exactly one sex == male\n",
        "counts the members of a household, but this schema has a single table; state the"
        " households and the persons under `tables`, or remove the rule.",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_wrong_is_said_in_one_sentence_with_its_place(case):
    text, said = REFUSED[case]
    assert said in refusal(text)


def test_the_faults_of_several_rules_are_listed_at_once():
    message = refusal(text_with("exactly one tenure == own", REFERENCE, "at least one age >= 17"))

    assert "2 faults" in message
    assert "rules[1]" in message
    assert "rules[3]" in message


def test_the_first_rule_that_leaves_no_household_possible_is_named():
    text = text_with("at most one relation == child", REFERENCE, "at least 3 relation == spouse")
    text = text.replace("max_members: 4", "max_members: 3")
    message = refusal(text)

    assert "rules[3]: no household of any size can obey" in message
    assert "`exactly one relation == reference`, `at least 3 relation == spouse`" in message


def test_too_many_rules_are_refused_and_not_tried_for_long():
    levels = ", ".join(f"l{number}" for number in range(20))
    text = text_with(*(f"at most one relation == l{number}" for number in range(20)))
    text = text.replace("{1: reference, 2: spouse, 3: child}", f"[{levels}]")

    assert "too many rules that count members to check them together" in refusal(text)
