import datetime
import json
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_core.canonical import canonical_json
from dp_core.errors import BadInput
from dp_core.grid import on_grid
from dp_core.schema import Level, Unit
from dp_core.schema_file import load_schema, parse_schema, schema_hash
from dp_core.yaml_text import Document, parse

RAND = """\
version: 1
title: RAND Health Insurance Experiment
description: Visits in the first year
unit: row
rows_about: 20000
missing_values: ["", "?"]
columns:
  visits: {type: integer, min: 0, max: 80, edges: [0, 1, 2, 3, 5, 8, 13, 81]}
  income: {type: number, min: 0, max: 500000, bins: 24, decimals: 2}
  sex:    {type: category, levels: {1: male, 2: female}}
  health: {type: ordinal, levels: [poor, fair, good, excellent], missing: level}
  born:   {type: date, min: 1900-01-01, max: 2026-12-31, bins: year}
ignore: [interview_id]
out_of_range: reject
impossible:
  - {visits: "<3", health: [fair, missing], born: {not: "1999-01-01..2003-12-31"}}
"""


def column(text: str, *, extra: str = "") -> str:
    return f"version: 1\ntitle: t\n{extra}columns:\n  age: {text}\n"


def read(text):
    return parse_schema(Document(Path("s.yaml"), parse(text, source="s.yaml")))


def refusal(text: str) -> str:
    with pytest.raises(BadInput) as caught:
        read(text)
    assert caught.value.message.startswith("s.yaml")
    assert len(caught.value.message) < 400
    return caught.value.message


def test_the_whole_schema_is_read(tmp_path):
    (tmp_path / "rand.yaml").write_text(RAND)

    schema = load_schema(tmp_path / "rand.yaml")

    assert schema.domain.columns == ("visits", "income", "sex", "health", "born")
    assert schema.domain.sizes == (7, 24, 2, 5, 127)
    assert (schema.title, schema.rows_about) == ("RAND Health Insurance Experiment", 20000)
    assert schema.ignore == ("interview_id",)
    assert schema.column("sex").levels == (Level("1", "male"), Level("2", "female"))
    assert schema.column("visits").maximum == 80
    assert schema.column("income").edges[1] == Fraction(500000, 24)
    assert schema.column("income").decimals == 2
    assert schema.column("born").code_labels()[0] == "1900-01-01 to 1900-12-31"
    assert {item.missing_values for item in schema.columns} == {("", "?")}


def test_rules_become_sorted_codes_in_the_order_they_were_written():
    (rule,) = read(RAND).zeros.rules

    assert rule.columns == ("visits", "health", "born")
    assert rule.codes[:2] == ((0, 1, 2), (1, 4))
    assert rule.codes[2] == (*range(99), *range(104, 127))
    assert rule.text == ("visits: <3, health: [fair, missing], born: not 1999-01-01..2003-12-31")


def test_the_document_reads_back_as_the_same_schema_whatever_json_does_to_it():
    schema = read(RAND)
    stored = json.loads(canonical_json(schema.document))

    assert parse_schema(stored) == schema
    assert schema_hash(parse_schema(stored)) == schema_hash(schema)


def test_the_hash_is_of_the_meaning_not_of_the_spelling():
    spelt = RAND.replace("max: 500000", "max: 5e5").replace(
        "rows_about: 20000", "rows_about: 020000"
    )
    block = spelt.replace(
        "sex:    {type: category, levels: {1: male, 2: female}}",
        "sex:\n    levels: [{1: male}, {2: female}]\n    type: category",
    )

    assert schema_hash(read(block)) == schema_hash(read(RAND))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("{1: male, 2: female}", "{2: female, 1: male}"),
        ("bins: 24", "bins: 25"),
        ("out_of_range: reject", "out_of_range: clip"),
        ("[fair, missing]", "[fair]"),
        ("20000", "20001"),
        ("decimals: 2", "decimals: 1"),
        ('["", "?"]', '["?", ""]'),
    ],
)
def test_any_change_of_meaning_changes_the_hash(old, new):
    changed = RAND.replace(old, new)

    assert changed != RAND
    assert schema_hash(read(changed)) != schema_hash(read(RAND))


def test_the_order_of_columns_is_part_of_the_hash():
    lines = RAND.splitlines()
    lines[7], lines[8] = lines[8], lines[7]

    assert schema_hash(read("\n".join(lines))) != schema_hash(read(RAND))


@pytest.mark.parametrize("word", ["yes", "no", "007", "1e-9", "null", "1900-01-01", "~", "12:30"])
def test_levels_are_the_texts_that_were_typed(word):
    levels = read(column(f"{{type: category, levels: [{word}]}}")).columns[0].levels

    assert levels == (Level(word, word),)


