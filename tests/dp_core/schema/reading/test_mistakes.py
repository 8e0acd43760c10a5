"""What a tired person types in a schema, and what the answer says to write instead."""

import pytest

from tests.schema_texts import column, read, refusal

AGE = "  age: {type: integer, min: 0, max: 9}\n"


@pytest.mark.parametrize(
    ("definition", "answer"),
    [
        ("{type: category, levels: male, female}", "in brackets: [male, female]"),
        ("{type: category, levels: male, female, other}", "in brackets: [male, female, other]"),
        ("{type: category, levels: male}", "write [male]"),
        ("{type: category, levels: {male, female}}", "write [male, female] in brackets"),
        ("{type: category, levels: (male, female)}", "in brackets: [male, female]"),
        ("{type: category, levels: male female}", "[male, female], or [male female] if it is one"),
        ("{type: number, min: 0, max: 9, edges: 0 5 9}", "write [0, 5, 9]"),
        (
            "{type: integer, min: 0, max: 99, bins: 0-9, 10-99}",
            "write a list of edges under `edges`",
        ),
        (
            "{type: number, min: 0, max: 9, bins: 3, decimals: 0.01}",
            "digits after the decimal point; write 2.",
        ),
        ("{type: integer, min: \u20135, max: 9}", "a hyphen (-) as the minus sign"),
        ("{type: integer, min: 0, max: 99+}", "write 99."),
        ("{type: integer, min: 0, max: 9},", "remove the comma at the end of the line"),
        ("{type: category, levels: 1-5}", "write [1, 2, 3, 4, 5] instead of '1-5'"),
        ("{type: category, levels: [1-5]}", "'1-5' is one level; write [1, 2, 3, 4, 5]"),
        ("{type: category, levels: [\u201ca\u201d, b]}", 'write "a".'),
        ("{type: category, levels: [a, #2]}", "a text that starts with # needs quotes"),
        (r'{type: category, codes: "C:\data\codes.csv"}', "a backslash in single quotes"),
        ("{type integer, min: 0, max: 9}", "a colon after the key: `type: integer`"),
        ("{type: number, min: 0, max: 5000\u20ac}", "write the number only, 5000."),
        ("{type: number, min: 0, max: 40 hours}", "write the number only, 40."),
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
        (
            "{type: number, min: 1,2, max: 2,2, bins: 4}",
            "write {min: 1.2, max: 2.2} with decimal points",
        ),
        (
            "{type: number, min: -1,25, max: 3,75, bins: 4}",
            "write {min: -1.25, max: 3.75} with decimal points",
        ),
        ("{type: number, min: 1.234,5, max: 9.999,5}", "write {min: 1234.5, max: 9999.5} with"),
        ("{type: number, min: 0, max: 1,000,000}", "write {max: 1000000} without thousands"),
        ("{type: number, min: 1,000, max: 2,000}", "write {min: 1000, max: 2000} without"),
        ("{type: number, min: 0, max: 1,2 bins: 3}", "a comma is missing before 'bins'"),
        ("{type: number, min: 1,2 max: 2}", "a comma is missing before 'max'"),
        ("{type: number; min: 0; max: 9}", "by commas, not by semicolons"),
        ("{type: number, min: 0, max: 9, bins: 0,5}", "'0,5' is not a number of bins"),
        ("{type: number, min: 0, max: 9, edges: [0,5; 2,5; 9]}", "by commas: [0.5, 2.5, 9]"),
        ("{type: number, edges: [0,5, 2,5, 10]}", "decimal commas, write [0.5, 2.5, 10]"),
        ("{type: category, levels: [a; b; c]}", "separate levels by commas: [a, b, c]"),
        ("{type: ordinal, levels: [1,5, 2,5]}", 'put the text in quotes: "1,5"'),
        ("{type: number, min: 0, max: 1.000.000}", "separators, as in 1000000"),
        ("{type: number, min: 0, max: 1 000 000}", "separators, as in 1000000"),
        ("{type: number, min: 0, max: 1'000.5}", "separators, as in 1000.5"),
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

    assert "columns.age" in message or "not valid YAML" in message
    assert answer in message
    assert "line 4" in message


@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        (
            "type: number\n    min: 1,2\n    max: 2,2",
            "line 6, columns.age.min: '1,2' is not a number",
        ),
        (
            "type: number\n    min: 0\n    max: 2\n    bins: 0,5",
            "line 8, columns.age.bins: '0,5' is not",
        ),
        ("type: number\n    min: 0\n    max: 1.000,50", "separators, as in 1000.50"),
        ("type: number\n    edges: 0,5; 2,5; 10", "write [0.5, 2.5, 10]"),
    ],
)
def test_decimal_commas_in_block_style_are_answered_at_their_line(keys, answer):
    assert answer in refusal(column(f"\n    {keys}"))


