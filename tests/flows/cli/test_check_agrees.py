"""`schema check` and validation give the same verdict about a file."""

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_core.confidential.source import open_source
from dp_core.errors import BadInput
from flows.cli.actions.file_check import check
from tasks.validation import expectations
from tests.checked_files import check_files, check_frame
from tests.full import at_full_size
from tests.plain_judge import PlainJudge
from tests.schema_texts import read

HEAD = "version: 1\ntitle: t\n"
PANEL = (
    HEAD
    + """\
columns:
  age: {type: integer, min: 0, max: 99, edges: [0, 15, 65, 100]}
  sex: {type: category, levels: {1: male, 2: female}}
  pay: {type: number, min: 0, max: 100, bins: 4, missing: level}
  born: {type: date, min: 1900-01-01, max: 2020-12-31, bins: year}
impossible:
  - {age: "<15", pay: ">=50"}
"""
)
GOOD = "age,sex,pay,born\n20,1,1.5,2000-01-01\n30,2,,1990-12-31\n10,1,49,2011-02-03\n"
SETTLING = PANEL.replace("99, edges", "99, out_of_range: clip, edges").replace(
    "bins: 4, missing: level", "bins: 4, missing: level, out_of_range: missing"
)
PERSONS = PANEL.replace("columns:", "unit: {column: id, max_rows: 2}\ncolumns:")
FOLLOWS = (
    HEAD
    + """\
columns:
  age: {type: integer, min: 0, max: 99, edges: [0, 15, 65, 100], missing: level}
  stage: {type: ordinal, levels: [child, adult, old], missing: level, follows: age, edges: [15, 65]}
"""
)
LOOSE = FOLLOWS.replace("missing: level, follows", "missing: level, out_of_range: clip, follows")
OWN = (
    HEAD
    + """\
columns:
  code: {type: category, levels: [A1, A2, B1]}
  wage: {type: number, min: 0, max: 100, bins: 4, missing: level}
expectations:
  - expect_column_values_to_match_regex: {column: code, regex: "^A[0-9]$"}
  - expect_column_values_to_not_be_null: {column: wage, mostly: 0.5}
  - expect_table_row_count_to_be_between: {min_value: 2}
  - expect_column_max_to_be_between: {column: wage, max_value: 50}
"""
)
PRIVATE = HEAD + "columns:\n  pay: {type: number, min: 0, max: 100, bins: {private: 4}}\n"
LONG = (
    HEAD
    + f"columns:\n  code: {{type: category, levels: [{', '.join(f'c{n}' for n in range(1001))}]}}\n"
)


def changed(old, new, text=GOOD):
    assert old in text
    return text.replace(old, new)


