"""`dp-release compare`: what it takes and refuses, what it leaves, and how it goes on."""

import json
import os
import random
from pathlib import Path

import pytest

from dp_core.lab.comparison.cells import Result
from flows.comparison import comparison
from flows.nightly import check_all
from tasks.run.home import open_ledger
from tests.specs import SCHEMA

SURE = ("--public-data", "--by", "A. Person", "--reason", "a public-use file")
SAID = {"by": "A. Person", "reason": "a public-use file"}
FIRST = "Data declared public by A. Person on "


def write_data(folder, rows=60, seed=1):
    rng = random.Random(seed)
    lines = [f"{rng.choice('xy')},{rng.choice('rst')},{rng.choice('klmn')}" for _ in range(rows)]
    (folder / "data.csv").write_text("a,b,c\n" + "\n".join(lines) + "\n")


def write_spec(folder, text="", *, name="public", method="independent", schema="schema.yaml"):
    path = folder / f"{name}.yaml"
    path.write_text(
        f"version: 1\nrelease: {name}\ndata: data.csv\nschema: {schema}\naccount: nobody\n"
        f"privacy: {{epsilon: 1, delta: 1e-6}}\nmethod: {method}\n{text}"
    )
    return path


@pytest.fixture
def spec(tmp_path):
    write_data(tmp_path)
    (tmp_path / "schema.yaml").write_text(SCHEMA)
    return write_spec(tmp_path)


# -- what it leaves


@pytest.mark.slow
@pytest.mark.usefixtures("home", "quick")
def test_a_comparison_leaves_a_table_a_csv_and_pictures(command, spec, tmp_path, ran):
    words = ("--epsilon", "0.5", "--epsilon", "2", "--runs", "2", "--target", "a", "--out", "out")
    answer = command("compare", spec, *SURE, *words)
    assert answer.code == 0, answer.err
    out = tmp_path / "out"
    for name in ("results.csv", "table.md"):
        assert (out / name).read_text().splitlines()[0].removeprefix("# ").startswith(FIRST)
    assert answer.out.startswith(FIRST)
    lines = (out / "table.md").read_text().splitlines()
    assert [line.split(" | ")[:3] for line in lines if line.startswith("| ")][1:] == [
        ["| *bootstrap*", "", "2/2"],
        ["| independent", "0.5", "2/2"],
        ["| independent", "2", "2/2"],
    ]
    names = {path.name for path in (out / "plots").iterdir()}
    assert {"data-tvd2.png", "data-misclassified.png", "data-svm.png", "data-cpu.png"} <= names
    assert len(ran) == len(list((out / "cells").iterdir())) == 6
    assert "6/6 data, independent epsilon 2, run 2" in answer.err
    # the data are gone from the folder
    assert {path.name for path in out.iterdir()} == {
        *("cells", "comparison.json", "plots", "results.csv", "specs", "table.md", ".lock"),
    }


@pytest.mark.usefixtures("quick", "ran", "unseen")
def test_a_machine_is_told_the_same_and_no_ledger_is_made(command, spec, home, tmp_path):
    answer = command("compare", spec, *SURE, "--runs", "1", "--out", "out", "--json")
    assert answer.code == 0
    assert answer.err == ""
    assert next(iter(answer.json)) == "declared_public"
    floor, row = answer.json["rows"]
    assert (floor["preset"], floor["reference"]) == ("bootstrap", True)
    assert (row["method"], row["epsilon"], row["delta"]) == ("independent", "1", "1e-06")
    assert row["outcomes"] == {"done": 1}
    assert 0 <= row["figures"]["tvd2"]["mean"] <= 1
    # Of so few records independence may be as near as a bootstrap; then there is no scale.
    assert row["figures"].get("relative", {"mean": 1.0})["mean"] == 1.0
    assert row["figures"]["cpu"]["mean"] >= 0
    assert row["figures"]["memory"]["mean"] > 10
    assert not (home / "ledger.db").exists()
    assert not (home / "input.key").exists()
    # Without a target methods see every record.
    cell = json.loads(next((tmp_path / "out" / "cells").iterdir()).read_text())
    assert (cell["definition"]["hold_out"], cell["definition"]["target"]) == (0.0, None)
    header, *lines = (tmp_path / "out" / "results.csv").read_text().splitlines()[1:]
    place = header.split(",").index("rows")
    assert next(line for line in lines if "bootstrap" in line).split(",")[place] == "60"


