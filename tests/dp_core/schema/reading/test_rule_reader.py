import pytest

from tests.schema_texts import RAND, read, refusal


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