# ---------------------------------------------------------------- bins


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
        (
            "{type: integer, min: 0, max: 80, edges: [0, 40, 80]}",
            ["age.edges", "max + 1, 81", "it is 80"],
        ),
        ("{type: integer, min: 0, max: 80, edges: [1, 81]}", ["must be min, 0", "it is 1"]),
        ("{type: integer, edges: [0, 5, 5]}", ["edges[3]", "must increase", "5 follows 5"]),
        ("{type: integer, edges: [0, 1.5]}", ["edges[2]", "not a whole number"]),
        ("{type: integer, edges: [0]}", ["two edges", "there are 1"]),
        ("{type: integer, edges: 5}", ["age.edges", "must be a list"]),
        ("{type: integer, min: 0, max: 9, bins: 2, edges: [0, 10]}", ["not both"]),
        ("{type: integer, min: 0, max: 9, bins: 0}", ["age.bins", "at least 1"]),
        ("{type: integer, min: 0, max: 9, bins: year}", ["age.bins", "for dates"]),
        ("{type: integer, min: 0, max: 99999, bins: 65536}", ["age.bins", "at most 65535"]),
        ("{type: integer, min: 1, max: 65535, bins: 65535, missing: level}", ["65536 codes"]),
        ("{type: integer, min: 0, max: 1e3, bins: 2}", ["age.max", "digits only"]),
        ("{type: integer, min: 0, max: 9999999999999999999, bins: 2}", ["age.max", "at most 1000"]),
        ("{type: number, min: 1, max: 1.000000000000001, bins: 9}", ["age.bins", "wider bins"]),
        (
            "{type: number, edges: [0, 1e-300, 1.1e-300, 1, 1.00000000000000000001]}",
            ["age.edges", "near 1", "wider bins"],
        ),
        ("{type: number, min: 0, max: 1}", ["needs bins", "edges"]),
        ("{type: number, min: 1, max: 1, bins: 2}", ["age.max", "equals min"]),
        ("{type: number, min: 0, max: 1, edges: [0, 2]}", ["must be max, 1", "it is 2"]),
        ("{type: number, min: 0, max: 1,5, bins: 2}", ["age.max", "write 1.5"]),
        ("{type: number, min: 0, max: 1e400, bins: 2}", ["age.max", "exponents"]),
        ("{type: number, min: 0, max: 1, bins: 4, decimals: 0}", ["age.decimals", "0.25 to 0.5"]),
        ("{type: number, min: 0, max: 1, bins: 4, decimals: 16}", ["age.decimals", "at most 15"]),
        ("{type: date, min: 1900-01-01, max: 2000-01-01}", ["needs bins (year, quarter"]),
        ("{type: date, min: 1900-01-01, max: 2000-01-01, bins: yearly}", ["Did you mean 'year'"]),
        ("{type: date, min: 1900-01-01, max: 2000-01-01, bins: 10}", ["age.bins", "year, quarter"]),
        ("{type: date, min: 01/01/1900, max: 2000-01-01, bins: year}", ["age.min", "year-month"]),
        (
            "{type: date, min: 1900-01-01, max: 2000-01-01, edges: [1900-01-01, 2000-01-01]}",
            ["the day after max, 2000-01-02"],
        ),
        ("{type: date, min: 1000-01-01, max: 2000-01-01, bins: day}", ["65535", "longer period"]),
    ],
)
def test_bins_that_do_not_fit_are_refused_with_what_is_expected(text, parts):
    message = refusal(column(text))

    assert message.startswith("s.yaml, line 4, columns.age")
    assert all(part in message for part in parts), message


# ---------------------------------------------------------------- columns and the rest


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("{levels: [a]}", ["'type' is missing"]),
        ("{type: }", ["age.type", "has no value", "category, ordinal"]),
        ("{type: catgory, levels: [a]}", ["age.type", "Did you mean 'category'"]),
        ("{type: category, level: [a]}", ["'level'", "Did you mean 'levels'"]),
        ("{type: category}", ["'levels' is missing"]),
        ("{type: category, levels: male}", ["age.levels", "must be a list", "'male'"]),
        ("{type: category, levels: }", ["age.levels", "must be a list", "nothing"]),
        ("{type: category, levels: []}", ["age.levels", "no level is listed"]),
        ("{type: category, levels: {}}", ["age.levels", "no level is listed"]),
        ("{type: category, levels: [a, b, a]}", ["age.levels[3]", "'a' is given twice"]),
        ("{type: category, levels: {1: x, 1: y}}", ["'1' is given twice"]),
        ("{type: category, levels: {1: x, 2: x}}", ["'2' and '1' have the same label"]),
        ("{type: category, levels: {1: x, 2: }}", ["age.levels.2", "has no value"]),
        ("{type: category, levels: {1: ''}, missing_values: [x]}", ["'1' needs a label"]),
        ("{type: category, levels: [a, [b]]}", ["age.levels[2]", "a single text"]),
        ("{type: category, levels: [a, '']}", ["age.levels[2]", "a level and a missing value"]),
        ("{type: category, levels: [a, NA], missing_values: [NA]}", ["'NA' is a level and a miss"]),
        ("{type: category, levels: [a, (missing)]}", ["'(missing)'", "another label"]),
        ("{type: category, levels: [a], bins: 3}", ["age.bins", "integer or number or date"]),
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


