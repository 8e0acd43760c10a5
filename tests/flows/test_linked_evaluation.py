"""`dp-release release evaluate` on a release of linked tables: in the internal folder only."""

import json
import stat

import numpy as np
import pandas as pd
import pytest

from dp_core.lab.evaluation.release_scores import NOTES
from dp_core.lab.measures.kind_error import KINDS
from tasks.support.run_folder import INTERNAL_NOTICE
from tests.flows.linked_project import linked_project, tables
from tests.specs import SCHEMA as SINGLE

pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def town(tmp_path, home):
    project = linked_project(tmp_path / "work", home)
    project.release()
    return project


def test_the_kinds_of_pairs_are_in_the_internal_folder_and_not_in_the_bundle(command, town):
    before = {path: path.read_bytes() for path in town.out.rglob("*") if path.is_file()}
    charges = town.kinds()
    answer = command("release", "evaluate", town.out)
    again = command("release", "evaluate", town.out, "--json")

    assert answer.code == 0, answer.err
    assert answer.out.strip().startswith("Result: ")
    path = town.internal / "evaluation-1.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    values = json.loads(path.read_text())
    assert list(values) == ["confidential", "format", "title", "linked"]
    assert values["confidential"] == INTERNAL_NOTICE
    assert values["linked"]["notes"] == list(NOTES)
    found = {one["kind"]: one for one in values["linked"]["kinds"]}
    assert tuple(found) == KINDS
    for one in found.values():
        assert 0 < one["mean"] < 1
        assert 0 < one["resample"] < 0.2
        assert one["mean"] == pytest.approx(np.mean(one["sets"]), abs=1e-12)
        assert one["worst_tvd"] >= max(one["sets"])
        assert one["skipped_because_too_large"] == 0
    assert [one["tables"] for one in found.values()] == [1, 1, 4, 3, 1]
    # The household table has one pair of columns, so its mean is that of this pair.
    real = tables()["homes"]
    labels = {"1": "own", "2": "rent"}, {"1": "low", "2": "middle", "3": "high"}
    real = pd.DataFrame(
        {"tenure": real["tenure"].map(labels[0]), "income": real["income"].map(labels[1])}
    )
    for number, mean in enumerate(found["household"]["sets"], start=1):
        made = pd.read_parquet(town.out / "synthetic" / f"set-{number}" / "homes.parquet")
        made = made[["tenure", "income"]].astype(str)
        shares = [each.value_counts(normalize=True) for each in (real, made)]
        apart = shares[0].subtract(shares[1], fill_value=0).abs().sum() / 2
        assert mean == pytest.approx(apart, abs=1e-12)

    html = path.with_suffix(".html").read_text()
    assert INTERNAL_NOTICE in html.splitlines()[0]
    assert "member x member" in html
    assert set(again.json) == {"release", "internal"}
    assert again.json["internal"].endswith("evaluation-2.html")
    assert {path: path.read_bytes() for path in town.out.rglob("*") if path.is_file()} == before
    assert town.kinds() == charges


def test_each_evaluation_that_is_not_possible_is_refused(command, town):
    for words in (
        ("--group", "tenure"),
        ("--target", "tenure"),
        ("--quasi", "tenure"),
        ("--line", "age ~ income"),
        ("--attacks",),
    ):
        answer = command("release", "evaluate", town.out, *words)
        assert answer.code == 2, words
        assert f"leave out {words[0]}" in answer.err
    answer = command("infer", town.out, "age ~ work", "--against-confidential")
    assert answer.code == 2
    assert "linked tables" in answer.err

    people = town.folder / "people.csv"
    text = people.read_text()
    people.write_text(text.replace(",Main street", "", 1) + "\n")
    assert "not those that it was made of" in command("release", "evaluate", town.out).err
    people.write_text(text)
    spec, schema = town.spec.read_text(), town.folder / "town.schema.yaml"
    schema.write_text(SINGLE)
    town.write_spec(data="homes.csv")
    answer = command("release", "evaluate", town.out)
    assert answer.code == 2
    assert "is of two linked tables, but the spec" in answer.err
    assert spec != town.spec.read_text()
    assert not list(town.internal.glob("evaluation*"))
