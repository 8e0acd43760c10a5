import datetime
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_core.errors import BadInput
from dp_core.schema.definition import Level
from dp_core.schema.reading import column_reader
from dp_core.schema.reading.schema_file import parse_schema
from tests.schema_texts import column, read, refusal


@pytest.mark.parametrize("word", ["yes", "no", "007", "1e-9", "null", "1900-01-01", "~", "12:30"])
def test_levels_are_the_texts_that_were_typed(word):
    levels = read(column(f"{{type: category, levels: [{word}]}}")).columns[0].levels

    assert levels == (Level(word, word),)


def edges(text: str) -> list[Fraction]:
    return list(read(column(text)).columns[0].edges)


def test_an_integer_without_bins_has_one_code_per_value():
    assert edges("{type: integer, min: 3, max: 5}") == [3, 4, 5, 6]
    assert len(edges("{type: integer, min: 1, max: 100}")) == 101


def test_integer_limits_may_be_left_to_the_edges():
    age = read(column("{type: integer, edges: [-5, 0, 10]}")).columns[0]

    assert (age.minimum, age.maximum) == (-5, 9)


def test_number_edges_end_at_max():
    age = read(column("{type: number, edges: [0, 1/3, 2.5]}")).columns[0]

    assert (age.minimum, age.maximum) == (0, Fraction(5, 2))
    assert age.edges == (0, Fraction(1, 3), Fraction(5, 2))


@given(
    first=st.integers(-(10**6), 10**6),
    values=st.integers(1, 10**5),
    data=st.data(),
)
def test_integer_bins_cover_every_value_with_widths_that_differ_by_at_most_one(first, values, data):
    bins = data.draw(st.integers(1, min(values, 200)))

    got = edges(f"{{type: integer, min: {first}, max: {first + values - 1}, bins: {bins}}}")

    assert (got[0], got[-1], len(got)) == (first, first + values, bins + 1)
    widths = {high - low for low, high in pairwise(got)}
    assert max(widths) - min(widths) <= 1
    assert min(widths) >= 1


@given(bins=st.integers(1, 300))
def test_number_bins_are_exactly_equal(bins):
    got = edges(f"{{type: number, min: 0.1, max: 0.7, bins: {bins}}}")

    assert {high - low for low, high in pairwise(got)} == {Fraction(6, 10) / bins}
    assert (got[0], got[-1]) == (Fraction(1, 10), Fraction(7, 10))


