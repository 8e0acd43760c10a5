"""Releases in memory of two linked frames, in both of their modes."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import dp_core as dp
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.errors import BadInput
from dp_core.kernel.counting.household_counter import HouseholdCounter
from dp_core.public_data.frame_codes import DataDoNotFit, frame_codes
from dp_core.schema.reading.schema_file import parse_schema
from tests.linked_release import SCHEMA, VACANCIES, frames, with_vacant


@pytest.fixture(scope="module")
def release():
    return dp.release(frames(), SCHEMA, epsilon=8, sets=2)


def changed(table, **columns):
    data = frames()
    for name, values in columns.items():
        data[table][name] = values
    return data


def test_a_release_of_two_frames_has_two_frames_in_every_set(release):
    assert len(release.sets) == 2
    for one in release.sets:
        homes, people = one["homes"], one["people"]
        assert homes["home"].tolist() == list(range(1, len(homes) + 1))
        assert {*people["home_id"]} == {*homes["home"]}
        assert not people.duplicated(["home_id", "nr"]).any()
        assert people.groupby("home_id").size().between(1, 4).all()
        assert not ((people["age"] < 18) & (people["work"] == "employed")).any()
        assert len(homes) == pytest.approx(400, abs=40)
        assert len(people) == pytest.approx(len(frames()["people"]), rel=0.2)


def test_a_saved_release_has_both_tables_and_their_keys(release, tmp_path):
    folder = release.save(tmp_path / "out")
    stated = json.loads((folder / "in-memory.json").read_text())
    assert stated["noise_calibrated_to"]["max_members"] == 4
    for number, rows in enumerate(stated["sets"]["persons"], start=1):
        path = folder / f"synthetic/set-{number}/people.parquet"
        assert pq.read_metadata(path).num_rows == rows
    package = json.loads((folder / "datapackage.json").read_text())
    assert "foreignKeys" in package["resources"][1]["schema"]


def test_the_number_of_households_is_public_if_one_is_replaced():
    made = dp.release(frames(), SCHEMA, epsilon=8, sets=2, neighbours="replace-one")
    (cell,) = made.query("count").cells
    assert (cell["estimate"], cell["margin"]) == (400, 0)
    assert len(made.sets[0]["homes"]) == 400


def test_every_household_counts_once():
    schema = parse_schema(SCHEMA)
    pairs = MemoryCounter(frame_codes(frames(), schema))
    counts = HouseholdCounter(pairs, schema.linked).count([("age",), ()])
    assert counts[()].counts == counts["age",].counts.sum() == 400 * 12


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"homes": frames()["homes"]}, "has the tables homes, people"),
        (changed("people", home_id=7), "not in column 'home'"),
        (changed("homes", home=10), "repeats a key"),
        (changed("people", nr=1), "repeats a key within a household"),
        (changed("people", age=120), "'age'"),
        (changed("people", work=1), "break"),
    ],
)
def test_frames_that_do_not_fit_are_refused_in_a_sentence(data, said):
    with pytest.raises(BadInput, match="(?s)" + said):
        dp.release(data, SCHEMA, epsilon=1)


def test_everything_that_does_not_fit_in_both_frames_is_said_at_once():
    data = changed("people", age=120)
    data["homes"] = data["homes"].assign(tenure="rented", more=1)
    with pytest.raises(DataDoNotFit) as raised:
        dp.release(data, SCHEMA)
    found = {(one.column, one.message.rpartition("(table ")[2]) for one in raised.value.findings}
    assert {("age", "people)."), ("tenure", "homes)."), ("more", "homes).")} <= found


def test_linked_tables_need_a_dictionary_of_frames():
    with pytest.raises(TypeError, match="dictionary"):
        dp.release(pd.DataFrame({"a": np.arange(3)}), SCHEMA)


@pytest.mark.parametrize(("mode", "sets"), [("shared", 1), ("posterior", 2)])
def test_a_wanted_table_with_members_answers_questions_about_persons(mode, sets):
    given = frames(1000)
    options = {"mode": mode, "sets": sets, "tables": ["tenure, members, work"]}
    release = dp.release(given, SCHEMA, epsilon=50, **options)
    answer = release.query("count by tenure where work = 1")
    homes, people = given["homes"], given["people"]
    joined = people.merge(homes, left_on="home_id", right_on="home")
    working = joined[joined["work"].astype(str) == "1"]
    exact = working.groupby(working["tenure"].astype(str)).size()

    assert answer.determined
    for cell in answer.cells:
        # Far more than any noise at this epsilon, far less than the count.
        assert abs(cell["estimate"] - exact[cell["tenure"]]) < 0.1 * exact[cell["tenure"]]


@pytest.mark.parametrize(("mode", "sets"), [("shared", 1), ("posterior", 2)])
def test_vacant_dwellings_are_released_without_persons(mode, sets):
    given = with_vacant(frames(2000), 400)
    schema = {
        **VACANCIES,
        "impossible": [*SCHEMA["impossible"], {"members": "0", "income": ["high"]}],
    }
    homes = given["homes"]
    vacant = ~homes["home"].isin(given["people"]["home_id"])
    homes.loc[vacant & (homes["income"] == 3), "income"] = 1
    release = dp.release(
        given, schema, epsilon=50, mode=mode, sets=sets, tables=["tenure, members"]
    )
    true = vacant.groupby(homes["tenure"].astype(str)).mean()

    for made in release.sets:
        empty = ~made["homes"]["home"].isin(made["people"]["home_id"])
        found = empty.groupby(made["homes"]["tenure"].astype(str)).mean()
        assert abs(found.to_numpy() - true.to_numpy()).max() < 0.02
        assert not (made["homes"]["income"][empty].astype(str) == "high").any()
        assert not made["people"].isna().any().any()
        assert set(made["people"]["home_id"]) < set(made["homes"]["home"])


def test_public_totals_count_vacant_dwellings():
    given = with_vacant(frames(300), 100)
    known = given["homes"]["tenure"].value_counts()
    totals = {"tenure": {"1": str(known[1]), "2": str(known[2])}, "source": "Register"}
    schema = {**VACANCIES, "totals": [totals]}
    release = dp.release(
        given, schema, epsilon=20, neighbours="replace-one", mode="posterior", sets=2
    )
    for made in release.sets:
        assert made["homes"]["tenure"].value_counts().tolist() == [known.max(), known.min()]
        vacant = ~made["homes"]["home"].isin(made["people"]["home_id"])
        assert 80 < vacant.sum() < 120
