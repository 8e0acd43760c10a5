"""A draft has names and stated types; values are read only if the data are said to be public."""

from __future__ import annotations

import datetime

import pandas as pd
import pytest

import dp_core as dp

FRAME = pd.DataFrame(
    {
        "sex": ["zebra", "yak"] * 30,
        "level": pd.Categorical(["quokka", "okapi"] * 30),
        "age": range(7700, 7760),
        "income": [0.5, 88123.25] * 30,
        "flag": [True, False] * 30,
        "day": pd.to_datetime(["1955-01-01", "1966-02-02"] * 30),
        "wait": pd.to_timedelta(range(60)),
        "born": pd.Series([datetime.date(1955, 1, 1)] * 60, dtype=object),
    }
)
VALUES = ("zebra", "yak", "quokka", "okapi", "77", "88123", "1955", "1966")


def columns_of(draft: dp.SchemaDraft) -> str:
    return draft.text[draft.text.rindex("columns:") :]


def test_the_draft_of_a_frame_has_names_and_types_and_no_value():
    drafted = columns_of(dp.draft_schema(FRAME))

    assert [value for value in VALUES if value in drafted] == []
    for name in FRAME.columns:
        assert f"{name}:" in drafted or f"- {name}" in drafted
    for kind in ("category", "integer", "number", "date"):
        assert f"type: {kind}" in drafted


def test_equal_dtypes_have_equal_drafts_whatever_the_values():
    other = FRAME.assign(sex="a", age=1, income=2.0, born="yak", level=pd.Categorical(["b"] * 60))

    assert dp.draft_schema(FRAME).text == dp.draft_schema(other).text


def test_public_data_give_a_schema_that_the_frame_fits():
    frame = FRAME.drop(columns="wait")
    draft = dp.draft_schema(frame, public_data=True, title="Animals")
    made = dp.release(frame, draft, method="independent", sets=1, epsilon=1000, delta=1e-3)

    assert "zebra" in columns_of(draft)
    assert "Animals" in str(made)
    assert {*made.sets[0]["sex"].unique()} == {"zebra", "yak"}


def test_a_draft_is_refused_as_long_as_something_is_to_be_filled_in():
    with pytest.raises(dp.BadInput, match="title: has no value"):
        dp.release(FRAME, dp.draft_schema(FRAME))


def test_a_completed_schema_is_not_written_over(tmp_path):
    draft, path = dp.draft_schema(FRAME), tmp_path / "animals.schema.yaml"

    assert draft.save(path).read_text() == draft.text
    path.write_text("completed")
    with pytest.raises(dp.BadInput, match="overwrite=True"):
        draft.save(path)
    assert path.read_text() == "completed"
    draft.save(path, overwrite=True)
    assert path.read_text() == draft.text


def test_a_file_is_drafted_as_the_command_drafts_it(tmp_path):
    from dp_core.schema.draft import draft_schema

    FRAME.to_csv(tmp_path / "a.csv", index=False)
    FRAME.drop(columns="wait").to_parquet(tmp_path / "a.parquet")

    for name in ("a.csv", "a.parquet"):
        drafted = dp.draft_schema(tmp_path / name)
        assert drafted.text == draft_schema(tmp_path / name)
        assert [value for value in VALUES if value in columns_of(drafted)] == []


def test_a_file_is_not_taken_for_public_where_no_ledger_is_asked(tmp_path):
    FRAME.to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(dp.BadInput, match=r"schema draft .* --public-data"):
        dp.draft_schema(tmp_path / "a.csv", public_data=True)


@pytest.mark.parametrize(
    ("data", "error", "says"),
    [
        ("nowhere.csv", dp.BadInput, "no such file"),
        ([1, 2], TypeError, "not for list"),
        (FRAME.rename(columns={"sex": 4}), dp.BadInput, "named 4"),
        (FRAME.rename(columns={"sex": "age"}), dp.BadInput, "more than one column 'age'"),
        (FRAME.rename(columns={"sex": " "}), dp.BadInput, "no printable name"),
    ],
)
def test_what_cannot_be_drafted_is_refused(data, error, says):
    with pytest.raises(error, match=says):
        dp.draft_schema(data)


def test_a_codebook_describes_the_columns_and_no_value_is_looked_at(tmp_path):
    book = tmp_path / "book.csv"
    book.write_text("name,label,values\nsex,Sex of the animal,1=hen;2=cock\n")

    drafted = dp.draft_schema(FRAME, codebook=book)

    assert "hen" in columns_of(drafted)
    assert [value for value in VALUES if value in columns_of(drafted)] == []


def test_a_codebook_and_public_data_exclude_each_other():
    with pytest.raises(dp.BadInput, match="not both"):
        dp.draft_schema(FRAME, codebook="book.csv", public_data=True)


def test_it_shows_itself_as_text_and_escaped_in_html():
    draft = dp.SchemaDraft("a: <b>\n")

    assert str(draft) == repr(draft) == "a: <b>\n"
    assert "<pre>a: &lt;b&gt;\n</pre>" in draft._repr_html_()
