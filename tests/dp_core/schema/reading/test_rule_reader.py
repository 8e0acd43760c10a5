from __future__ import annotations

import pytest

from dp_core.schema.reading.schema_document import schema_hash
from dp_core.schema.structure.member_rules import MemberRule
from tests.member_rules import ADULT, REFERENCE, SPOUSE, schema_with, text_with
from tests.member_rules import RULES as MEMBER_RULES
from tests.schema_texts import RAND, assert_reads_back, read, refusal


def test_rules_become_sorted_codes_in_the_order_they_were_written():
    (rule,) = read(RAND).zeros.rules

    assert rule.columns == ("visits", "health", "born")
    assert rule.codes[:2] == ((0, 1, 2), (1, 4))
    assert rule.codes[2] == (*range(99), *range(104, 127))
    assert rule.text == ("visits: <3, health: [fair, missing], born: not 1999-01-01..2003-12-31")


RULES = """\
version: 1
title: t
columns:
  age: {type: integer, min: 0, max: 99, edges: [0, 15, 18, 65, 100], missing: level}
  pay: {type: number, min: 0, max: 10, edges: [0, 2.5, 10]}
  born: {type: date, min: 2000-01-01, max: 2003-12-31, bins: year}
  sex: {type: category, levels: {1: "2", 2: male, x: missing}}
  mar: {type: category, levels: [single, married, widowed], missing: level}
impossible:
"""


def rule_codes(condition: str) -> tuple[int, ...]:
    name, _ = condition.split(":", 1)
    other = "mar" if name != "mar" else "age"
    value = "single" if other == "mar" else '"<15"'
    (rule,) = read(f"{RULES}  - {{{condition}, {other}: {value}}}\n").zeros.rules
    return rule.codes[rule.columns.index(name)]


@pytest.mark.parametrize(
    ("condition", "codes"),
    [
        ('age: "<15"', (0,)),
        ("age: <15", (0,)),
        ('age: "<=14"', (0,)),
        ('age: "≤ 17"', (0, 1)),
        ('age: ">=18"', (2, 3)),
        ('age: ">17"', (2, 3)),
        ('age: "15..17"', (1,)),
        ("age: 15 .. 64", (1, 2)),
        ('age: ["<15", ">=65"]', (0, 3)),
        ("age: missing", (4,)),
        ("age: {not: missing}", (0, 1, 2, 3)),
        ('age: {not: "<15"}', (1, 2, 3)),
        ('age: [missing, {not: ["<15", ">=65"]}]', (1, 2, 4)),
        ('pay: "<2.5"', (0,)),
        ('pay: ">=5/2"', (1,)),
        ("pay: 2.5..10", (1,)),
        ('born: ">=2002-01-01"', (2, 3)),
        ('born: "<=2000-12-31"', (0,)),
        ("born: 2001-01-01..2002-12-31", (1, 2)),
        ("mar: [widowed, married]", (1, 2)),
        ("mar: {not: single}", (1, 2)),
        ("mar: (missing)", (3,)),
        ("mar: [missing, single]", (0, 3)),
        # The file's text comes before a label, and a level called missing before the missing level.
        ('sex: "2"', (1,)),
        ("sex: 1", (0,)),
        ("sex: male", (1,)),
        ("sex: missing", (2,)),
    ],
)
def test_conditions_become_codes(condition, codes):
    assert rule_codes(condition) == codes


@pytest.mark.parametrize(
    ("rule", "parts"),
    [
        ('{age: "<14"}', ["age", "bin edge", "0 and 15"]),
        ('{age: "<=15"}', ["bin edge", "15 and 18"]),
        ("{age: 15}", ["bin edge", "15 and 18"]),
        ('{age: "<15.5"}', ["not a whole number"]),
        ('{age: "<old"}', ["'old' is not a whole number"]),
        ('{age: "17..15"}', ["'17..15'"]),
        ('{age: "<0"}', ["no value of column 'age'", "<0"]),
        ('{age: ["<15", "<14"]}', ["impossible[1].age[2]", "bin edge"]),
        ('{pay: "<=2.5"}', ["write < instead of <="]),
        ('{pay: ">2.5"}', ["write >="]),
        ("{pay: 2.5}", ["compare by < or >="]),
        ('{pay: "<3"}', ["at 3", "2.5 and 10"]),
        ("{pay: missing}", ["no missing level", "`missing: level`"]),
        ('{born: "<2001-06-01"}', ["2001-01-01 and 2002-01-01"]),
        ('{born: "<2001"}', ["write year-month-day"]),
        ("{mar: maried}", ["'maried' is not a level of 'mar'", "Did you mean 'married'"]),
        ("{zzz: single}", ["no column 'zzz'", "Known: age, born, mar, pay, sex"]),
        ("{ages: single}", ["no column 'ages'", "Did you mean 'age'"]),
        ("{mar: {nt: single}}", ["'nt'", "Did you mean 'not'"]),
        ("{mar: }", ["impossible[1].mar", "has no value"]),
        ("{mar: []}", ["impossible[1].mar", "empty"]),
        ("{}", ["impossible[1]", "is empty"]),
        ("single", ["impossible[1]", "must be a mapping"]),
        ("{mar: [single, married, widowed, missing]}", ["makes every row impossible"]),
        ("{sex: {not: [1, 2, x]}}", ["no value of column 'sex' meets not [1, 2, x]"]),
        ("{pay: 0..10}", ["makes every row impossible"]),
        ('{pay: 0..10, born: ">=2000-01-01"}', ["makes every row impossible"]),
        ('{pay: "<2.5"}\n  - {pay: ">=2.5"}', ["impossible[2]", "column 'pay'"]),
        ('{pay: "<2.5"}\n  - {pay: ">=2.5", sex: [1, 2, x]}', ["impossible[2]", "'pay'"]),
    ],
)
def test_rules_that_cannot_be_meant_are_refused(rule, parts):
    message = refusal(f"{RULES}  - {rule}\n")

    assert message.startswith(("s.yaml, line 10, impossible[1]", "s.yaml, line 11, impossible[2]"))
    assert all(part in message for part in parts), message


