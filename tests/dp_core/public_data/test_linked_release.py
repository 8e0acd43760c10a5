"""Releases of linked tables in memory, in both of their modes."""

from __future__ import annotations

import pytest

import dp_core as dp
from tests import linked_release


@pytest.mark.parametrize(("mode", "sets"), [("shared", 1), ("posterior", 2)])
def test_a_wanted_table_with_members_answers_questions_about_persons(mode, sets):
    frames = linked_release.frames(1000)
    release = dp.release(
        frames,
        linked_release.SCHEMA,
        epsilon=50,
        mode=mode,
        sets=sets,
        tables=["tenure, members, work"],
    )
    answer = release.query("count by tenure where work = 1")
    homes, people = frames["homes"], frames["people"]
    joined = people.merge(homes, left_on="home_id", right_on="home")
    working = joined[joined["work"].astype(str) == "1"]
    exact = working.groupby(working["tenure"].astype(str)).size()

    assert answer.determined
    for cell in answer.cells:
        # Far more than any noise at this epsilon, far less than the count.
        assert abs(cell["estimate"] - exact[cell["tenure"]]) < 0.1 * exact[cell["tenure"]]


@pytest.mark.parametrize(("mode", "sets"), [("shared", 1), ("posterior", 2)])
def test_vacant_dwellings_are_released_without_persons(mode, sets):
    frames = linked_release.with_vacant(linked_release.frames(2000), 400)
    schema = {
        **linked_release.VACANCIES,
        "impossible": [*linked_release.SCHEMA["impossible"], {"members": "0", "income": ["high"]}],
    }
    homes = frames["homes"]
    vacant = ~homes["home"].isin(frames["people"]["home_id"])
    homes.loc[vacant & (homes["income"] == 3), "income"] = 1
    release = dp.release(
        frames, schema, epsilon=50, mode=mode, sets=sets, tables=["tenure, members"]
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
    frames = linked_release.with_vacant(linked_release.frames(300), 100)
    known = frames["homes"]["tenure"].value_counts()
    totals = {"tenure": {"1": str(known[1]), "2": str(known[2])}, "source": "Register"}
    schema = {**linked_release.VACANCIES, "totals": [totals]}
    release = dp.release(
        frames, schema, epsilon=20, neighbours="replace-one", mode="posterior", sets=2
    )
    for made in release.sets:
        assert made["homes"]["tenure"].value_counts().tolist() == [known.max(), known.min()]
        vacant = ~made["homes"]["home"].isin(made["people"]["home_id"])
        assert 80 < vacant.sum() < 120


@pytest.mark.parametrize(("mode", "sets"), [("shared", 1), ("posterior", 2)])
def test_every_person_of_a_set_belongs_to_a_household(mode, sets):
    release = dp.release(
        linked_release.frames(300), linked_release.SCHEMA, epsilon=1, mode=mode, sets=sets
    )
    for made in release.sets:
        homes, people = made["homes"], made["people"]

        assert homes["home"].is_unique
        assert set(people["home_id"]) == set(homes["home"])
        assert people.groupby("home_id").size().between(1, 4).all()
        assert not people.duplicated(["home_id", "nr"]).any()
