"""`dp-release compare` on linked tables: households and the persons in them."""

import csv

import pytest

from dp_core.lab.comparison.judging import NOTES
from tests.flows.comparison.test_compare import SURE
from tests.flows.linked_project import DATA, SCHEMA, linked_project, tables, write_tables

KINDS = ("tvd_household", "tvd_person", "tvd_both", "tvd_members", "tvd_size")


def write_spec(folder):
    path = folder / "public.yaml"
    path.write_text(
        f"version: 1\nrelease: public\ndata: {DATA}\nschema: town.schema.yaml\naccount: nobody\n"
        "privacy: {epsilon: 1, delta: 1e-6}\n"
    )
    return path


@pytest.fixture
def spec(tmp_path):
    write_tables(tmp_path, tables())
    (tmp_path / "town.schema.yaml").write_text(SCHEMA)
    return write_spec(tmp_path)


@pytest.mark.usefixtures("home", "quick", "unseen")
def test_each_kind_of_pairs_has_its_own_figure(command, spec, tmp_path, ran):
    words = ("--epsilon", "0.1", "--epsilon", "1000", "--method", "auto", "--method", "aim")
    words = ("compare", spec, *SURE, *words, "--runs", "1", "--out", "out")
    answer = command(*words, "--json")
    assert answer.code == 0, answer.err

    rows = {(row["method"], row["epsilon"]): row for row in answer.json["rows"]}
    assert list(rows) == [
        ("bootstrap", None),
        ("auto", "0.1"),
        ("auto", "1000"),
        ("aim", "0.1"),
        ("aim", "1000"),
    ]
    assert {row["file"] for row in rows.values()} == {"homes-people"}
    assert answer.json["notes"] == {"homes-people": list(NOTES)}
    for name in KINDS:
        floor, noisy, exact = (row["figures"][name]["mean"] for row in list(rows.values())[:3])
        assert 0 < floor < noisy, name
        assert exact < noisy / 3, name
    # What does not apply is absent, not 0.
    absent = {"tvd2", "relative", "kl", "ranges", "kmarginal", "propensity", "matched", "cost"}
    for row in rows.values():
        assert absent.isdisjoint(row["figures"])
    assert {"tvd1", "tvd3", "cell", "kl2", "cpu", "memory"} <= set(rows["auto", "0.1"]["figures"])
    assert rows["aim", "1000"]["refused"]
    assert "linked tables" in rows["aim", "1000"]["sentences"][0]

    lines = (tmp_path / "out" / "results.csv").read_text().splitlines()[1:]
    (floor, *_) = csv.DictReader(lines)
    assert floor["rows"] == "300"  # households are drawn with their members
    assert floor["tvd2"] == ""
    page = (tmp_path / "out" / "table.md").read_text()
    assert "| household | person | household x person | member x member | size |" in page
    assert all(f"- {note}" in page for note in NOTES)

    del ran[:]
    again = command(*words)
    assert not ran
    assert again.code == 0
    shown = " ".join(again.out.split())
    assert all(note in shown for note in NOTES)
    assert "x member" in shown


@pytest.mark.usefixtures("quick", "ran", "unseen")
@pytest.mark.parametrize("alone", ["both", "homes", "people"])
def test_the_tables_of_an_account_are_recognised_together_and_alone(command, tmp_path, home, alone):
    project = linked_project(tmp_path / "work", home)
    project.release()
    spec = write_spec(project.folder)
    if alone != "both":
        other = "people" if alone == "homes" else "homes"
        found = tables()
        found[other] = found[other].assign(note="x")
        write_tables(project.folder, {other: found[other]})
        schema = project.folder / "town.schema.yaml"
        ignored = "ignore: [street]"
        text = schema.read_text()
        schema.write_text(
            text.replace(ignored, "ignore: [street, note]")
            if other == "homes"
            else text.replace("impossible:", "    ignore: [note]\nimpossible:")
        )
    answer = command("compare", spec, *SURE)
    assert answer.code == 2
    assert "belong to account 'town'" in answer.err


@pytest.mark.usefixtures("home", "quick", "ran", "unseen")
@pytest.mark.parametrize(
    "words",
    [
        ("--target", "tenure"),
        ("--group", "tenure"),
        ("--attacks",),
        ("--formula", "income ~ tenure"),
    ],
)
def test_figures_that_assume_independent_records_are_refused(command, spec, words):
    answer = command("compare", spec, *SURE, *words)
    assert answer.code == 2
    assert f"leave out {words[0]}" in answer.err
    assert len(answer.err.strip().splitlines()) == 1