AGE = "columns:\n  age: {type: category, levels: [a, b]}\n"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("title: t\n" + AGE, ["'version' is missing"]),
        ("version: 2\ntitle: t\n" + AGE, ["line 1, version", "version 1", "'2'"]),
        ("version: one\ntitle: t\n" + AGE, ["line 1, version", "whole number"]),
        ("version: 1\n" + AGE, ["'title' is missing"]),
        ("version: 1\ntitle:\n" + AGE, ["line 2, title", "no value"]),
        ("version: 1\ntitel: t\n" + AGE, ["line 2", "'titel'", "Did you mean 'title'"]),
        ("version: 1\ntitle: t\n", ["'columns' is missing"]),
        ("version: 1\ntitle: t\ncolumns: {}\n", ["line 3, columns", "has no column"]),
        ("version: 1\ntitle: t\ncolumns: [age]\n", ["columns[1]", "one key with its value"]),
        ("version: 1\ntitle: t\ncolumns: age\n", ["line 3, columns", "must be a mapping"]),
        ("version: 1\ntitle: t\ncolumns:\n  '': {type: date}\n", ["must not be blank"]),
        ("version: 1\ntitle: t\nrows_about: 2e4\n" + AGE, ["rows_about", "digits only"]),
        ("version: 1\ntitle: t\nrows_about: 0\n" + AGE, ["rows_about", "at least 1"]),
        ("version: 1\ntitle: t\nunit: person\n" + AGE, ["line 3, unit", "write row"]),
        ("version: 1\ntitle: t\nunit: {column: id}\n" + AGE, ["unit", "'max_rows' is missing"]),
        ("version: 1\ntitle: t\nunit: {column: id, max_rows: 0}\n" + AGE, ["max_rows", "least 1"]),
        ("version: 1\ntitle: t\nunit: {column: id, max_rows: 1001}\n" + AGE, ["at most 1000"]),
        (
            "version: 1\ntitle: t\nunit: {column: age, max_rows: 4}\n" + AGE,
            ["line 3, unit.column", "'age' tells persons apart", "remove it from `columns`"],
        ),
        (
            "version: 1\ntitle: t\nunit: {column: id, max_rows: 4}\nignore: [id]\n" + AGE,
            ["line 3, unit.column", "'id' tells persons apart", "remove it from `ignore`"],
        ),
        ("version: 1\ntitle: t\nignore: id\n" + AGE, ["line 3, ignore", "must be a list"]),
        ("version: 1\ntitle: t\nignore: [age]\n" + AGE, ["line 3, ignore", "'age' is a column"]),
        ("version: 1\ntitle: t\nmissing_values: '?'\n" + AGE, ["missing_values", "a list"]),
        ("version: 1\ntitle: t\nout_of_range: ignore\n" + AGE, ["out_of_range", "reject, clip"]),
        ("version: 1\ntitle: t\nout_of_range: missing\n" + AGE, ["columns.age", "missing: level"]),
        ("- a\n- b\n", ["must be a mapping", "not a list"]),
        ("just text\n", ["must be a mapping", "'just text'"]),
        ("version: 1\nrelease: r\nprivacy: {epsilon: 1}\nschema: s\n", ["is a release spec"]),
    ],
)
def test_mistakes_at_the_top_name_file_line_and_key(text, parts):
    message = refusal(text)

    assert all(part in message for part in parts), message


def test_policies_hold_for_all_columns_unless_a_column_states_its_own():
    schema = read(
        "version: 1\ntitle: t\nout_of_range: clip\nmissing_values: [x]\ncolumns:\n"
        "  a: {type: category, levels: [p]}\n"
        "  b: {type: integer, min: 0, max: 1}\n"
        "  c: {type: integer, min: 0, max: 1, out_of_range: missing, missing: level}\n"
        "  d: {type: integer, min: 0, max: 1, missing_values: []}\n"
    )

    assert [item.out_of_range for item in schema.columns] == ["reject", "clip", "missing", "clip"]
    assert [item.missing_values for item in schema.columns] == [("x",), ("x",), ("x",), ()]
    assert [item.size for item in schema.columns] == [1, 2, 3, 2]


