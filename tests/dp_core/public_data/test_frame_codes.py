"""A public frame becomes the codes of its texts, whatever types pandas gave it."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dp_core as dp
from dp_core.errors import BadInput
from dp_core.public_data.frame_codes import DataDoNotFit, frame_codes
from dp_core.schema.reading.schema_file import parse_schema
from tests.panel_files import WAVES, panel_document, panel_frame

SCHEMA = """\
version: 1
title: Types
columns:
  code:   {type: category, levels: [1, 2], missing: level}
  flag:   {type: category, levels: ["true", "false"]}
  age:    {type: integer, min: 0, max: 99, bins: 5, missing: level}
  income: {type: number, min: 0, max: 10, bins: 4, missing: level}
  born:   {type: date, min: 2000-01-01, max: 2009-12-31, bins: year, missing: level}
"""
TEXTS = pd.DataFrame(
    {
        "code": ["1", "2", "", "1"],
        "flag": ["true", "false", "false", "true"],
        "age": ["0", "41", "", "99"],
        "income": ["0.5", "", "10", "2.5"],
        "born": ["2000-01-01", "2004-07-15", "", "2009-12-31"],
    },
    dtype=object,
)
SAME = {
    "code": [
        [1.0, 2.0, np.nan, 1.0],
        pd.array([1, 2, None, 1], dtype="Int64"),
        pd.Categorical([1, 2, None, 1]),
        pd.Categorical([1.0, 2.0, None, 1.0]),
        pd.Series(["1", "2", None, "1"], dtype="string"),
        pd.Series([1, 2, None, 1], dtype=pd.ArrowDtype(pa.int8())),
    ],
    "flag": [
        [True, False, False, True],
        pd.array([True, False, False, True], dtype="boolean"),
        [True, "false", np.bool_(False), "true"],
    ],
    "age": [
        [0.0, 41.0, np.nan, 99.0],
        pd.Categorical([0, 41, None, 99]),
        ["0", 41, None, 99.0],
    ],
    "income": [
        [0.5, np.nan, 10, 2.5],
        ["0.5", None, 10, 2.5],
    ],
    "born": [
        pd.to_datetime(["2000-01-01", "2004-07-15", None, "2009-12-31"]),
        pd.to_datetime(["2000-01-01 00:00", "2004-07-15 13:59", None, "2009-12-31 08:00"]),
        [datetime.date(2000, 1, 1), datetime.date(2004, 7, 15), None, datetime.date(2009, 12, 31)],
        [datetime.datetime(2000, 1, 1), "2004-07-15", None, datetime.date(2009, 12, 31)],
    ],
}


@pytest.fixture(scope="module")
def schema():
    return dp.read_schema(SCHEMA)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        pytest.param(name, values, id=f"{name} {number}")
        for name, forms in SAME.items()
        for number, values in enumerate(forms)
    ],
)
def test_a_column_of_any_type_has_the_codes_of_its_texts(schema, name, values):
    frame = TEXTS.assign(**{name: pd.Series(values)})

    assert np.array_equal(frame_codes(frame, schema).codes, frame_codes(TEXTS, schema).codes)


def test_everything_that_does_not_fit_is_said_at_once(schema):
    frame = TEXTS.assign(
        code=["1", "7", "", "1"], age=["0", "-3", "x", "5"], flag=["true", "", "false", "yes"]
    )
    frame = frame.drop(columns="born").assign(Income=0, other=1)

    with pytest.raises(DataDoNotFit) as raised:
        frame_codes(frame, schema)

    said = raised.value.message
    about = {finding.column for finding in raised.value.findings}
    assert {"code", "age", "flag", "born"} <= about
    for text in ("'7'", "-3", "'x'", "booleans", "Income", "other"):
        assert text in said
    assert raised.value.exit_code == 2


MONEY = "{type: number, min: 0, max: 600000, bins: 4, decimals: 2}"
COMPARED = {
    "table": f"columns: {{a: {MONEY}, b: {MONEY}}}",
    "panel": f"""panel: {{person: id, wave: year, waves: [1, 2]}}
columns: {{a: {MONEY}, b: {MONEY}}}""",
    "linked": f"""unit: {{table: homes, max_members: 3}}
