"""What a tired person types in a schema, and the rule that the answer states."""

import pytest

from dp_core.errors import SYNONYMS
from dp_core.schema.column_types import registry
from tests.schema_texts import column, refusal

AGE = "  age: {type: integer, min: 0, max: 9}\n"


BRACES = "in {...} a comma ends the value."
LIST = "must be a list, such as ["
NUMBER = "write one with a decimal point and no unit, such as 0.5"
WHOLE = "write digits only, such as 20000."
DATE = "write year-month-day, such as 2026-12-31."


@pytest.mark.parametrize(
    ("definition", "answer"),
    [
        ("{type: category, levels: male, female}", BRACES),
        ("{type: category, levels: male}", "such as [low, high] or {1: low, 2: high}"),
        ("{type: category, levels: {male, female}}", "columns.age.levels.male: has no value"),
        ("{type: number, min: 0, max: 9, edges: 0 5 9}", LIST),
        ("{type: integer, min: 0, max: 99, bins: 0-9, 10-99}", BRACES),
        ("{type: integer, min: \u20135, max: 9}", WHOLE),
        ("{type: integer, min: 0, max: 10k, bins: 3}", WHOLE),
        ("{type: integer, min: 0, max: 99, bins: [0, 10, 100]}", "a single value, such as 5"),
        ("{type: integer, min: 0, max: 9},", "not valid YAML"),
        ("{type: category, levels: [\u201ca\u201d, b]}", "write straight ones."),
        ("{type: category, levels: [a, #2]}", "put quotes around"),
        (r'{type: category, codes: "C:\data\codes.csv"}', "a backslash in single quotes"),
        ("{type:integer, min:0, max:9}", BRACES),
        ("{type: number, min: 0, max: 5000\u20ac, bins: 3}", NUMBER),
        ("{type: number, min: 0, max: 1 000 000, bins: 3}", NUMBER),
        ("{type: number, min: 0, max: 9, bins: 0,5}", BRACES),
        ("{type: number, edges: [0,5, 2,5, 10]}", "edges must increase, but 2 follows 5."),
        ("{type: category, level: [a, b]}", "Did you mean 'levels'?"),
        ("{type: integer, minimum: 0, max: 9}", "Did you mean 'min'?"),
        ("{type: integer, min: 0, max: 9, optional: true}", "Did you mean 'missing'?"),
        ("{type: string}", "Did you mean 'category'?"),
        ("{type: Integer, min: 0, max: 9}", "Did you mean 'integer'?"),
        ("{type: id}", f"is not one of {', '.join(registry.words())}."),
        ("{type: integer, min: 0, max: 9, missing: NA}", "is not one of reject, level."),
        ("{type: date, min: 01.01.2000, max: 31.12.2020}", DATE),
    ],
)
def test_the_answer_to_a_mistake_in_a_column_is_the_rule_with_an_example(definition, answer):
    message = refusal(column(definition))

    assert "columns.age" in message or "not valid YAML" in message
    assert answer in message
    assert "line 4" in message or "not valid YAML" in message


@pytest.mark.parametrize("kind", ["category", "ordinal", "integer", "number", "date"])
def test_every_word_of_other_programs_means_a_key_or_a_type(kind):
    words = {word for word, meant in SYNONYMS.items() if meant == kind}
    assert not words & {*registry.words(), *SYNONYMS.values()}
    for word in words:
        assert f"Did you mean {kind!r}?" in refusal(column(f"{{type: {word}}}"))


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (f"version: 1\ntitle: t\ncolumns:\n{AGE}ignore: id, name\n", "line 5, ignore: must be a"),
        (f"version: 1\ntitle: t\ncolumns:\n{AGE}rows_about: 20.000\n", WHOLE),
        (f"version: v1\ntitle: t\ncolumns:\n{AGE}", "does not read version 'v1'"),
        ("version: 1\ntitle: t\ncolumns:\n  - {name: age, type: integer}\n", "as in age: {type: i"),
        (f"version: 1\ntitle: t\nvariables:\n{AGE}", "Did you mean 'columns'?"),
        (f"version: 1\ntitle: t\ncolumns:\n{AGE} {AGE}", "line 5: is not valid"),
        (f"version: 1\ntitle: t\ncolumns:\n{AGE[2:]}{AGE}", "check the indentation"),
        (f"version: 1\ntitle:t\ncolumns:\n{AGE}", "the space after every colon"),
        (f"version: 1\ntitle: t\ncolumns:\n{AGE[:-2]}\n  sex: {{}}\n", "opens on line 4"),
        (f"version: 1\ntitle: t\ncolumns:\n  - age: {{}}\n{AGE}", "each item with `- `"),
        ("version: 1\ntitle: 'Town's'\ncolumns: {}\n", "line 2: is not valid YAML"),
        ("version: 1\ntitle: t\ncolumns:\n  s:\n    levels:\n      -a\n", "columns.s"),
        (f"version: 1\ntitle: t\ncolumns:\n{AGE}rules: [age > 3 implies age > 4]\n", "rules[1]"),
    ],
)
def test_the_answer_to_a_mistake_at_the_top_names_the_place_and_the_rule(text, answer):
    assert answer in refusal(text)