def test_65535_levels_are_the_limit():
    def levels(count: int) -> dict[str, object]:
        names = [f"v{k}" for k in range(count)]
        return {"version": 1, "title": "t", "columns": {"a": {"type": "category", "levels": names}}}

    assert parse_schema(levels(65_535)).domain.sizes == (65_535,)
    with pytest.raises(BadInput, match="has 65536 codes; a column has at most 65535"):
        parse_schema(levels(65_536))


VALUES = """\
''|0|-1|1e9|1/3|x|row|level|missing|2000-01-01|[]|{}|[a, b]|[0, 5, 10]|{not: x}|{1: a}|year|date\
|number|clip|"\\e[2J\\n"|{"\\n": "\\e"}|<5|[[a]]|
"""
scalars = st.sampled_from(VALUES.strip().split("|"))


@given(data=st.data())
def test_any_change_of_a_value_gives_a_schema_or_one_sentence(data):
    lines = RAND.splitlines()
    number = data.draw(st.integers(0, len(lines) - 1))
    head, colon, _ = lines[number].partition(": ")
    keys = lines[number].count(": ")
    if keys > 1 and data.draw(st.booleans()):
        parts = lines[number].split(": ")
        place = data.draw(st.integers(1, keys))
        end = next((mark for mark in ",}" if mark in parts[place]), "")
        parts[place] = data.draw(scalars) + end + parts[place].partition(end or "\n")[2]
        lines[number] = ": ".join(parts)
    else:
        lines[number] = head + colon + data.draw(scalars)
    sentence = "s.yaml"
    try:
        read("\n".join(lines))
    except BadInput as error:
        sentence = error.message

    assert sentence.startswith("s.yaml")
    assert sentence.isprintable()


# ---------------------------------------------------------------- impossible


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
        ('{age: "<14"}', ["age", "bin edge", "at 14", "0 and 15"]),
        ('{age: "<=15"}', ["at 16", "15 and 18"]),
        ('{age: "<200"}', ["at 200", "nearest edge is 100"]),
        ("{age: 15}", ["at 16", "15 and 18"]),
        ('{age: "<15.5"}', ["not a whole number"]),
        ('{age: "<old"}', ["'old' is not a whole number"]),
        ('{age: "17..15"}', ["backwards"]),
        ('{age: "<0"}', ["no value of column 'age'", "<0"]),
        ('{age: ["<15", "<14"]}', ["impossible[1].age[2]", "bin edge"]),
        ('{pay: "<=2.5"}', ["write <2.5 instead of <=2.5"]),
        ('{pay: ">2.5"}', ["write >=2.5"]),
        ("{pay: 2.5}", ["single number"]),
        ('{pay: "<3"}', ["at 3", "2.5 and 10"]),
        ("{pay: missing}", ["no missing level", "`missing: level`"]),
        ('{born: "<2001-06-01"}', ["at 2001-06-01", "2001-01-01 and 2002-01-01"]),
        ('{born: "<2001"}', ["year-month-day"]),
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
        ('{pay: "<2.5"}\n  - {pay: ">=2.5"}', ["impossible[2]", "leaves column 'pay' no possible"]),
        ('{pay: "<2.5"}\n  - {pay: ">=2.5", sex: [1, 2, x]}', ["impossible[2]", "'pay'"]),
    ],
)
def test_rules_that_cannot_be_meant_are_refused(rule, parts):
    message = refusal(f"{RULES}  - {rule}\n")

    assert message.startswith(("s.yaml, line 10, impossible[1]", "s.yaml, line 11, impossible[2]"))
    assert all(part in message for part in parts), message


def test_a_mapping_in_place_of_the_list_of_rules_is_refused():
    assert "impossible: must be a list" in refusal(f"{RULES}  age: <15\n")


def test_a_rule_marks_exactly_its_cells():
    schema = read(f"{RULES}  - {{age: <15, mar: [married, widowed]}}\n")

    mask = schema.zeros.mask(schema.domain.project(("mar", "age")))

    assert mask.sum() == 2
    assert mask[1, 0]
    assert mask[2, 0]


@pytest.mark.parametrize("declared", ["", "  id: {role: id}\n"])
def test_the_units_column_is_read_and_not_synthesised(declared):
    text = "version: 1\ntitle: t\nunit: {column: id, max_rows: 4}\nmissing_values: ['', '?']\n"
    schema = read(text + AGE + declared)
    assert schema.unit == Unit("id", 4, ("", "?"))
    assert schema.domain.columns == schema.names == ("age",)
    assert schema.reads == ("age", "id")
    assert schema.ignore == ()
    assert schema.document["unit"] == {"column": "id", "max_rows": "4"}
    again = parse_schema(schema.document)
    assert (again.unit, again.document) == (schema.unit, schema.document)
    assert on_grid(schema, 2**10).unit == schema.unit
    assert read("version: 1\ntitle: t\n" + AGE).unit == Unit()
