"""The sets as CSV, Stata and SPSS files: what other programs read is what the release holds."""

from __future__ import annotations

import datetime
import re
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dp_core as dp
from dp_core.bundle.files.labelled_file import level_numbers, valid_names, write_labelled
from dp_core.errors import StageFailed
from tests.schema_texts import read

LONG = "work_in_the_last_week_and_the_week_before"
ONE = f"""\
version: 1
title: One
columns:
  class of work: {{type: ordinal, levels: {{low: Low, high: High}}, missing: level}}
  region:
    type: category
    levels: {{30: Nord, 20: Süd, other: Elsewhere}}
    description: Where
  age: {{type: integer, min: 0, max: 99, bins: 5, missing: level}}
  born: {{type: date, min: 2000-01-01, max: 2009-12-31, bins: year, missing: level}}
  {LONG}:
    {{type: number, min: 0, max: 10, bins: 5, decimals: 2, description: {"é" * 300}}}
"""
NAMES = ["class_of_work", "region", "age", "born", LONG[:32].rstrip("_")]
LINKED = """\
version: 1
title: Two
unit: {table: homes, max_members: 3}
tables:
  homes: {key: home, columns: {rooms: {type: integer, min: 1, max: 4}}}
  people:
    key: line
    parent: homes
    link: home
    columns: {if: {type: category, levels: {1: "yes", 2: "no"}}}
"""
READERS = {"stata": "read_dta", "spss": "read_sav"}


@pytest.fixture(scope="module")
def reader():
    return pytest.importorskip(
        "pyreadstat", reason="pyreadstat, the package of the extra `export`, is not installed"
    )


@pytest.fixture(scope="module")
def made():
    """A release in memory of a file with missing values in three columns."""
    rng, rows = np.random.default_rng(1), 400
    days = [datetime.date(2000, 1, 1) + datetime.timedelta(int(each)) for each in range(rows)]
    frame = pd.DataFrame(
        {
            "class of work": rng.choice(["low", "high", ""], rows),
            "region": rng.choice(["30", "20", "other"], rows),
            "age": pd.array(
                [None if each % 7 == 0 else each % 100 for each in range(rows)], "Int64"
            ),
            "born": [None if at % 5 == 0 else day for at, day in enumerate(days)],
            LONG: rng.random(rows).round(2) * 10,
        }
    )
    return dp.release(frame, read(ONE), epsilon=20, delta=1e-9, sets=2, rows=400, seed=1)


@pytest.mark.parametrize("form", ["stata", "spss"])
def test_values_and_labels_are_those_of_the_sets(made, reader, tmp_path, form):
    files = made.export(tmp_path / "out", form)

    assert [path.stem for path in files] == ["best", "set-1", "set-2"]
    for path, wanted in zip(files, [made.best, *made.sets], strict=True):
        found, about = getattr(reader, READERS[form])(path)
        assert about.column_names == NAMES
        labels = about.variable_value_labels
        assert labels["class_of_work"] == {1: "Low", 2: "High"}
        assert labels["region"] == {30: "Nord", 20: "Süd", 31: "Elsewhere"}
        for name, column in (("class_of_work", "class of work"), ("region", "region")):
            texts = found[name].map(labels[name])
            assert texts.equals(wanted[column].astype(texts.dtype))
        assert found["class_of_work"].isna().any()
        numbers = found["age"].astype("Int64")
        assert numbers.equals(wanted["age"])
        assert numbers.isna().any()
        days = pd.to_datetime(found["born"])
        assert days.isna().any()
        assert days.dt.date.equals(wanted["born"].dt.date)
        assert found[NAMES[4]].to_numpy() == pytest.approx(wanted[LONG].to_numpy(), abs=0)
        said = about.column_names_to_labels
        assert said["class_of_work"] == "class of work"
        assert said["region"] == "Where"
        assert said["age"] is None
        assert said[NAMES[4]].startswith(f"{LONG}: é")


def test_stata_stores_whole_numbers_and_days_and_spss_the_level_of_measurement(
    made, reader, tmp_path
):
    files = [made.export(tmp_path / form, form)[1] for form in READERS]
    (_, stata), (_, spss) = reader.read_dta(files[0]), reader.read_sav(files[1])

    # Every Stata from 14 on reads this format; of 119, only Stata/MP.
    assert b"<release>118<" in files[0].read_bytes()[:60]
    kinds = stata.readstat_variable_types
    assert [kinds[name] for name in NAMES] == ["int32", "int32", "int32", "double", "double"]
    assert stata.original_variable_types["born"] == "%td"
    assert [spss.variable_measure[name] for name in NAMES] == [
        *("ordinal", "nominal", "scale", "scale", "scale"),
    ]
    # A reader that shares no code with the writer.
    with pd.read_stata(files[0], iterator=True) as other:
        assert other.variable_labels()["region"] == "Where"
        assert set(other.read()["region"].cat.categories) == {"Nord", "Süd", "Elsewhere"}


def test_csv_has_the_labels_and_the_names_of_the_release(made, tmp_path):
    first = made.export(tmp_path / "out", "csv")[1]
    found = pd.read_csv(first, parse_dates=["born"])
    wanted = made.sets[0]

    assert list(found.columns) == list(wanted.columns)
    for name in ("class of work", "region"):
        assert found[name].fillna("").tolist() == wanted[name].astype(object).fillna("").tolist()
    assert found["born"].dt.date.equals(wanted["born"].dt.date)
    assert found["age"].astype("Int64").equals(wanted["age"])