FILES = {
    "good": (PANEL, GOOD),
    "byte order mark": (PANEL, "\ufeff" + GOOD),
    "windows line ends": (PANEL, GOOD.replace("\n", "\r\n")),
    "label instead of code": (PANEL, changed("30,2", "30,female")),
    "level with a decimal": (PANEL, changed("30,2", "30,2.0")),
    "level with a zero": (PANEL, changed("30,2", "30,02")),
    "level with a space": (PANEL, changed("30,2", "30,2 ")),
    "number with a space": (PANEL, changed("20,1,1.5", "20 ,1, 1.5 ")),
    "whole number as float": (PANEL, changed("20,1", "20.0,1")),
    "decimal comma": (PANEL, changed("1.5", '"1,5"')),
    "thousands": (PANEL, changed("1.5", '"1,500"')),
    "exponent": (PANEL, changed("1.5", "1.5e1")),
    "infinite": (PANEL, changed("1.5", "inf")),
    "german date": (PANEL, changed("2000-01-01", "01.01.2000")),
    "no day": (PANEL, changed("2000-01-01", "2000-02-30")),
    "time of day": (PANEL, changed("2000-01-01", "2000-01-01 12:00")),
    "year zero": (PANEL, changed("2000-01-01", "0000-01-01")),
    "out of range": (PANEL, changed("20,1", "120,1")),
    "upper end": (PANEL, changed("1.5", "100")),
    "huge": (PANEL, changed("20,1", "99999999999999999999,1")),
    "missing": (PANEL, changed("20,1", ",1")),
    "missing level": (PANEL, changed("1.5", "")),
    "missing word": (PANEL, changed("1.5", "NA")),
    "impossible": (PANEL, changed("49", "51")),
    "impossible, settled": (SETTLING, changed("49", "51")),
    "settled range": (SETTLING, changed("20,1,1.5", "120,1,1000")),
    "text in a settling column": (SETTLING, changed("1.5", "x")),
    "unsettled text": (SETTLING, changed("20,1", "x,1")),
    "no column": (PANEL, "age,sex,pay\n20,1,1.5\n"),
    "another column": (PANEL, changed("born\n", "born,x\n").replace("\n2", "\n2")),
    "repeated column": (PANEL, "age,sex,pay,born,age\n20,1,1.5,2000-01-01,1\n"),
    "column with a space": (PANEL, changed("sex", " sex")),
    "column in capitals": (PANEL, changed("sex", "Sex")),
    "semicolons": (PANEL, GOOD.replace(",", ";")),
    "no row": (PANEL, "age,sex,pay,born\n"),
    "no header": (PANEL, "20,1,1.5,2000-01-01\n21,1,1.5,2000-01-01\n"),
    "nothing": (PANEL, ""),
    "ragged": (PANEL, GOOD + "1,2\n"),
    "latin-1 text": (PANEL, changed("30,2", "30,\xe9").encode("latin-1")),
    "latin-1 header": (PANEL, changed("sex", "s\xe9x").encode("latin-1")),
    "utf-16": (PANEL, GOOD.encode("utf-16")),
    "zero byte": (PANEL, changed("30,2", "30,\x00")),
    "open quote": (PANEL, changed("30,2", '30,"2')),
    "person": (PERSONS, "id,age,sex,pay,born\n7,20,1,1.5,2000-01-01\n8,20,1,1.5,2000-01-01\n"),
    "too many rows of a person": (
        PERSONS,
        "id,age,sex,pay,born\n" + "7,20,1,1.5,2000-01-01\n" * 3,
    ),
    "nobody": (PERSONS, "id,age,sex,pay,born\n7,20,1,1.5,2000-01-01\n ,20,1,1.5,2000-01-01\n"),
    "follows": (FOLLOWS, "age,stage\n3,child\n20,adult\n,\n"),
    "does not follow": (FOLLOWS, "age,stage\n3,child\n20,old\n"),
    "no level of what follows": (FOLLOWS, "age,stage\n3,chield\n20,adult\n"),
    "does not follow, replaced": (LOOSE, "age,stage\n3,child\n20,old\n4,xx\n"),
    "own": (OWN, "code,wage\nA1,5\nA2,\n"),
    "own, broken": (OWN, "code,wage\nB1,51\n"),
    "many levels": (LONG, "code\nc1000\nc0\n"),
    "no level of many": (LONG, "code\nc1000\nc1001\n"),
    "missing beside many": (LONG, 'code\nc1000\n""\n'),
    "private bins": (PRIVATE, "pay\n1\n99.5\n"),
    "private bins, outside": (PRIVATE, "pay\n1\n100.5\n"),
}
FIT = {
    "good",
    "byte order mark",
    "windows line ends",
    "number with a space",
    "level with a decimal",
    "level with a space",
    "level with a zero",
    "whole number as float",
    "exponent",
    "time of day",
    "upper end",
    "missing level",
    "impossible, settled",
    "settled range",
    "person",
    "too many rows of a person",
    "follows",
    "does not follow, replaced",
    "own",
    "many levels",
    "private bins",
}


BY_THE_LIBRARY = {
    "good",
    "label instead of code",
    "out of range",
    "impossible",
    "own",
    "no level of many",
}
"""Files that Great Expectations judges; a plain judge of the same rules judges the others."""


