"""A bundle in Python: its sets, tables, answers and statement, and what it says of mistakes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import dp_core as dp
from tests.dp_core.bundle.conftest import NASTY, make_published, write


@pytest.fixture(scope="module")
def first(town_folder):
    return dp.read_bundle(town_folder / "first")


@pytest.fixture(scope="module")
def nasty(tmp_path_factory):
    """A release in which a label and the title are a script."""
    folder = tmp_path_factory.mktemp("nasty")
    published, data = make_published(mode="shared", sets=3)
    return dp.read_bundle(write(folder / "out", published, data, folder / "scratch"))


# -- sets


def test_a_set_is_read_when_it_is_first_used_and_then_kept(town_folder, monkeypatch):
    read = []
    real = pq.read_table
    monkeypatch.setattr(pq, "read_table", lambda path, **o: read.append(path) or real(path, **o))
    bundle = dp.read_bundle(town_folder / "first")
    read.clear()

    assert (len(bundle.sets), repr(bundle.sets) != "", read) == (5, True, [])
    assert bundle.sets[1] is bundle.sets[-4]
    assert [path.name for path in read] == ["set-2.parquet"]
    assert [len(each) for each in bundle.sets[1:3]] == [5000, 5000]
    assert len(read) == 2


def test_a_set_has_the_types_of_the_schema(nasty):
    data = nasty.sets[0]
    raw = pd.read_parquet(nasty.folder / "synthetic/set-1.parquet")

    assert list(data["sex"].cat.categories) == ["female", "male", NASTY]
    assert not data["sex"].cat.ordered
    assert pd.api.types.is_datetime64_any_dtype(data["born"])
    assert data["age"].dtype == np.int64
    assert list(data.columns) == list(raw.columns)
    for name in data.columns:
        assert data[name].isna().tolist() == raw[name].isna().tolist()
    assert data["sex"].astype(object).dropna().tolist() == raw["sex"].dropna().astype(str).tolist()


def test_what_is_no_set_says_what_to_write(first):
    with pytest.raises(IndexError, match=r"5 sets"):
        first.sets[5]
    with pytest.raises(TypeError, match=r"sets\[0\]\['income'\]"):
        first.sets["income"]


# -- tables


def test_tables_are_found_by_their_columns_in_any_order(first):
    assert list(first.tables)[:2] == [("sex",), ("age",)]
    assert len(first.tables) == 8
    assert ("income", "age") in first.tables
    assert "age" in first.tables
    assert ("region", "age") not in first.tables
    assert first.tables["age", "sex"].equals(first.tables["sex", "age"])
    assert first.tables["age"].equals(first.tables[("age",)])


def test_a_table_has_the_published_noisy_counts_and_their_margin(first):
    file = pd.read_parquet(first.folder / "marginals.parquet")
    file = file[file["table"] == 5]
    table = first.tables["sex", "age"]

    assert table["count"].tolist() == file["count"].tolist()
    labels = [tuple(row) for row in table[["sex", "age"]].astype(str).to_numpy()]
    assert labels == [tuple(row) for row in file["labels"]]
    assert set(table["table"]) == {5}
    # 95 % of Gaussian noise, rounded up to a whole record.
    assert set(table["margin"]) == {int(np.ceil(1.959964 * file["scale"].iloc[0] - 0.5))}


def test_everything_that_was_measured_has_a_row(first):
    frame = first.tables.frame

    assert frame.index.tolist() == list(range(1, 9))
    assert frame.loc[5, ["columns", "kind", "values"]].tolist() == ["sex, age", "table", 10]
    assert "age, income" in str(first.tables)


def test_columns_without_a_table_are_a_key_error_and_bad_input(first):
    with pytest.raises(KeyError) as unknown:
        first.tables["sx"]
    assert "Did you mean 'sex'?" in str(unknown.value)
    with pytest.raises(dp.BadInput, match="exactly the columns age, region"):
        first.tables["region", "age"]
    assert first.tables.get(("region", "age")) is None


# -- answers


def test_an_answer_has_its_frame_with_labels_and_numbers(first):
    answer = first.query("share by sex, age")
    frame = answer.frame

    assert list(frame.columns) == ["sex", "age", "estimate", "margin", "low", "high"]
    assert frame["sex"].cat.categories.tolist() == ["male", "female"]
    assert frame["estimate"].sum() == pytest.approx(1)
    assert frame["estimate"].tolist() == [cell["estimate"] for cell in answer.to_json()["cells"]]
    assert ((frame["low"] < frame["estimate"]) & (frame["estimate"] < frame["high"])).all()


def test_dates_are_dates_in_a_frame_with_the_margin_in_days(nasty):
    frame = nasty.query("mean of born by sex").frame

    assert frame["estimate"].iloc[0].year in range(2000, 2010)
    assert frame["low"].iloc[0] < frame["estimate"].iloc[0] < frame["high"].iloc[0]
    assert frame["margin"].dtype == np.float64


def test_what_is_not_determined_is_said_where_it_is_printed(first):
    answer = first.query("count by age, region")

    assert answer.determined is False
    assert answer.frame.empty
    assert list(answer.frame.columns)[:2] == ["age", "region"]
    for text in (str(answer), repr(answer), answer._repr_html_()):
        assert "no published table has age and region together" in " ".join(text.split())


def test_a_group_that_is_not_determined_is_nan(nasty):
    answer = nasty.query("share of female by age")
    unknown = [not cell["determined"] for cell in answer.to_json()["cells"]]

    assert any(unknown)
    assert answer.frame["estimate"].isna().tolist() == unknown
    assert "not determined" in str(answer)


def test_a_long_answer_prints_its_beginning(nasty):
    answer = nasty.query("count by sex, age")

    assert len(answer.frame) == 80
    assert "... and 20 more; .frame has all." in str(answer)


def test_no_warning_of_a_regression_is_lost(nasty):
    answer = nasty.infer("height ~ age + sex")
    texts = (str(answer), answer._repr_html_())

    assert answer.warnings
    assert answer.notes
    for said in (*answer.warnings, *answer.notes, answer.rule.invalid_because):
        assert said in " ".join(texts[0].split())
        assert all(word in texts[1] for word in said.split() if word.isalpha())
    assert texts[1].count("border-left") == len({*answer.warnings}) + len(answer.not_given)


def test_the_frame_of_a_regression_has_a_row_for_each_coefficient(first):
    answer = first.infer("income ~ age + sex")
    frame = answer.frame

    assert frame.index.tolist() == ["Intercept", "sex[T.male]", "age"]
    for row in answer.to_json()["coefficients"]:
        for name in ("estimate", "std_error", "p_value", "low", "high"):
            assert frame.loc[row["name"], name] == row[name]
        assert frame.loc[row["name"], "concerns"] == ", ".join(row["concerns"])


def test_a_single_set_gives_naive_numbers_when_they_are_asked_for(tmp_path):
    published, data = make_published(mode="shared", sets=1)
    bundle = dp.read_bundle(write(tmp_path / "out", published, data, tmp_path / "scratch"))

    with pytest.raises(dp.BadInput, match="one set"):
        bundle.infer("height ~ age")
    answer = bundle.infer("height ~ age", naive=True)
    assert list(answer.frame.columns) == ["estimate", "std_error", "low", "high", "concerns"]
    assert "too narrow" in " ".join(str(answer).split())


def test_labels_are_escaped_in_a_notebook(nasty):
    shown = [
        nasty,
        nasty.tables,
        nasty.sets,
        nasty.statement,
        nasty.query("count by sex"),
        nasty.infer("height ~ sex"),
        nasty.verify(),
    ]
    for each in shown:
        assert "<script" not in each._repr_html_()
    assert "&lt;script&gt;" in shown[0]._repr_html_()
    assert NASTY in str(shown[4])
    assert f"sex[T.{NASTY}]" in str(shown[5])


# -- statement and verification


def test_the_statement_is_release_json_and_prints_the_guarantee(first):
    text = (first.folder / "release.json").read_text()

    assert first.statement == json.loads(text)
    assert json.loads(json.dumps(first.statement)) == first.statement
    assert "epsilon 1, delta 1e-09" in str(first.statement)
    assert "Refused attempts" in str(first.statement)


def test_verify_looks_at_the_folder_as_it_is_now(town_folder, tmp_path):
    folder = Path(shutil.copytree(town_folder / "first", tmp_path / "copy"))
    bundle = dp.read_bundle(str(folder))
    assert bundle.verify().passed
    assert bundle.verify().frame["passed"].all()

    (folder / "report.html").write_text("changed")
    found = bundle.verify()
    assert (found.passed, found.exit_code) == (False, 1)
    assert "does NOT verify" in str(found)
    assert "FAIL" in found._repr_html_()
    with pytest.raises(dp.BadInput, match="cannot be read"):
        bundle.verify(public_keys=[tmp_path / "none.pub"])


# -- mistakes


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda bundle: bundle.query("count by seks"), "'seks'"),
        (lambda bundle: bundle.infer("income ~ aeg"), "'aeg'"),
        (lambda bundle: bundle.infer("income"), "income"),
        (lambda bundle: bundle.infer("income ~ age", family="poison"), "poisson"),
        (lambda bundle: bundle.infer("income ~ age", weighted=True), "weights"),
        (lambda bundle: bundle.infer("income ~ age", level=95), "between 0 and 1"),
        (lambda bundle: bundle.query("count", level=0), "between 0 and 1"),
    ],
)
def test_a_mistake_is_a_sentence_of_bad_input(first, call, said):
    with pytest.raises(dp.BadInput, match=said):
        call(first)


@pytest.mark.parametrize(("call", "text"), [("query", "count"), ("infer", "income ~ age")])
def test_another_type_than_text_or_number_is_a_type_error(first, call, text):
    with pytest.raises(TypeError, match="text"):
        getattr(first, call)(3)
    with pytest.raises(TypeError, match=r"level must be a number, such as 0\.95, not '95%'"):
        getattr(first, call)(text, level="95%")


def test_what_is_no_bundle_is_refused(town_folder, tmp_path):
    for folder, said in (
        (tmp_path, "no release.json"),
        (tmp_path / "none", "does not exist"),
        (town_folder / "town.schema.yaml", "is a file"),
    ):
        with pytest.raises(dp.BadInput, match=said):
            dp.read_bundle(folder)
    with pytest.raises(dp.BadInput):
        dp.read_schema(tmp_path / "none.yaml")


def test_a_changed_set_is_refused(town_folder, tmp_path):
    folder = Path(shutil.copytree(town_folder / "first", tmp_path / "copy"))
    bundle = dp.read_bundle(folder)
    (folder / "synthetic/set-1.parquet").write_bytes(b"no Parquet")

    with pytest.raises(dp.BadInput, match="cannot be read"):
        bundle.sets[0]
    with pytest.raises(dp.BadInput, match=r"set-1\.parquet was changed"):
        dp.read_bundle(folder)
