"""A release of two linked tables, from the files to the bundle."""

import sqlite3

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dp_core.confidential.code_store import CodeStore
from dp_core.errors import BadInput
from dp_core.schema.reading.schema_file import load_schema
from tasks.validation.data_docs import write_data_docs
from tests.confidential_side import raises_inside
from tests.flows.conftest import stopping
from tests.flows.linked_project import (
    DATA,
    SCHEMA,
    linked_project,
    tables,
    write_linked_spec,
    write_tables,
)
from tests.linked_frames import pair_row_codes


@pytest.fixture
def town(tmp_path, home):
    return linked_project(tmp_path / "work", home)


def test_a_release_has_linked_sets_and_verifies(town):
    run = town.release()

    assert town.faults() == {}
    statement = town.statement()
    assert statement["guarantee"]["unit"] == "household"
    assert statement["guarantee"]["max_members"] == 4
    for number in (1, 2):
        homes, people = (
            pd.read_parquet(town.out / f"synthetic/set-{number}/{name}.parquet")
            for name in ("homes", "people")
        )
        assert list(homes.columns) == ["home", "tenure", "income"]
        assert list(people.columns) == ["home_id", "nr", "age", "work"]
        assert homes["home"].is_unique
        assert set(people["home_id"]) == set(homes["home"])
        assert not people.duplicated(["home_id", "nr"]).any()
        assert people.groupby("home_id").size().max() <= 4
        assert not ((people["age"] < 18) & (people["work"] == "employed")).any()
        assert 200 < len(homes) < 400
    assert not run.folder.confidential.exists()
    # Staff can open what Great Expectations found in each table.
    index = write_data_docs(run.folder.internal).read_text()
    assert "Households of a town, homes" in index
    assert "Households of a town, people" in index


# -- what is refused, and what it costs


def orphan(found):
    found["people"].loc[5, "home_id"] = "999999"


def other_value(found):
    found["people"].loc[3, "work"] = "secret-word"


def working_child(found):
    found["people"].loc[3, ["age", "work"]] = ["7", "1"]


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (orphan, "are not in column 'home' of the table homes"),
        (other_value, "column 'work' holds texts that are not among its levels"),
        (working_child, "`impossible` rule"),
    ],
)
def test_a_faulty_file_is_refused_in_one_sentence_and_costs_nothing(town, command, spoil, said):
    found = tables()
    spoil(found)
    write_tables(town.folder, found)
    ended = command("run", town.spec, "--out", town.out, "--json")

    assert ended.code == 2
    # What is told to others is one fixed sentence.
    assert "do not fit its schema" in ended.json["error"]
    assert "Nothing was spent" in ended.json["error"]
    assert town.kinds() == ["ledger", "open", "reserve", "settle"]
    assert not town.out.exists()
    told = (town.internal / "message.txt").read_text().partition("\n")[2]
    assert said.lower() in told.lower()
    for secret in ("999999", "secret-word"):
        assert secret not in told
    assert said.lower() not in (ended.out + ended.err).lower()

    # Who may see the data may see where.
    homes, people = (town.folder / f"{name}.csv" for name in ("homes", "people"))
    shown = command("schema", "check", town.folder / "town.schema.yaml", homes, people)
    assert shown.code == 2
    assert "Refused" in shown.out


COUNTING = """\
rules:
  - at least one age >= 18
  - at most two age >= 65
"""


def obedient():
    """Return the tables, in which every household has an adult and at most two old members."""
    found = tables()
    people = found["people"]
    old = (people["age"].astype(int) >= 65).groupby(people["home_id"]).cumsum() > 2
    people.loc[old, "age"] = "40"
    people.loc[(people["nr"] == "1") & (people["age"].astype(int) < 18), "age"] = "40"
    return found


@pytest.mark.usefixtures("quick")
def test_every_household_of_a_release_obeys_the_rules_that_count_its_members(town):
    (town.folder / "town.schema.yaml").write_text(SCHEMA + COUNTING)
    write_tables(town.folder, obedient())
    town.release()

    assert town.faults() == {}
    stated = town.statement()["sets"]["rules"]
    assert stated["hold_in_every_row"] == []
    assert stated["hold_in_every_household"] == ["at least one age >= 18", "at most two age >= 65"]
    assert stated["tables"] > 0
    for number in (1, 2):
        people = pd.read_parquet(town.out / f"synthetic/set-{number}/people.parquet")
        home = people["home_id"]
        assert ((people["age"] >= 18).groupby(home).sum() >= 1).all()
        assert ((people["age"] >= 65).groupby(home).sum() <= 2).all()


WAYS = {
    "pure": {"privacy": "{epsilon: 2, delta: 0}"},
    "gaussian": {"measure": "{noise: gaussian}"},
    "replaced": {"privacy": "{epsilon: 2, delta: 1e-6, neighbours: replace-one}"},
    "one set": {"synthesize": "{sets: 1, mode: shared}"},
    "tables only": {"synthesize": "{sets: 0}"},
    "fewer households": {"synthesize": "{sets: 2, rows: 40}"},
    "measured number": {"total": "{share: 0.1}"},
}


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("way", WAYS)
def test_a_release_may_be_made_in_every_way_that_is_not_refused(tmp_path, home, way):
    neighbours = "replace-one" if way == "replaced" else "add-remove"
    town = linked_project(tmp_path / "work", home, neighbours=neighbours)
    write_linked_spec(town, **WAYS[way])
    town.release()
    assert town.faults() == {}
    sets = town.statement()["sets"]
    if way == "replaced":
        assert (sets["records"]["value"], sets["records"]["how"]) == (300, "public")
    elif way == "fewer households":
        assert sets["rows"] == [40, 40]
    elif way == "tables only":
        assert not (town.out / "synthetic").exists()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"data": "{homes: homes.csv, persons: people.csv}"}, "persons"),
        ({"synthesize": "{sets: 2, mode: split}"}, "not a mode of linked tables"),
        ({"checks": "{share: 0.1, tables: [[tenure]]}"}, "no charged checks"),
    ],
)
def test_what_linked_tables_do_not_have_is_refused_when_planned(town, command, changes, said):
    write_linked_spec(town, **changes)
    for words in (("plan", town.spec), ("run", town.spec, "--out", town.out)):
        ended = command(*words)
        assert ended.code == 2
        assert said in ended.err
    assert town.untouched()