@pytest.mark.usefixtures("home", "quick", "ran", "unseen")
def test_if_no_method_takes_the_file_that_is_bad_input(command, spec, tmp_path):
    answer = command("compare", spec, *SURE, "--method", "fixed", "--runs", "1", "--out", "out")
    assert answer.code == 2
    assert "cliques" in answer.err
    assert "refused" in (tmp_path / "out" / "table.md").read_text()


@pytest.mark.usefixtures("home", "quick", "unseen")
def test_every_run_has_its_own_seed_and_the_first_may_be_chosen(command, spec, ran):
    assert command("compare", spec, *SURE, "--runs", "2", "--seed", "40").code == 0
    assert {(cell.run, cell.seed) for cell in ran} == {(1, 40), (2, 41)}


# -- going on


@pytest.mark.usefixtures("home", "quick", "unseen")
def test_the_same_command_again_runs_nothing_twice(command, spec, tmp_path, ran):
    words = ("compare", spec, *SURE, "--runs", "2", "--out", "out")
    first = command(*words, "--json")
    before = (tmp_path / "out" / "results.csv").read_bytes()
    del ran[:]
    again = command(*words, "--json")
    assert not ran
    assert again.json == first.json
    assert (tmp_path / "out" / "results.csv").read_bytes() == before
    more = command("compare", spec, *SURE, "--runs", "3", "--method", "fdh", "--out", "out")
    assert more.code == 0
    # a third run of what was there, and three of what is new
    assert [(cell.method, cell.run) for cell in ran] == [
        ("fdh", 1),
        ("fdh", 2),
        ("bootstrap", 3),
        ("independent", 3),
        ("fdh", 3),
    ]
    assert "4 of 9 runs were finished before" in more.err


@pytest.mark.parametrize("changed", ["data", "schema", "spec", "program", "target", "formula"])
@pytest.mark.usefixtures("home", "quick", "unseen")
def test_what_changed_is_run_anew(command, spec, tmp_path, ran, monkeypatch, changed):
    words = ["compare", spec, *SURE, "--runs", "1", "--out", "out"]
    assert command(*words).code == 0
    del ran[:]
    if changed == "data":
        write_data(tmp_path, seed=3)
    elif changed == "schema":
        (tmp_path / "schema.yaml").write_text(SCHEMA.replace("[x, y]", "[y, x]"))
    elif changed == "spec":
        write_spec(tmp_path, "synthesize: {rows: 30}\n")
    elif changed == "program":
        monkeypatch.setattr("flows.comparison.comparison_layout.program", lambda: "1.1")
    else:
        words += [f"--{changed}", {"target": "a", "formula": "a ~ b"}[changed]]
    assert command(*words).code == 0
    kept = 1 if changed == "spec" else 0  # the bootstrap does not depend on the spec
    assert len(ran) == 2 - kept


@pytest.mark.usefixtures("home", "quick", "unseen")
def test_what_was_stopped_is_run_again_only_with_more_time(command, spec, monkeypatch):
    tried = []

    def stopped(jobs, store, declaration, *, limit, **_):
        tried.append(len(jobs))
        for job in jobs:
            found = Result("done", {"tvd2": 0.1}) if job.cell.method == "independent" else None
            store.write(
                job.cell, declaration, found or Result("not finished", {}, "Stopped.", limit)
            )

    monkeypatch.setattr(comparison, "run_cells", stopped)
    for limit in ("10", "10", "5", "20"):
        words = ("--runs", "1", "--limit", limit, "--out", "out")
        assert command("compare", spec, *SURE, *words).code == 0
    assert tried == [2, 0, 0, 1]