@given(
    start=st.dates(datetime.date(1, 1, 1), datetime.date(9990, 1, 1)),
    days=st.integers(0, 3000),
    period=st.sampled_from(["year", "quarter", "month", "week", "day"]),
)
def test_date_bins_start_on_calendar_boundaries_and_are_clipped(start, days, period):
    end = start + datetime.timedelta(days)
    got = edges(f"{{type: date, min: {start.isoformat()}, max: {end.isoformat()}, bins: {period}}}")

    def period_of(ordinal: int) -> object:
        day = datetime.date.fromordinal(int(ordinal))
        return {
            "year": day.year,
            "quarter": (day.year, (day.month - 1) // 3),
            "month": (day.year, day.month),
            "week": (day - datetime.timedelta(min(day.weekday(), day.toordinal() - 1))),
            "day": day,
        }[period]

    assert (got[0], got[-1]) == (start.toordinal(), end.toordinal() + 1)
    starts = [period_of(edge) for edge in got[:-1]]
    assert len(set(starts)) == len(starts)
    for low, high in pairwise(got):
        assert period_of(low) == period_of(high - 1)


def test_the_last_day_of_the_calendar_can_be_a_maximum():
    for period in ("year", "quarter", "month", "week", "day"):
        age = read(column(f"{{type: date, min: 9999-12-30, max: 9999-12-31, bins: {period}}}"))
        assert age.columns[0].maximum == datetime.date.max.toordinal()


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("{type: integer, min: 0, max: 100}", ["101 values", "bins", "edges"]),
        ("{type: integer, min: 0, max: 3, bins: 5}", ["age.bins", "5 bins", "4 values"]),
        ("{type: integer, max: 3}", ["'min' is missing"]),
        ("{type: integer, min: 3}", ["'max' is missing"]),
        ("{type: integer, min: 3, max: 2}", ["age.max", "smaller than min (3)"]),
        ("{type: integer, min: 0.5, max: 2}", ["age.min", "not a whole number"]),
        ("{type: integer, min: 0, max: 80, edges: [0, 40, 80]}", ["age.edges", "max + 1, 81"]),
        ("{type: integer, min: 0, max: 80, edges: [1, 81]}", ["must be min, 0", "it is 1"]),
        ("{type: integer, edges: [0, 5, 5]}", ["edges[3]", "must increase", "5 follows 5"]),
        ("{type: integer, edges: [0]}", ["two edges", "there are 1"]),
        ("{type: integer, min: 0, max: 9, bins: 2, edges: [0, 10]}", ["not both"]),
        ("{type: integer, min: 0, max: 9, bins: 0}", ["age.bins", "at least 1"]),
        ("{type: integer, min: 0, max: 9, bins: year}", ["age.bins", "for dates"]),
        ("{type: integer, min: 0, max: 9999999, bins: 1000001}", ["age.bins", "at most 1000000"]),
        (
            "{type: integer, min: 1, max: 1000000, bins: 1000000, missing: level}",
            ["1,000,001 codes"],
        ),
        ("{type: integer, min: 0, max: 9999999999999999999, bins: 2}", ["age.max", "at most 1000"]),
        ("{type: number, min: 1, max: 1.000000000000001, bins: 9}", ["age.bins", "wider bins"]),
        ("{type: number, edges: [0, 1e-30, 1.1e-30, 1, 1.00000001]}", ["age.edges", "wider bins"]),
        ("{type: number, edges: [0, 1, 1e39]}", ["age.edges", "near 1", "32-bit"]),
        ("{type: number, edges: [0, 1e8], missing_values: ['99999999']}", ["age.missing_values"]),
        ("{type: number, min: 0, max: 1}", ["needs bins", "edges"]),
        ("{type: number, min: 1, max: 1, bins: 2}", ["age.max", "equals min"]),
        ("{type: number, min: 0, max: 1, edges: [0, 2]}", ["must be max, 1", "it is 2"]),
        ("{type: number, min: 0, max: 1,5, bins: 2}", ["a comma ends the value"]),
        ("{type: number, min: 0, max: 1e400, bins: 2}", ["age.max", "exponents"]),
        ("{type: number, min: 0, max: 1, bins: 4, decimals: 0}", ["age.decimals", "0.25 to 0.5"]),
        ("{type: number, min: 0, max: 1, bins: 4, decimals: 16}", ["age.decimals", "at most 15"]),
        ("{type: date, min: 1900-01-01, max: 2000-01-01}", ["needs bins (year, quarter"]),
        ("{type: date, min: 1900-01-01, max: 2000-01-01, bins: yearly}", ["Did you mean 'year'"]),
        ("{type: date, min: 1900-01-01, max: 2000-01-01, bins: 10}", ["age.bins", "year, quarter"]),
        (
            "{type: date, min: 1900-01-01, max: 2000-01-01, edges: [1900-01-01, 2000-01-01]}",
            ["the day after max, 2000-01-02"],
        ),
        ("{type: date, min: 0001-01-01, max: 9999-12-31, bins: day}", ["longer period"]),
        ("{levels: [a]}", ["'type' is missing"]),
        ("{type: }", ["age.type", "has no value", "category, ordinal"]),
        ("{type: category}", ["'levels' is missing"]),
        ("{type: category, levels: male}", ["age.levels", "must be a list", "'male'"]),
        ("{type: category, levels: }", ["age.levels", "has no value; write a list"]),
        ("{type: category, levels: []}", ["age.levels", "no level is listed"]),
        ("{type: category, levels: [a, b, a]}", ["age.levels[3]", "'a' is given twice"]),
        ("{type: category, levels: {1: x, 1: y}}", ["'1' is given twice"]),
        ("{type: category, levels: {1: x, 2: x}}", ["'2' and '1' have the same label"]),
        ("{type: category, levels: {1: x, 2: }}", ["age.levels.2", "has no value"]),
        ("{type: category, levels: {1: ''}, missing_values: [x]}", ["'1' needs a label"]),
        ("{type: category, levels: [a, [b]]}", ["age.levels[2]", "a single text"]),
        ("{type: category, levels: [a, '']}", ["age.levels[2]", "''"]),
        ("{type: category, levels: [a, NA], missing_values: [NA]}", ["'NA'"]),
        ("{type: category, levels: [a, (missing)]}", ["'(missing)'", "another label"]),
        ("{type: category, levels: [a], bins: 3}", ["age.bins", "integer or number"]),
        ("{type: integer, levels: [a]}", ["age.levels", "category or ordinal"]),
        ("{type: integer, min: 0, max: 1, decimals: 1}", ["age.decimals", "the type number"]),
        ("{type: category, levels: [a], role: id}", ["age.levels", "neither read nor released"]),
        ("{type: category, levels: [a], role: weigth}", ["age.role", "Did you mean 'weight'"]),
        ("{type: category, levels: [a], missing: levle}", ["age.missing", "Did you mean 'level'"]),
        ("{type: category, levels: [a], out_of_range: clip}", ["age.out_of_range", "no nearest"]),
        ("{type: ordinal, levels: [a], out_of_range: clip}", ["age.out_of_range", "no nearest"]),
        ("{type: category, levels: [a], out_of_range: missing}", ["`missing: level`"]),
        ("{type: category, levels: [a], missing_values: NA}", ["age.missing_values", "a list"]),
        ("{type: category, levels: [a], missing_values: [x, x]}", ["'x' is given twice"]),
        ("integer", ["columns.age", "must be a mapping", "{type: integer"]),
        ("[integer]", ["columns.age", "must be a mapping", "not a list"]),
        ("", ["columns.age", "must be a mapping", "not nothing"]),
    ],
)
def test_mistakes_in_a_column_name_file_line_and_key(text, parts):
    message = refusal(column(text))

    assert message.startswith("s.yaml, line 4, columns.age")
    assert all(part in message for part in parts), message


def test_a_column_has_a_largest_number_of_levels(monkeypatch):
    def levels(count: int) -> dict[str, object]:
        names = [f"v{k}" for k in range(count)]
        return {"version": 1, "title": "t", "columns": {"a": {"type": "category", "levels": names}}}

    assert column_reader.MAX_CODES == 1_000_000
    monkeypatch.setattr(column_reader, "MAX_CODES", 70_000)
    assert parse_schema(levels(70_000)).domain.sizes == (70_000,)
    with pytest.raises(BadInput, match="has 70,001 codes; a column has at most 70,000"):
        parse_schema(levels(70_001))
