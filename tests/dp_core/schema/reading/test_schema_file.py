from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_core.errors import BadInput
from dp_core.kernel.document import A_ROW, ProtectedUnit
from dp_core.schema.definition import Level
from dp_core.schema.grid import on_grid
from dp_core.schema.reading.schema_file import load_schema, parse_schema
from tests.schema_texts import RAND, read, refusal


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


AGE = "columns:\n  age: {type: category, levels: [a, b]}\n"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("title: t\n" + AGE, ["'version' is missing"]),
        ("version: 2\ntitle: t\n" + AGE, ["line 1, version", "must be 1", "'2'"]),
        ("version: 1\n" + AGE, ["'title' is missing"]),
        ("version: 1\ntitle: t\n", ["'columns' is missing"]),
        ("version: 1\ntitle: t\ncolumns: {}\n", ["line 3, columns", "has no column"]),
        ("version: 1\ntitle: t\ncolumns: [age]\n", ["columns[1]", "one key with its value"]),
        ("version: 1\ntitle: t\ncolumns:\n  '': {type: date}\n", ["must not be blank"]),
        ("version: 1\ntitle: t\nrows_about: 0\n" + AGE, ["rows_about", "at least 1"]),
        ("version: 1\ntitle: t\nunit: person\n" + AGE, ["line 3, unit", "write row"]),
        ("version: 1\ntitle: t\nunit: {column: id}\n" + AGE, ["unit", "'max_rows' is missing"]),
        ("version: 1\ntitle: t\nunit: {column: id, max_rows: 1001}\n" + AGE, ["at most 1000"]),
        (
            "version: 1\ntitle: t\nunit: {column: [year, hh], max_rows: 4}\n" + AGE,
            ["line 3, unit.column", "join the columns into one text column"],
        ),
        (
            "version: 1\ntitle: t\npanel: {person: [hh, line], wave: w, waves: [1, 2]}\n" + AGE,
            ["line 3, panel.person", "join the columns into one text column"],
        ),
        ("version: 1\ntitle: t\nunit: {column: age, max_rows: 4}\n" + AGE, ["remove it from"]),
        (
            "version: 1\ntitle: t\nunit: {column: id, max_rows: 4}\nignore: [id]\n" + AGE,
            ["line 3, unit.column", "'id'", "remove it from `ignore`"],
        ),
        ("version: 1\ntitle: t\nignore: id\n" + AGE, ["line 3, ignore", "must be a list"]),
        ("version: 1\ntitle: t\nignore: [age]\n" + AGE, ["line 3, ignore", "'age'"]),
        ("version: 1\ntitle: t\nmissing_values: '?'\n" + AGE, ["missing_values", "a list"]),
        ("version: 1\ntitle: t\nout_of_range: ignore\n" + AGE, ["out_of_range", "reject, clip"]),
        ("version: 1\ntitle: t\nout_of_range: missing\n" + AGE, ["columns.age", "missing: level"]),
        ("- a\n- b\n", ["must be a mapping", "not a list"]),
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


@pytest.mark.parametrize("declared", ["", "  id: {role: id}\n"])
def test_the_units_column_is_read_and_not_synthesised(declared):
    text = "version: 1\ntitle: t\nunit: {column: id, max_rows: 4}\nmissing_values: ['', '?']\n"
    schema = read(text + AGE + declared)
    assert schema.unit == ProtectedUnit("person", "id", 4, ("", "?"))
    assert schema.domain.columns == schema.names == ("age",)
    assert schema.reads == ("age", "id")
    assert schema.ignore == ()
    assert schema.document["unit"] == {"column": "id", "max_rows": "4"}
    again = parse_schema(schema.document)
    assert (again.unit, again.document) == (schema.unit, schema.document)
    assert on_grid(schema, 2**10).unit == schema.unit
    assert read("version: 1\ntitle: t\n" + AGE).unit == A_ROW