def test_a_mapping_in_place_of_the_list_of_rules_is_refused():
    assert "impossible: must be a list" in refusal(f"{RULES}  age: <15\n")


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
    schema = schema_with(*MEMBER_RULES)

    assert [rule.text for rule in schema.member_rules] == [*MEMBER_RULES[:3]]
    assert [rule.text for rule in schema.rules] == [MEMBER_RULES[3]]
    assert schema.document["rules"] == [*MEMBER_RULES]
    # A rule is not one of the table of persons by itself.
    assert schema.person_schema.document["rules"] == [MEMBER_RULES[3]]
    assert schema.person_schema.member_rules == ()


def test_the_document_reads_back_as_the_same_schema():
    schema = schema_with(*MEMBER_RULES)
    assert_reads_back(schema)
    assert schema_hash(schema_with(*MEMBER_RULES[1:])) != schema_hash(schema)


UNDER_PERSONS = text_with("if age < 16 then job != full").replace(
    "    columns:\n      age", f"    rules: [{REFERENCE}]\n    columns:\n      age"
)
RULES_REFUSED = [
    ("exactly one tenure == own", "names 'tenure', a column of the household, but"),
    ("at least one age >= 18 and members > 1", "names `members`, but a rule that counts members"),
    ("exactly one relations == reference", "there is no column 'relations' in the schema"),
    ("no more than one relation == reference", "there is no column 'no' in the schema. Known:"),
    (
        "if members == 1 then exactly one relation == reference",
        "there is no column 'exactly' in the schema",
    ),
    ("exactly one relation == head", "'head' is not a level of 'relation'"),
    ("at least one age >= 17", "bin edge of column 'age'"),
    ("exactly one", "ends after the number; add a condition"),
    ("at least some age >= 18", "'some' is not a number of members; write one to"),
    ("exactly 0 relation == spouse", "a rule cannot count 0 members; state a value"),
    ("at most one if age >= 18 then relation == spouse", "a rule of this form has no `if`"),
    ("at least one age >= 18 and age < 16", "no person meets the conditions of `at least one"),
    ("at least one age <= 99", "every person meets the conditions of `at least"),
    ("at least five relation == child", "no household obeys `at least five relation =="),
    ("at most 4 relation == child", "every household obeys `at most 4 relation =="),
]
TEXTS_REFUSED = [
    (
        text_with("at least one age - age <= 3")
        .replace("age - age", "age + nr2")
        .replace("      relation:", "      nr2: {type: integer, min: 0, max: 9}\n      relation:"),
        "compares 'age' with 'nr2', but a rule that",
    ),
    (
        text_with(
            REFERENCE, "at least one age < 16", "if relation == child then age >= 16"
        ).replace("max_members: 4", "max_members: 1")
        + "  - if relation == reference then age >= 16\n",
        "no household of any size can obey `exactly one",
    ),
    (UNDER_PERSONS, "there is no key 'rules' here. Known: columns"),
    (f"{RAND}rules:\n  - exactly one sex == male\n", "counts the members of a household, but this"),
]


@pytest.mark.parametrize(("rule", "said"), RULES_REFUSED)
def test_what_is_wrong_with_a_rule_is_said(rule, said):
    assert said in refusal(text_with(rule))


@pytest.mark.parametrize(("text", "said"), TEXTS_REFUSED)
def test_what_is_wrong_with_a_schema_is_said(text, said):
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
