"""A hint is true of the texts in the file, and stays once the file or the schema is mended."""

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_core.inspection.advice import with_change
from dp_core.inspection.findings import joined_findings
from dp_core.schema.reading.schema_file import parse_schema
from tests.checked_files import check_frame
from tests.schema_texts import column, read

ROWS = 60
NUMBER = "type: integer, min: 0, max: 1000, bins: 5"
LEVELS = "type: category, levels: [north, south, east]"
TEXTS = {
    NUMBER: ["0", "1", "7", "7.0", "999", "1.5", "2.5", "1,5", "(5)", "\uff11", "5000", "-9", ""],
    LEVELS: ["north", "south", "east", "North", "north ", "south\u200b", "west", "999", ""],
}
POLICIES = ("", ", missing: level", ", missing: level, out_of_range: missing")


def hints_about(schema, texts):
    check = check_frame(pd.DataFrame({"age": texts}), schema)
    return check, {one.kind: one for one in check.of("hint")}


def value(text):
    """Return what a text says to a person: the number, or the word."""
    try:
        return float(text)
    except ValueError:
        return text


TRUE = {
    "constant": lambda values: len(set(values)) == 1,
    "identifier": lambda values: len(set(values) - {""}) == sum(one != "" for one in values),
    "category": lambda values: 1 < len(set(values) - {""}) <= 20,
    "unused-levels": lambda values: not {"north", "south", "east"} <= set(values),
}


@st.composite
def columns(draw):
    kind = draw(st.sampled_from(sorted(TEXTS)))
    definition = "{" + kind + draw(st.sampled_from(POLICIES if kind == LEVELS else POLICIES[:2]))
    definition += "}"
    chosen = draw(st.lists(st.sampled_from(TEXTS[kind]), min_size=1, max_size=4, unique=True))
    rows = [chosen[number % len(chosen)] for number in range(ROWS)]
    if kind == NUMBER and draw(st.booleans()):  # each whole number once
        rows = [str(number) for number in range(ROWS)] + rows
    return read(column(definition)), rows


@given(columns())
@settings(max_examples=120)
def test_a_hint_is_true_of_the_texts_and_stays_after_the_advice(case):
    schema, texts = case
    check, hints = hints_about(schema, texts)
    values = list(map(value, texts))

    for kind in hints.keys() & TRUE.keys():
        assert TRUE[kind](values), (kind, texts)
    for change in [keys for one in check.of("refusal") for keys in one.changes]:
        mended = parse_schema(with_change(schema.document, "age", change))
        assert hints.keys() <= hints_about(mended, texts)[1].keys(), change


@pytest.mark.parametrize(
    ("definition", "texts"),
    [
        (LEVELS, ["south", "north\u200b"] * ROWS),
        (NUMBER, ["1.5", "2.5", "3"] * ROWS),
        (NUMBER, [str(number) for number in range(150)] + ["1.5", "2.5"] * ROWS),
        (NUMBER, ["5", "7", "900", "5000"] * ROWS),
        (NUMBER + ", missing: level", ["5", ""] * ROWS),
        (NUMBER + ", out_of_range: clip", ["5", "5000"] * ROWS),
        (LEVELS + ", missing: level, out_of_range: missing", ["south", "x"] * ROWS),
    ],
)
def test_a_column_with_other_values_is_neither_constant_nor_an_identifier(definition, texts):
    _, hints = hints_about(read(column("{" + definition + "}")), texts)
    assert not hints.keys() & {"constant", "identifier", "category"}


def test_an_example_of_several_columns_cannot_be_read_as_a_count():
    text = (
        "version: 1\ntitle: t\ncolumns:\n"
        "  code: {type: integer, min: 0, max: 1000, bins: 5}\n"
        "  item: {type: integer, min: 0, max: 1000, bins: 5}\n"
    )
    frame = pd.DataFrame({"code": [5, 7, 900] * ROWS, "item": [2, 4, 8] * ROWS})
    check = check_frame(frame, read(text))
    (finding,) = [one for one in joined_findings(check.findings) if one.kind == "category"]

    assert [one.text for one in finding.examples] == ["code: 5, ...", "item: 2, ..."]