@pytest.mark.usefixtures("home", "quick", "ran", "unseen")
def test_who_declares_may_change_and_the_day_stays_with_the_words(command, spec, tmp_path):
    out = tmp_path / "out"
    assert command("compare", spec, *SURE, "--runs", "1", "--out", "out").code == 0
    mark = json.loads((out / "comparison.json").read_text())
    mark["declaration"]["day"] = "2020-02-02"
    (out / "comparison.json").write_text(json.dumps(mark))
    assert command("compare", spec, *SURE, "--runs", "1", "--out", "out").code == 0
    assert " on 2020-02-02: " in (out / "table.md").read_text().splitlines()[0]
    other = ("--public-data", "--by", "B. Person", "--reason", "two\nlines | more")
    assert command("compare", spec, *other, "--runs", "1", "--out", "out").code == 0
    first = (out / "table.md").read_text().splitlines()[0]
    assert first.startswith("Data declared public by B. Person on ")
    assert first.endswith(": two lines \\| more")
    assert "2020" not in first


@pytest.mark.usefixtures("home", "quick", "unseen")
def test_ctrl_c_keeps_what_is_finished(command, spec, tmp_path, monkeypatch):
    def interrupted(jobs, store, declaration, **_):
        store.write(jobs[0].cell, declaration, Result("done", {"tvd2": 0.25}))
        raise KeyboardInterrupt

    monkeypatch.setattr(comparison, "run_cells", interrupted)
    answer = command("compare", spec, *SURE, "--runs", "1", "--out", "out")
    assert answer.code == 130
    assert "repeat the command" in answer.err
    text = (tmp_path / "out" / "table.md").read_text()
    assert "| *bootstrap* |  | 1/1 | .2500 |" in text
    assert "| independent | 1 | 0/1 |  |" in text
    assert not (tmp_path / "out" / "work").exists()


# -- what is refused