def test_places_of_two_tables_need_a_schema_of_two_tables(project, command):
    project.write_spec(data="{homes: a.csv, people: b.csv}")
    ended = command("plan", project.spec)
    assert ended.code == 2
    assert "the schema has a single one" in ended.err


def test_a_plan_says_who_is_protected(town, command):
    ended = command("plan", town.spec)
    assert ended.code == 0
    assert (
        "one household (identified by home, its persons by home_id; at most 4 persons)"
        in " ".join(ended.out.split())
    )
    assert "other.age" in ended.out
    answer = command("plan", town.spec, "--json").json
    assert (answer["unit"], answer["max_members"]) == ("household", 4)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("kind", ["parquet", "glob", "database"])
def test_other_places_give_the_same_codes(town, kind, monkeypatch):
    found = tables()
    data = DATA
    if kind == "parquet":
        for name, frame in found.items():
            # Keys are whole numbers, the other columns texts.
            keys = {"homes": ["home"], "people": ["home_id", "nr"]}[name]
            typed = frame.astype(dict.fromkeys(keys, "int64"))
            typed.to_parquet(town.folder / f"{name}.parquet")
        data = DATA.replace("csv", "parquet")
    elif kind == "glob":
        people = found["people"]
        people.iloc[:100].to_csv(town.folder / "part-1.csv", index=False)
        people.iloc[100:].to_csv(town.folder / "part-2.csv", index=False)
        data = "{homes: homes.csv, people: part-*.csv}"
    else:
        file = town.folder / "town.db"
        with sqlite3.connect(file) as connection:
            for name, frame in found.items():
                frame.to_sql(name, connection, index=False)
        monkeypatch.setenv("TOWN_DB", f"sqlite:///{file}")
        places = [f"{name}: {{database: TOWN_DB, table: {name}}}" for name in found]
        data = "{" + ", ".join(places) + "}"
    write_linked_spec(town, data=data)
    with pytest.raises(KeyboardInterrupt):
        town.release(perform=stopping("count"))
    schema = load_schema(town.folder / "town.schema.yaml")
    store = CodeStore(town.run_folder / "confidential/codes", schema.domain)
    codes = np.concatenate([store.codes(chunk) for chunk in range(store.chunks)], axis=1)

    expected = pair_row_codes(schema, *(pa.Table.from_pandas(each) for each in found.values()))
    assert np.array_equal(codes, expected.codes)


def test_exchanged_files_are_said_to_be_swapped(town, command):
    homes, people = (town.folder / f"{name}.csv" for name in ("homes", "people"))
    shown = command("schema", "check", town.folder / "town.schema.yaml", people, homes)
    assert shown.code == 2
    assert "The two files seem to be swapped" in shown.err

    write_linked_spec(town, data="{homes: people.csv, people: homes.csv}")
    ended = command("run", town.spec, "--out", town.out)
    assert ended.code == 2
    assert ended.err.endswith("(runbook: data-unreadable)\n")
    own = (town.internal / "message.txt").read_text()
    assert "seem to be swapped" in own
    assert own.endswith("(runbook: columns-differ)\n")
    assert "charge" not in town.kinds()
    assert not town.out.exists()


@pytest.mark.usefixtures("quick")
def test_answers_say_whether_they_count_households_or_persons(town, command):
    write_linked_spec(town, "tables: [[members, work]]\n")
    town.release()
    for question, counted in (("share by tenure", "households"), ("share by work", "persons")):
        assert command("query", town.out, question, "--json").json["counted"] == counted
        said = command("query", town.out, question).out
        assert ("--sampling" in said) == (counted == "households")
    for formula, of in (("tenure ~ 1", "households"), ("work ~ 1", "persons")):
        answer = command("infer", town.out, formula, "--json").json
        assert answer["of"] == of
        assert of in command("infer", town.out, formula).out.split("Rule")[0]


ALONE = {
    "people": """\
version: 1
title: People
rows_about: 700
columns:
  age:  {type: integer, min: 0, max: 99, edges: [0, 18, 65, 100]}
  work: {type: category, levels: {1: employed, 2: not employed}}
ignore: [home_id, nr]
""",
    "homes": """\
version: 1
title: Homes
rows_about: 300
columns:
  tenure: {type: category, levels: {1: own, 2: rent}}
  income: {type: ordinal, levels: {1: low, 2: middle, 3: high}}
ignore: [home, street]
""",
}
"""Schema of each table as a single one."""


def _write_alone(town, table, **changes):
    (town.folder / "alone.schema.yaml").write_text(ALONE[table])
    town.write_spec(data=f"{table}.csv", schema="alone.schema.yaml", **changes)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("table", ["homes", "people"])
def test_a_linked_table_gets_no_fresh_budget_alone_in_another_account(town, table):
    town.release()
    town.open_account("other")
    _write_alone(town, table, release="second", account="other")
    with raises_inside(BadInput, match="belongs to account 'town'"):
        town.release(town.folder / "second")
    assert town.ledger().account("other").balance.used.main == 0
