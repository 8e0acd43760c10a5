"""What a tired person types in a schema, and the rule that the answer states."""

import pytest

from dp_core.errors import SYNONYMS
from dp_core.schema.column_types import registry
from tests.schema_texts import column, refusal

AGE = "  age: {type: integer, min: 0, max: 9}\n"


@pytest.mark.parametrize(
    ("definition", "answer"),
    [
        ("{type: category, levels: male, female}", "in {...} a comma ends the value."),
        ("{type: integer, min: \u20135, max: 9}", "write digits only, such as 20000."),
        ("{type: number, min: 0, max: 5000\u20ac, bins: 3}", "a decimal point and no unit"),
        ("{type: number, edges: [0,5, 2,5, 10]}", "edges must increase, but 2 follows 5."),
        ("{type: integer, min: 0, max: 9, optional: true}", "Did you mean 'missing'?"),
        ("{type: Integer, min: 0, max: 9}", "Did you mean 'integer'?"),
        ("{type: date, min: 01.01.2000, max: 31.12.2020}", "such as 2026-12-31."),
    ],
)
def test_the_answer_to_a_mistake_in_a_column_is_the_rule_with_an_example(definition, answer):
    message = refusal(column(definition))

    assert "line 4, columns.age" in message
    assert answer in message


@pytest.mark.parametrize("kind", ["category", "ordinal", "integer", "number", "date"])
def test_every_word_of_other_programs_means_a_key_or_a_type(kind):
    words = {word for word, meant in SYNONYMS.items() if meant == kind}
    assert not words & {*registry.words(), *SYNONYMS.values()}
    for word in words:
        assert f"Did you mean {kind!r}?" in refusal(column(f"{{type: {word}}}"))


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (f"version: v1\ntitle: t\ncolumns:\n{AGE}", "does not read version 'v1'"),
        (f"version: 1\ntitle: t\nvariables:\n{AGE}", "Did you mean 'columns'?"),
        (f"version: 1\ntitle: t\ncolumns:\n{AGE[:-2]}\n  sex: {{}}\n", "opens on line 4"),
        (f"version: 1\ntitle: t\ncolumns:\n  - age: {{}}\n{AGE}", "each item with `- `"),
        ("version: 1\ntitle: t\ncolumns:\n  s:\n    levels:\n      -a\n", "columns.s"),
        (f"version: 1\ntitle: t\ncolumns:\n{AGE}rules: [age > 3 implies age > 4]\n", "rules[1]"),
        (r'title: "C:\data"', "a backslash in single quotes"),
    ],
)
def test_the_answer_to_a_mistake_at_the_top_names_the_place_and_the_rule(text, answer):
    assert answer in refusal(text)