def without(word):
    words = list(SURE)
    place = words.index(word)
    return words[:place] + words[place + (1 if word == "--public-data" else 2) :]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["SPEC", *without("--public-data")], "--public-data"),
        (["SPEC", *without("--by")], "--by NAME"),
        (["SPEC", *without("--reason")], "--reason TEXT"),
        (["SPEC", "--public-data", "--by", " ", "--reason", "x"], "--by NAME"),
        (["SPEC", "--public-data", "--by", "x", "--reason", ""], "--reason TEXT"),
        ([*SURE], "Name at least one release spec"),
        (["nothing.yaml", *SURE], "nothing.yaml"),
        (["schema.yaml", *SURE], "is a schema"),
        (["SPEC", *SURE, "--method", "privsin"], "Did you mean 'privsyn'?"),
        (["SPEC", *SURE, "--epsilon", "0"], "from 1e-12 to 1,000"),
        (["SPEC", *SURE, "--target", "A"], "'A'"),
        (["SPEC", *SURE, "--hold-out", "0.2"], "--target"),
        (["SPEC", *SURE, "--target", "a", "--hold-out", "20"], "share from 0 to"),
        (["SPEC", *SURE, "--out", "data.csv"], "is a file"),
        (["SPEC", *SURE, "--out", "."], "contains other files"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
@pytest.mark.usefixtures("home")
def test_a_mistake_is_one_sentence(command, spec, tmp_path, words, sentence):
    before = set(tmp_path.iterdir())
    answer = command("compare", *[str(spec) if word == "SPEC" else word for word in words])
    assert answer.code == 2, answer.err
    assert sentence in answer.err
    assert answer.err.count("\n") == 1
    assert "Traceback" not in answer.err
    assert set(tmp_path.iterdir()) == before


@pytest.mark.usefixtures("home", "quick", "unseen")
def test_a_file_that_does_not_fit_its_schema_is_refused_as_in_a_release(command, spec, tmp_path):
    with (tmp_path / "data.csv").open("a") as file:
        file.write("z,r,k\n")
    answer = command("compare", spec, *SURE, "--out", "out")
    assert answer.code == 2
    assert "Column 'a' holds texts that are not among its levels" in answer.err
    report = json.loads((tmp_path / "out" / "validation" / "data" / "validation.json").read_text())
    assert report["texts_that_are_no_levels"] == {"a": ["z"]}


# -- data that belong to an account


@pytest.fixture
def bound(project, quick):  # noqa: ARG001
    """A town whose file belongs to its account: a release of it was made."""
    project.write_spec("select: {method: one_way}\n", method="independent")
    project.release()
    return project


@pytest.mark.usefixtures("ran", "unseen")
def test_data_of_an_account_are_refused_whoever_declares_them_public(command, bound):
    entries = len(bound.ledger().entries())
    answer = command("compare", bound.spec, *SURE, "--out", "out")
    assert answer.code == 2
    assert "belong to account 'town'" in answer.err
    assert answer.err.endswith("(runbook: public-data-known)\n")
    assert not (Path("out")).exists()
    declared, refused = bound.ledger().entries()[entries:]
    assert (declared.kind, declared.body) == ("declare-public", {"files": 1, **SAID})
    assert (refused.kind, refused.receipt.account) == ("refuse-public", "town")
    assert refused.body == SAID
    assert "not yet allowed again: 'town' 1." in check_all(bound.home, []).sentence


@pytest.mark.usefixtures("ran", "unseen")
def test_the_declaration_is_recorded_although_no_account_has_an_input(command, spec, home):
    who = ("--by", "Ana", "--reason", "test")
    assert command("ledger", "open", "town", "--epsilon", "1", "--delta", "0", *who).code == 0
    assert command("compare", spec, *SURE, "--runs", "1").code == 0
    assert home == Path(os.environ["DP_RELEASE_HOME"])
    assert open_ledger().head().kind == "declare-public"


@pytest.mark.usefixtures("ran", "unseen")
def test_they_are_known_under_another_name_and_among_others(command, bound):
    copy = bound.folder / "copy-1.csv"
    copy.write_bytes((bound.folder / "town.csv").read_bytes())
    (bound.folder / "copy-2.csv").write_text(
        "\n".join((bound.folder / "town.csv").read_text().splitlines()[:30]) + "\n"
    )
    bound.write_spec(data="copy-*.csv", release="other", account="another")
    answer = command("compare", bound.spec, *SURE)
    assert answer.code == 2
    assert "belong to account 'town'" in answer.err
    # Which of several guesses is right is not told.
    assert "copy-1" not in answer.err
    assert bound.ledger().entries(kinds=("declare-public",))[-1].body["files"] == 2


def test_a_home_that_cannot_recognise_inputs_compares_nothing(command, bound):
    (bound.home / "input.key").write_bytes(b"k" * 32)
    answer = command("compare", bound.spec, *SURE)
    assert answer.code == 4
    assert "sealed with another key" in answer.err
    (bound.home / "input.key").unlink()
    assert command("compare", bound.spec, *SURE).code == 5


# -- scores of the field, subgroups and attacks


@pytest.mark.usefixtures("home", "quick", "ran", "unseen")
def test_scores_subgroups_and_attacks_are_columns_of_the_table(command, spec, tmp_path):
    write_data(tmp_path, rows=600)
    words = ("--runs", "1", "--group", "b", "--attacks", "--out", "out")
    answer = command("compare", spec, *SURE, *words, "--json")
    assert answer.code == 0, answer.err
    floor, row = (one["figures"] for one in answer.json["rows"])
    assert row["kmarginal"]["mean"] == pytest.approx(1000 * (1 - row["tvd2"]["mean"]))
    assert row["kmarginal"]["mean"] < floor["kmarginal"]["mean"] < 1000
    names = {"propensity", "matched", "subgroups", "excess", "membership", "linking"}
    assert names <= {*row}
    assert row["subgroups"]["mean"] >= 1
    assert -1 <= row["membership"]["mean"] <= 1
    heads = (tmp_path / "out" / "table.md").read_text()
    assert "| k-marginal |" in heads
    assert "risk of linkability" in heads


@pytest.mark.usefixtures("home", "quick", "ran", "unseen")
def test_two_comparisons_in_one_folder_are_refused(command, spec, tmp_path):
    out = tmp_path / "out"
    assert command("compare", spec, *SURE, "--runs", "1", "--out", out).code == 0
    with comparison.lock_folder(out):
        answer = command("compare", spec, *SURE, "--runs", "1", "--out", out)
    assert answer.code == 4
    assert "Another comparison is running" in answer.err