@pytest.mark.parametrize(
    "definition",
    [
        "{type: category, levels: {1: male, 2: female}}",
        '{type: category, levels: ["a; b"]}',
        "{type: category, levels: [a; b, c]}",
        '{type: category, levels: ["1-5"]}',
        "{type: category, levels: [0-4, 5-9]}",
        '{type: category, levels: ["\u201ca\u201d", b]}',
        "{type: number, min: 0, max: 9, edges: [0, 5, 9]}",
        "{type: integer, min: 0, max: 9, edges: [0, 5, 7, 10]}",
    ],
)
def test_what_only_resembles_a_decimal_comma_is_read(definition):
    assert read(column(definition)).columns[0].name == "age"


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
        (f"version: 1\ntitle: t\ncolumns:\n{AGE} {AGE}", "line 5 begins after 3 spaces and line 4"),
        (
            f"version: 1\ntitle: t\ncolumns:\n{AGE[2:]}{AGE}",
            "line 5 begins after 2 spaces and line",
        ),
        (f"version: 1\ntitle: t\ncolumns\n{AGE}", "line 3: is not valid"),
        (f"version: 1\ntitle: t\ncolumns\n{AGE}", "a colon after the key: `columns:`"),
        (f"version: 1\ntitle:t\ncolumns:\n{AGE}", "`title: t`"),
        (f"version: 1\ntitle = t\ncolumns:\n{AGE}", "line 2: is not valid YAML"),
        (f"version: 1\ntitle = t\ncolumns:\n{AGE}", "write `title: t`"),
        (f"version: 1\ntitle: t\n// ages\ncolumns:\n{AGE}", "a comment begins with #"),
        (f"version: 1\ntitle: t\ncolumns:\n{AGE[:-2]}\n  sex: {{}}\n", "opens on line 4"),
        (f"version: 1\ntitle: \u201ct\u201d\ncolumns:\n{AGE}", 'quotes; write "t".'),
        (f"version: 1\ntitle: t\ncolumns:\n  - age: {{}}\n{AGE}", "each item with `- `"),
        ("version: 1\ntitle: 'Town's'\ncolumns: {}\n", "apostrophe needs double quotes"),
        ("version: 1\ntitle\uff1a t\ncolumns: {}\n", "a full-width colon or comma; write : or ,"),
        (
            "version: 1\ntitle: t\ncolumns:\n  s:\n    type: category\n    levels:\n      -a\n",
            "a space after each dash",
        ),
        (
            "version: 1\ntitle: t\ncolumns:\n  s:\n    type: integer\n    min 0\n    max: 9\n",
            "`min: 0`",
        ),
        (
            f"version: 1\ntitle: t\ncolumns:\n{AGE}rules: [age > 3 implies age > 4]\n",
            "words, such as `if",
        ),
        (f"version: v1\ntitle: t\ncolumns:\n{AGE}", "'v1' is not a version; write 1."),
        (f"version: 1\ntitle: t\nrows_about: ~20000\ncolumns:\n{AGE}", "write 20000."),
        (
            f"version: 1\ntitle: t\ncolumns:\n{AGE}rules: [age > 3 => age > 4]\n",
            "in words, such as `if",
        ),
    ],
)
def test_the_answer_to_a_mistake_at_the_top_says_what_to_write(text, answer):
    assert answer in refusal(text)