tables:
  homes: {{key: home, columns: {{a: {MONEY}, b: {MONEY}}}}}
  people:
    {{key: id, parent: homes, link: home, columns: {{c: {{type: category, levels: [x]}}}}}}""",
}


@pytest.mark.parametrize("kind", COMPARED)
def test_compared_numbers_of_more_than_32_bits_are_refused_in_32(kind):
    schema = dp.read_schema(f"version: 1\ntitle: T\n{COMPARED[kind]}\nrules: [a <= b]\n")

    def frames(dtype):
        rows = pd.DataFrame({"a": np.array([1, 2], dtype), "b": np.array([2, 3], dtype)})
        if kind == "table":
            return rows
        if kind == "panel":
            return rows.assign(id=["p", "q"], year=[1, 2])
        people = pd.DataFrame({"id": [1, 2], "home": [1, 2], "c": ["x", "x"]})
        return {"homes": rows.assign(home=[1, 2]), "people": people}

    assert frame_codes(frames(np.float64), schema).rows
    with pytest.raises(BadInput, match="'a', which a rule compares"):
        frame_codes(frames(np.float32), schema)


def test_every_refused_column_is_named_beside_the_others():
    schema = dp.read_schema(SCHEMA)
    days = pd.to_datetime(TEXTS["born"].replace("", None)).dt.tz_localize("UTC")
    frame = TEXTS.assign(flag=["yes", "no", "no", "yes"], born=days, age=["0", "-3", "", "5"])

    with pytest.raises(DataDoNotFit) as raised:
        frame_codes(frame, schema)

    assert {one.column for one in raised.value.findings} == {"flag", "born", "age"}


def test_days_that_no_text_can_name_are_no_dates():
    text = SCHEMA.replace("bins: year,", "bins: year, out_of_range: clip,")
    schema = dp.read_schema(text)
    far = pa.array([10957, None, 2**31 - 1, -(2**31)], pa.date32())
    frame = pa.table({**TEXTS.drop(columns="born"), "born": far})

    with pytest.raises(DataDoNotFit) as raised:
        frame_codes(frame, schema)

    (found,) = raised.value.findings
    assert (found.column, found.rows) == ("born", 2)


@pytest.mark.parametrize(
    ("frame", "says"),
    [
        (TEXTS.set_index("code"), "reset_index"),
        (TEXTS.rename(columns={"code": 3}), "named 3"),
        (TEXTS.assign(code=[[1], [2], [], [1]]), "'code': The column is stored as list,"),
        (TEXTS.assign(age=pd.to_timedelta([1, 2, 3, 4])), "'age': .* stored as timedelta64"),
        (TEXTS.assign(age=["1", 2j, "3", "4"]), "'age': .* stored as complex,"),
        (TEXTS.iloc[:0], "no row"),
        (pd.concat([TEXTS, TEXTS[["age"]]], axis=1), "'age'"),
    ],
)
def test_a_frame_that_cannot_be_read_is_refused_with_the_reason(schema, frame, says):
    with pytest.raises(BadInput, match=says):
        frame_codes(frame, schema)


@pytest.mark.parametrize("data", [TEXTS.to_numpy(), {"a": TEXTS}, "people.csv", None])
def test_what_is_no_frame_is_a_type_error_that_says_how_to_read_one(schema, data):
    with pytest.raises(TypeError, match="read_csv"):
        frame_codes(data, schema)


def test_a_person_without_an_identifier_is_refused():
    schema = dp.read_schema(
        "version: 1\ntitle: T\nunit: {column: who, max_rows: 2}\ncolumns:\n"
        "  code: {type: category, levels: [1, 2]}\n"
    )

    with pytest.raises(DataDoNotFit, match="who"):
        frame_codes(pd.DataFrame({"who": ["a", None], "code": [1, 2]}), schema)


# -- panels, with one frame or one for each wave


def by_wave(rows):
    return {int(wave): rows[rows["year"] == wave].drop(columns="year") for wave in WAVES}


def test_one_frame_and_a_frame_for_each_wave_give_the_same_records():
    rows = panel_frame()
    whole = frame_codes(rows, parse_schema(panel_document()))
    typed = rows.astype({"birth": int, "sex": int, "year": int})
    again = frame_codes(typed, parse_schema(panel_document()))
    parts = frame_codes(by_wave(rows), parse_schema(panel_document(wave=None)))
    assert whole.rows == 400
    assert np.array_equal(whole.codes, again.codes)
    assert np.array_equal(whole.codes, parts.codes)


def test_a_release_in_memory_has_records():
    made = dp.release(
        panel_frame(),
        panel_document(),
        method="fixed",
        epsilon=5,
        delta=1e-6,
        tables=[("work_2023", "work_2024")],
    )
    assert "work_2024" in made.sets[0].columns
    assert made.query("share by work_2023, work_2024").determined


def test_what_does_not_fit_is_told_with_its_numbers():
    rows, schema = panel_frame(), parse_schema(panel_document())
    with pytest.raises(BadInput, match="1 person has several rows in wave"):
        frame_codes(pd.concat([rows, rows.iloc[:1]]), schema)
    with pytest.raises(
        BadInput, match="Column 'work': The schema has this column, and the frame does not"
    ):
        frame_codes(rows.drop(columns="work"), schema)
    separate = parse_schema(panel_document(wave=None))
    with pytest.raises(BadInput, match="but the dictionary has 2023, 2024"):
        frame_codes({wave: rows for wave in WAVES[:2]}, separate)
    with pytest.raises(TypeError, match="each with a frame of its own"):
        frame_codes(rows, separate)