def test_linked_tables_are_two_files_with_the_same_keys(reader, tmp_path):
    homes = pd.DataFrame({"home": range(1, 101), "rooms": [1, 2, 3, 4] * 25})
    people = pd.DataFrame({"home": range(1, 101), "line": 1, "if": ["1", "2"] * 50})
    tables = {"homes": homes, "people": people}
    two = dp.release(tables, read(LINKED), epsilon=20, delta=1e-9, sets=1, seed=1)
    files = two.export(tmp_path / "out", "stata")
    one = [path for path in files if path.parent.name == "set-1"]

    assert [path.name for path in one] == ["homes.dta", "people.dta"]
    (found, _), (persons, about) = map(reader.read_dta, one)
    assert found["home"].tolist() == two.sets[0]["homes"]["home"].tolist()
    assert persons["home"].tolist() == two.sets[0]["people"]["home"].tolist()
    assert about.column_names_to_labels["v_if"] == "if"
    assert set(about.variable_value_labels["v_if"].values()) == {"yes", "no"}


@pytest.mark.parametrize("ending", [".dta", ".sav"])
def test_columns_without_values_large_numbers_and_long_labels_are_written(reader, tmp_path, ending):
    label = "é" * 200
    column = read(
        f"version: 1\ntitle: x\ncolumns: {{a: {{type: category, levels: {{1: {label}, 2: b}}}}}}\n"
    ).column("a")
    whole = [2**31, None, 2**40]
    table = pa.table({"a": [label, "b", None], "empty": pa.nulls(3, pa.date32()), "big": whole})
    file = tmp_path / f"x{ending}"
    write_labelled(file, table, {"a": column}, "é" * 100)
    found, about = getattr(reader, "read" + ending.replace(".", "_"))(file)

    assert found["a"].tolist()[:2] == [1, 2]
    assert label.startswith(about.variable_value_labels["a"][1])
    assert len(about.variable_value_labels["a"][1]) >= 60
    assert found["empty"].isna().all()
    assert [None if pd.isna(each) else each for each in found["big"]] == whole
    write_labelled(file, table.slice(0, 0), {"a": column}, "")
    assert len(getattr(reader, "read" + ending.replace(".", "_"))(file)[0]) == 0


@given(names=st.lists(st.text(max_size=40), unique=True, max_size=8))
def test_names_are_valid_and_unique_and_valid_ones_stay(names):
    found = valid_names([*names, "age", "Hours_2"])

    assert all(re.fullmatch("[A-Za-z][A-Za-z0-9_]{0,31}", each) for each in found.values())
    assert len({each.lower() for each in found.values()}) == len(found)
    if not {"age", "hours_2"} & {name.lower() for name in names}:
        assert (found["age"], found["Hours_2"]) == ("age", "Hours_2")


@pytest.mark.parametrize("word", ["if", "_n", "strL", "str12", "NOT", "2nd", "中", "float"])
def test_a_word_of_stata_or_spss_is_no_name(word):
    assert valid_names([word])[word].lower() not in (word.lower(), "")


@pytest.mark.parametrize(
    ("kind", "levels", "numbers"),
    [
        ("category", "{3: a, 1: b}", [3, 1]),
        ("category", "{-9: a, x: b, 02: c, 2: d}", [-9, 3, 2, 4]),
        ("category", "[a, b]", [1, 2]),
        ("ordinal", "{1: a, 5: b}", [1, 5]),
        ("ordinal", "{5: a, 1: b}", [1, 2]),
        ("ordinal", "{x: a, 1: b}", [1, 2]),
    ],
)
def test_levels_have_the_numbers_of_the_schema_unless_these_break_the_order(kind, levels, numbers):
    text = f"version: 1\ntitle: x\ncolumns: {{a: {{type: {kind}, levels: {levels}}}}}\n"
    assert list(level_numbers(read(text).column("a")).values()) == numbers


# -- what is refused


def nothing_written(folder):
    return sorted(path.name for path in folder.iterdir()) == []


def test_an_unknown_format_is_refused(made, tmp_path):
    with pytest.raises(dp.BadInput):
        made.export(tmp_path / "out", "sas")
    assert nothing_written(tmp_path)


def test_a_folder_with_files_is_refused_and_stays(made, tmp_path):
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(dp.BadInput) as refused:
        made.export(tmp_path, "csv")
    assert refused.value.row == "output-not-empty"
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_release_without_sets_is_refused(tmp_path):
    frame = pd.DataFrame({"a": ["x", "y"] * 50})
    schema = "version: 1\ntitle: x\ncolumns: {a: {type: category, levels: [x, y]}}\n"
    tables = dp.release(frame, read(schema), epsilon=2, sets=0)
    with pytest.raises(dp.BadInput):
        tables.export(tmp_path / "out", "csv")
    assert nothing_written(tmp_path)


@pytest.mark.parametrize("form", ["stata", "spss"])
def test_without_pyreadstat_only_csv_is_written(made, tmp_path, monkeypatch, form):
    monkeypatch.setitem(sys.modules, "pyreadstat", None)
    with pytest.raises(dp.BadInput) as refused:
        made.export(tmp_path / "out", form)
    assert "pip install pyreadstat" in refused.value.message
    assert refused.value.exit_code == 2
    assert nothing_written(tmp_path)
    assert made.export(tmp_path / "out", "csv")


def test_a_failed_write_leaves_nothing(made, reader, tmp_path, monkeypatch):
    write, written = reader.write_dta, []

    def fail_second(frame, path, **options):
        written.append(path)
        if len(written) == 2:
            raise reader.ReadstatError("no space")
        write(frame, path, **options)

    monkeypatch.setattr(reader, "write_dta", fail_second)
    with pytest.raises(StageFailed):
        made.export(tmp_path / "out", "stata")
    assert len(written) == 2
    assert nothing_written(tmp_path)
