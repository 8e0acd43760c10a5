"""What a tired person types in a schema, and what the answer says to write instead."""

import pytest

from tests.schema_texts import column, refusal

AGE = "  age: {type: integer, min: 0, max: 9}\n"


@pytest.mark.parametrize(
    ("definition", "answer"),
    [
        ("{type: category, levels: male, female}", "in brackets: [male, female]"),
        ("{type: category, levels: male, female, other}", "in brackets: [male, female, other]"),
        ("{type: category, levels: male}", "write [male]"),
        ("{type: category, levels: 1=male; 2=female}", "write {1: male, 2: female}"),
        ("{type: category, levels: [1=male, 2=female]}", "{1: male, 2: female}"),
        ("{type: category, level: [a, b]}", "Did you mean 'levels'?"),
        ("{type: category, values: [a, b]}", "under `levels`"),
        ("{type: category, categories: [a, b]}", "under `levels`"),
        ("{type: string}", "write category and list its `levels`"),
        ("{type: int, min: 0, max: 9}", "write integer."),
        ("{type: float, min: 0, max: 9}", "write number."),
        ("{type: factor}", "write category"),
        ("{type: bool}", "levels: [false, true]"),
        ("{type: Integer, min: 0, max: 9}", "Did you mean 'integer'?"),
        ("{type: id}", "role: id"),
        ("{type: integer, min: 1.000, max: 9}", "write 1000, or 1 if"),
        ("{type: integer, min: 0, max: 1,000}", "write 1000 without"),
        ("{type: number, min: 0, max: 1,5, bins: 3}", "write 1.5 with a decimal point"),
        ("{type: integer, min: 0, max: 1e3, bins: 3}", "write 1000."),
        ("{type: integer, min: 0, max: 10k, bins: 3}", "write 10000."),
        ("{type: integer, min: 0-99}", "min is 0 and max is 99"),
        ("{type: integer, range: 0-99}", "state `min` and `max`"),
        ("{type: integer, minimum: 0, maximum: 9}", "write `min`"),
        ("{type: integer, min: 0, max: 999, bins: five}", "write 5."),
        ("{type: integer, min: 0, max: 99, bins: [0, 10, 100]}", "under `edges`"),
        ("{type: integer, edges: 10}", "write `bins: 10`"),
        ("{type: integer, min: 0, max: 9, missing: yes}", "write level"),
        ("{type: integer, min: 0, max: 9, missing: NA}", "under `missing_values`"),
        ("{type: integer, min: 0, max: 9, missing_values: NA}", "write [NA]"),
        ("{type: integer, min: 0, max: 9, optional: true}", "missing: level"),
        ("{type:integer, min:0, max:9}", "`type: integer`"),
        ("{type: date, min: 01.01.2000, max: 31.12.2020}", "write 2000-01-01"),
        ("{type: date, min: 2000, max: 2020}", "write the day, 2000-01-01"),
    ],
)
def test_the_answer_to_a_mistake_in_a_column_says_what_to_write(definition, answer):
    message = refusal(column(definition))

    assert "columns.age" in message
    assert answer in message
    assert "line 4" in message


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (f"version: 1\ntitle: t\ncolumns:\n{AGE}ignore: id, name\n", "write [id, name]"),
        (f"version: 1\ntitle: t\ncolumns:\n{AGE}rows_about: 20.000\n", "write 20000, or 20"),
        (f"version: 1.0\ntitle: t\ncolumns:\n{AGE}", "write 1."),
        ("version: 1\ntitle: t\ncolumns:\n  - {name: age, type: integer}\n", "as the key"),
        (f"version: 1\ntitle: t\nvariables:\n{AGE}", "write `columns`"),
        (f"version: 1\ntitle: t\ncolumns:\n{AGE}{AGE}", "given twice, first on line 4"),
        ("version: 1\ntitle: t\ncolumns:\n\tage: {}\n", "use spaces"),
    ],
)
def test_the_answer_to_a_mistake_at_the_top_says_what_to_write(text, answer):
    assert answer in refusal(text)