@pytest.fixture(autouse=True)
def judge(request, monkeypatch):
    name = request.node.callspec.params.get("name") if hasattr(request.node, "callspec") else None
    if not at_full_size() and name not in BY_THE_LIBRARY and "own" not in str(name):
        monkeypatch.setattr(expectations, "SuiteJudge", PlainJudge)


def validates(folder, name, schema):
    """Return whether validation, with the codes that it writes, accepts a file."""
    try:
        source = open_source(name, folder, schema.reads, schema.ignore)
        codes = folder / f"codes-{name}"
        expectations.validate(source, schema.stored, folder / "internal", codes=codes)
    except BadInput:
        return False
    return True


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_the_check_passes_validates_and_no_other(name, tmp_path):
    text, content = FILES[name]
    schema = read(text)
    (tmp_path / "s.yaml").write_text(text)
    raw = content if isinstance(content, bytes) else content.encode()
    (tmp_path / "f.csv").write_bytes(raw)

    found = check(tmp_path / "s.yaml", [str(tmp_path / "f.csv")])

    assert found.fits == (name in FIT)
    assert found.fits == validates(tmp_path, "f.csv", schema)
    assert found.exit_code == (0 if found.fits else 2)
    assert found.fits or all(one.message and one.fix for one in found.of("refusal"))


STORED = {
    "good": [20, 30, 10],
    "floats": [20.0, 30.0, 10.0],
    "fractions": [20.5, 30.0, 10.0],
    "nulls": [20, None, 10],
    "outside": [20, 30, 1000],
    "texts": ["20", "30", "x"],
    "booleans": [True, False, True],
    "dates": pd.to_datetime(["2000-01-01"] * 3),
    "lists": [[1], [2], [3]],
}


@pytest.mark.parametrize("name", STORED)
@pytest.mark.parametrize("kind", ["integer", "category"])
def test_a_parquet_file_and_a_frame_get_the_verdict_of_validation(kind, name, tmp_path):
    definition = {
        "integer": "{type: integer, min: 0, max: 99}",
        "category": '{type: category, levels: ["10", "20", "30", "true"]}',
    }[kind]
    schema = read(f"{HEAD}columns:\n  age: {definition}\n")
    frame = pd.DataFrame({"age": STORED[name]})
    table = pa.Table.from_pandas(frame, preserve_index=False)
    pq.write_table(table, tmp_path / "f.parquet", row_group_size=2)

    found = check_files([str(tmp_path / "f.parquet")], schema)

    assert found.fits == validates(tmp_path, "f.parquet", schema)
    assert check_frame(table, schema).fits == found.fits
    assert check_frame(frame, schema).fits == found.fits


def test_several_files_are_one_file_of_a_release(tmp_path):
    schema = read(PERSONS)
    for number in (1, 2):
        rows = "id,age,sex,pay,born\n" + f"7,20,1,{number},2000-01-01\n" * 2
        (tmp_path / f"p{number}.csv").write_text(rows)

    found = check_files(["p*.csv"], schema, tmp_path)

    assert (found.fits, found.rows, found.files) == (True, 4, ("p1.csv", "p2.csv"))
    (settled,) = found.of("settled")
    assert (settled.kind, settled.rows) == ("max-rows", 2)


def test_every_expectation_of_a_team_that_is_not_met_is_named(tmp_path):
    (tmp_path / "s.yaml").write_text(OWN)
    (tmp_path / "f.csv").write_text("code,wage\nB1,60\n")

    found = check(tmp_path / "s.yaml", [str(tmp_path / "f.csv")])

    said = [one.message for one in found.of("refusal") if one.kind == "expectation"]
    assert [one.partition("meet ")[2].partition(" ")[0] for one in said] == [
        "expect_column_values_to_match_regex",
        "expect_table_row_count_to_be_between",
        "expect_column_max_to_be_between",
    ]
