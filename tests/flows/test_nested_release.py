"""Releases of files in which districts lie in counties: from the file to the bundle."""

import json
import random

import pytest

from dp_core.bundle.verification.verify import verify
from tests.dp_core.bundle.forgery import edit_column, resealed

SCHEMA = """\
version: 1
title: Districts
rows_about: 600
columns:
  region:   {type: category, levels: [north, south]}
  age:      {type: integer, min: 0, max: 99, bins: 4}
  district: {type: category, levels: [a1, a2, b1, c1, c2, c3], within: county, map: districts.csv}
  county:
    {type: category, levels: [a, b, c], within: region, map: {a: north, b: south, c: south}}
  sex:      {type: category, levels: [f, m]}
"""
DISTRICTS = "district,county\na1,a\na2,a\nb1,b\nc1,c\nc2,c\nc3,c\n"
REGION = {"a": "north", "b": "south", "c": "south"}


def rows(number=600):
    rng = random.Random(3)
    found = []
    for _ in range(number):
        district = rng.choice(("a1", "a1", "a2", "b1", "c1", "c2", "c3"))
        age = min(99, max(0, round(rng.gauss(60 if district[0] == "a" else 30, 15))))
        found.append([REGION[district[0]], age, district, district[0], rng.choice("fm")])
    return found


def prepare(project, data=None, text="synthesize: {sets: 2}\n", extra="", **changes):
    (project.folder / "town.schema.yaml").write_text(SCHEMA + extra)
    (project.folder / "districts.csv").write_text(DISTRICTS)
    lines = ["region,age,district,county,sex", *(",".join(map(str, row)) for row in data or rows())]
    (project.folder / "town.csv").write_text("\n".join(lines) + "\n")
    project.write_spec(text, method="auto", **changes)


def released(project):
    return [row for table in project.sets() for row in table.to_pylist()]


def lies_right(row):
    return row["county"] == row["district"][0] and row["region"] == REGION[row["county"]]


def sentence(project, name):
    (found,) = [check for check in verify(project.out).checks if check.name == name]
    return found.sentence


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("mode", ["posterior", "shared"])
def test_every_released_row_lies_in_its_place_and_verifies(project, mode):
    prepare(project, text=f"synthesize: {{sets: 2, mode: {mode}}}\n")
    project.release()
    assert released(project)
    assert all(map(lies_right, released(project)))
    assert project.faults() == {}
    assert "obeys the 2 rules" in sentence(project, "rules")

    # A published row in another place does not verify.
    def move(values):
        values[0] = "c1" if values[0].startswith("a") else "a1"

    edit_column(project.out / "synthetic/set-1.parquet", "district", move)
    found = resealed(project.out, project.statement())
    assert "break the rule district lies within county." in found["rules"]


def test_a_file_with_a_row_in_another_place_is_refused_and_nothing_is_spent(project, command):
    prepare(project, [*rows(40), ["south", 21, "a1", "b", "f"]])

    answer = command("run", project.spec, "--out", project.out)

    assert answer.code == 2
    assert "Nothing was spent" in answer.err
    for word in ("district", "county", "a1"):
        assert word not in answer.err.replace(str(project.internal), "")
    told = (project.internal / "message.txt").read_text()
    assert "`district lies within county`" in told
    assert "correct the file or the map" in told
    report = json.loads((project.internal / "validation.json").read_text())
    assert report["rules"] == [{"about": "district lies within county", "rows": 1}]
    assert "charge" not in project.kinds()
    assert not project.out.exists()
