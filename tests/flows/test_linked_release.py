"""A release of two linked tables, from the files to the bundle."""

from __future__ import annotations

import re
import sqlite3

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dp_core.bundle.files.marginals_file import read_marginals
from dp_core.confidential.code_store import CodeStore
from dp_core.errors import BadInput
from dp_core.schema.reading.schema_file import load_schema
from dp_core.tables.linked_columns import MEMBERS, OTHER
from dp_core.wall.released import Measurement
from tasks.validation.data_docs import write_data_docs
from tests.flows.conftest import STAGES, stopping
from tests.flows.linked_project import (
    DATA,
    SCHEMA,
    linked_project,
    tables,
    write_linked_spec,
    write_tables,
)
from tests.full import some
from tests.linked_frames import pair_row_codes

HIGH = "{epsilon: 1000, delta: 1e-6}"
"""Noise of less than one household, so that a wrong count would show."""


@pytest.fixture
def town(tmp_path, home):
    return linked_project(tmp_path / "work", home)


def pair_frame(found):
    """Return the pair rows of the files, each with its part of a household: 1/(s (s - 1)) or 1."""
    homes, people = found["homes"], found["people"].rename(columns={"home_id": "home"})
    people = people.assign(age=pd.cut(people["age"].astype(int), [-1, 17, 64, 99], labels=False))
    people["members"] = people.groupby("home")["nr"].transform("size")
    both = people.merge(people, on="home", suffixes=("", "_other"))
    both = both[(both["nr"] != both["nr_other"]) | (both["members"] == 1)].copy()
    alone = both["members"] == 1
    both[["age_other", "work_other"]] = both[["age_other", "work_other"]].astype(object)
    both.loc[alone, ["age_other", "work_other"]] = "nobody"
    size = both["members"]
    both["part"] = 1 / np.maximum(size * (size - 1), 1)
    both = both.merge(homes, on="home")
    return both.rename(columns={"age_other": "other.age", "work_other": "other.work"})


def codes_of(column):
    """Return the code of each value that a column of `pair_frame` may have."""
    texts = {
        "tenure": ["1", "2"],
        "income": ["1", "2", "3"],
        "work": ["1", "2"],
        "age": [0, 1, 2],
        MEMBERS: [1, 2, 3, 4],
    }
    if column.startswith(OTHER):
        return {**codes_of(column.removeprefix(OTHER)), "nobody": len(texts[column[6:]])}
    return {value: code for code, value in enumerate(texts[column])}


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


@pytest.mark.usefixtures("quick")
def test_noisy_tables_count_each_household_once(town):
    """At a very large epsilon they are the counts of the files, but for a small noise."""
    write_linked_spec(town, privacy=HIGH)
    town.release()
    pairs = pair_frame(tables())
    schema = load_schema(town.folder / "town.schema.yaml")
    compared = 0
    for item in read_marginals(town.out / "marginals.parquet", schema):
        if not isinstance(item, Measurement):
            continue  # an interaction is a part of a table
        exact = np.zeros(item.domain.sizes)
        places = [pairs[name].map(codes_of(name)).to_numpy(int) for name in item.clique]
        np.add.at(exact, tuple(places), pairs["part"].to_numpy())
        assert exact.sum() == pytest.approx(300)
        # Laplace noise exceeds 20 standard deviations with probability exp(-28) in each cell.
        assert np.abs(item.values - exact).max() < 20 * np.sqrt(item.variance) + 1e-9
        assert item.variance < 0.2
        compared += 1
    assert compared > 8


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    "stage",
    some(STAGES, {"count", "synthesize"}.__contains__),
)
def test_a_release_that_was_interrupted_goes_on_and_pays_once(town, stage):
    with pytest.raises(KeyboardInterrupt):
        town.release(perform=stopping(stage, after=True))
    before = [entry.receipt.number for entry in town.ledger().entries(kinds=("charge",))]
    town.release()

    charges = town.ledger().entries(kinds=("charge",))
    assert [entry.receipt.number for entry in charges][: len(before)] == before
    steps = [(e.body["stage"], e.body["step"]) for e in charges]
    assert len(set(steps)) == len(steps)
    assert town.redraws() == 0
    assert town.faults() == {}


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
    told = (town.internal / "refusal.txt").read_text().partition("\n")[2]
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


