"""A release whose sets meet public totals, from the schema to the bundle."""

import json

import numpy as np
import pandas as pd
import pytest

from dp_core.bundle.verification.verify import verify
from dp_core.plan.plan import make_plan
from dp_core.plan.reading.spec_file import load_spec
from tests.dp_core.bundle.forgery import edit_column, resealed
from tests.flows.corpus import lent
from tests.flows.linked_project import SCHEMA as LINKED
from tests.flows.linked_project import linked_project, write_linked_spec

pytestmark = pytest.mark.usefixtures("quick")

COUNTIES = {"a": 250, "b": 160, "c": 0}
DISTRICTS = dict(zip("uvwxyz", "aabbcc", strict=True))
SCHEMA = """\
version: 1
title: A county
rows_about: 400
columns:
  county: {type: category, levels: [a, b, c]}
  district:
    {type: category, levels: [u, v, w, x, y, z], within: county,
     map: {u: a, v: a, w: b, x: b, y: c, z: c}}
  sex: {type: category, levels: {1: male, 2: female}}
  age: {type: integer, min: 0, max: 99, edges: [0, 18, 65, 100]}
  work: {type: category, levels: ["yes", "no"]}
impossible:
  - {age: "<18", work: ["yes"]}
"""
TOTALS = """\
totals:
  - {county: {a: 250, b: 160, c: 0}, source: "Census 2021, Table 3"}
  - {sex: {male: 200, female: 210}, source: "Register, 1 January"}
"""


def write(project, *, schema=SCHEMA, totals=TOTALS):
    rng = np.random.default_rng(3)
    district = rng.choice(list("uvwxyz"), 400, p=[0.3, 0.3, 0.2, 0.1, 0.05, 0.05])
    age = rng.integers(0, 100, 400)
    frame = pd.DataFrame(
        {
            "county": [DISTRICTS[each] for each in district],
            "district": district,
            "sex": rng.integers(1, 3, 400),
            "age": age,
            "work": np.where((age < 18) | (rng.random(400) < 0.4), "no", "yes"),
        }
    )
    frame.to_csv(project.folder / "town.csv", index=False)
    (project.folder / "town.schema.yaml").write_text(schema + totals)


def release(project):
    write(project)
    project.release()


posterior = lent("method: auto\nsynthesize: {sets: 2, mode: posterior}\n", release)
shared = lent("method: auto\nsynthesize: {sets: 2, mode: shared}\n", release)


@pytest.mark.parametrize("mode", ["posterior", "shared"])
def test_every_set_meets_the_totals_and_the_bundle_says_so(request, mode):
    project = request.getfixturevalue(mode)
    for one in [each.to_pandas() for each in project.sets()]:
        assert len(one) == 410
        assert one["county"].value_counts().reindex(list("abc"), fill_value=0).to_dict() == COUNTIES
        assert one["sex"].value_counts().to_dict() == {"male": 200, "female": 210}
        assert (one["district"].map(DISTRICTS).astype(str) == one["county"].astype(str)).all()
        assert not ((one["age"] < 18) & (one["work"] == "yes")).any()
    found = verify(project.out)
    assert found.passed, [check.sentence for check in found.failures]
    assert any("every set meets the public totals" in check.sentence for check in found.checks)
    statement = project.statement()
    stated = statement["sets"]["totals"]
    assert [(each["column"], each["source"]) for each in stated["columns"]] == [
        ("county", "Census 2021, Table 3"),
        ("sex", "Register, 1 January"),
    ]
    assert stated["columns"][0]["counts"][1] == {"level": "b", "count": 160}
    assert "not compared with the file" in stated["in_words"]
    assert statement["sets"]["rows"] == [410, 410]
    # What the file has is estimated from the noisy tables alone.
    assert statement["sets"]["records"]["how"] == "estimated from noisy tables"
    line = "2 totals by sex, together 410 (Register, 1 January)"
    assert line in json.loads((project.out / "datapackage.json").read_text())["publicTotals"]
    page = (project.out / "report.html").read_text()
    assert line in page
    assert "those of <code>county</code> by a TVD of" in page


def test_totals_are_no_step_that_is_paid(project):
    found = []
    for totals in ("", TOTALS):
        write(project, totals=totals)
        plan = make_plan(load_spec(project.write_spec(synthesize="{sets: 2}")))
        found.append((plan.currency, dict(plan.costs), [each.clique for each in plan.tables]))
    assert found[0] == found[1]


def test_a_set_that_misses_a_total_does_not_verify(posterior):
    def change(values):
        values[values.index("male")] = "female"

    edit_column(posterior.out / "synthetic/set-2.parquet", "sex", change)
    said = resealed(posterior.out, posterior.statement())["sets"]
    assert "synthetic/set-2.parquet has 199 records with sex = 'male'" in said
    assert "public total is 200" in said


def test_a_statement_with_other_totals_does_not_verify(shared):
    document = shared.statement()
    document["sets"]["totals"]["columns"][0]["source"] = "the file"
    assert "'sets.totals' unlike plan" in resealed(shared.out, document)["wording"]


def test_households_meet_totals_of_a_household_column(tmp_path, home):
    town = linked_project(tmp_path / "work", home)
    totals = 'totals:\n  - {tenure: {own: 170, rent: 140}, source: "Housing census"}\n'
    (town.folder / "town.schema.yaml").write_text(LINKED + totals)
    write_linked_spec(town)
    town.release()
    for number in (1, 2):
        homes, people = (
            pd.read_parquet(town.out / f"synthetic/set-{number}/{name}.parquet")
            for name in ("homes", "people")
        )
        assert homes["tenure"].value_counts().to_dict() == {"own": 170, "rent": 140}
        assert set(people["home_id"]) == set(homes["home"])
        assert not ((people["age"] < 18) & (people["work"] == "employed")).any()
    assert town.faults() == {}


@pytest.mark.parametrize(
    ("totals", "said"),
    [
        ("{county: {a: 250, b: 160}, source: C}", "there is no total for 'c'"),
        ("{district: {u: 1, v: 1, w: 1, x: 1, y: 1, z: 405}, source: C}", "make them agree"),
        ("{work: {'yes': 300, 'no': 11}, source: C}", "make them agree"),
    ],
)
def test_a_bad_total_is_one_sentence_and_costs_nothing(project, command, totals, said):
    write(
        project,
        totals=TOTALS + f"  - {totals}\n" if "county" not in totals else f"totals: [{totals}]",
    )
    project.write_spec()
    for ended in (command("plan", project.spec), command("run", project.spec, "--out", "out")):
        assert ended.code == 2
        assert said in ended.err
    assert project.kinds() == ["ledger", "open"]
