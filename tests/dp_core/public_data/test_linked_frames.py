"""A release in memory of two linked frames."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import dp_core as dp
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.errors import BadInput
from dp_core.public_data.frame_codes import DataDoNotFit, frame_codes
from dp_core.schema.reading.schema_file import parse_schema
from dp_core.wall.household_counter import HouseholdCounter
from tests.linked_release import SCHEMA, frames


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
        assert people["home_id"].isin(homes["home"]).all()
        assert people.groupby("home_id").size().between(1, 4).all()
        assert not ((people["age"] < 18) & (people["work"] == "employed")).any()


def test_the_sets_are_like_the_frames(release):
    data = frames()
    for one in release.sets:
        assert len(one["homes"]) == pytest.approx(400, abs=40)
        assert len(one["people"]) == pytest.approx(len(data["people"]), rel=0.2)


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