@pytest.mark.usefixtures("quick")
def test_a_household_that_breaks_a_rule_about_its_members_is_refused_and_costs_nothing(
    town, command
):
    (town.folder / "town.schema.yaml").write_text(SCHEMA + COUNTING)
    found = obedient()
    found["people"].loc[found["people"]["home_id"] == "10", ["age", "work"]] = ["7", "2"]
    write_tables(town.folder, found)
    ended = command("run", town.spec, "--out", town.out, "--json")

    assert ended.code == 2
    assert "do not fit its schema" in ended.json["error"]
    assert "age" not in ended.json["error"]
    assert town.kinds() == ["ledger", "open", "reserve", "settle"]
    told = (town.internal / "refusal.txt").read_text()
    assert "households that break `at least one age >= 18` of the schema" in told

    files = (town.folder / "homes.csv", town.folder / "people.csv")
    checked = command("schema", "check", town.folder / "town.schema.yaml", *files)
    assert checked.code == 2
    said = " ".join(checked.out.split())
    assert said.count("at least one age >= 18") == 1
    assert "1 household breaks the rule `at least one age >= 18`. household 10 Correct" in said


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


@pytest.mark.usefixtures("quick")
def test_a_release_of_linked_tables_waits_for_approval_and_is_published(town, command):
    write_linked_spec(town, publish="after-approval")
    assert command("run", town.spec, "--out", town.out).code == 6
    words = ("--by", "Ana", "--reason", "looked")
    assert command("release", "look", "town", *words).code == 0
    assert command("release", "publish", "town", *words).code == 0
    assert town.faults() == {}


@pytest.mark.usefixtures("quick")
def test_the_terminal_tells_households_and_persons(town, command):
    made = command("run", town.spec, "--out", town.out)
    assert made.code == 0
    assert re.search(r"2 sets of \d+ households with \d+ persons", " ".join(made.out.split()))


def test_a_draft_of_two_files_is_completed_and_fits(town, command):
    homes, people = (town.folder / f"{name}.csv" for name in ("homes", "people"))
    drafted = command("schema", "draft", homes, people)
    assert drafted.code == 0
    file = town.folder / "drafted.schema.yaml"
    file.write_text(drafted.out)
    refused = command("schema", "check", file, homes, people)
    assert refused.code == 2  # types, keys and the largest number of members are to be stated

    text = drafted.out.replace("title: ", "title: T ").replace("max_members: }", "max_members: 4}")
    text = text.replace("    key: ", "    key: home ", 1).replace("    key:  ", "    key: nr ", 1)
    text = text.replace("    link: ", "    link: home_id ")
    types = {
        "tenure": "{type: category, levels: [1, 2]}",
        "income": "{type: ordinal, levels: [1, 2, 3]}",
        "age": "{type: integer, min: 0, max: 99}",
        "work": "{type: category, levels: [1, 2]}",
        **dict.fromkeys(("home", "street", "home_id", "nr")),
    }
    for name, stated in types.items():
        column = re.compile(f"^      {name}:\n        type: .*\n", re.MULTILINE)
        text = column.sub(f"      {name}: {stated}\n" if stated else "", text)
    text = text.replace("ignore: []", "ignore: [street]", 1)
    file.write_text(text)
    assert command("schema", "check", file, homes, people).code == 0


@pytest.mark.usefixtures("quick")
def test_a_missing_file_is_no_attempt_on_the_data(town, command):
    (town.folder / "people.csv").unlink()
    ended = command("run", town.spec, "--out", town.out)
    assert ended.code == 2
    assert "No data file matches 'people.csv'" in ended.err
    assert town.untouched()


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


@pytest.mark.parametrize("unit", ["row", "person"])
def test_an_account_of_another_unit_refuses_households(tmp_path, home, command, unit):
    town = linked_project(tmp_path / "work", home, unit=unit)
    ended = command("run", town.spec, "--out", town.out)
    assert ended.code == 3
    assert f"protects one {unit}, but the schema's unit is one household" in ended.err
    assert town.untouched()


def test_a_plan_says_who_is_protected(town, command):
    ended = command("plan", town.spec)
    assert ended.code == 0
    assert "one household (identified by home; at most 4 persons)" in " ".join(ended.out.split())
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
    assert "seem to be swapped" in ended.err
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
    for formula, of in (("tenure ~ members", "households"), ("work ~ tenure", "persons")):
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


@pytest.mark.parametrize("table", ["homes", "people"])
@pytest.mark.usefixtures("quick")
def test_a_linked_table_gets_no_fresh_budget_alone_in_another_account(town, table):
    town.release()
    town.open_account("other")
    _write_alone(town, table, release="second", account="other")
    with pytest.raises(BadInput, match="belongs to account 'town'"):
        town.release(town.folder / "second")
    assert town.ledger().account("other").balance.used.main == 0
