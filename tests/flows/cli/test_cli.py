"""The command line: exit codes, machine answers, and one sentence for every mistake."""

import json
import os
import re
import shutil
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_core.bundle.verification.verify import verify
from dp_core.schema.column_types.registry import words as column_types
from dp_core.text.canonical import digest
from dp_core.wall.accounting.composition import NOTHING
from dp_core.wall.accounting.stability_thresholds import threshold_for
from flows import release as release_flow
from tasks.run.home import home_id
from tests.dp_core.bundle.forgery import relink, reseal, statement_of
from tests.flows.conftest import SCHEMA, as_csv, survey
from tests.flows.corpus import only_read

ROOT = Path(__file__).parents[3]
SECRET = "zqxcanary"


def assert_refused(answer, code, *words):
    """One line on stderr, the right exit code, no traceback and no value of the file."""
    assert answer.code == code, answer
    assert answer.out == ""
    (line,) = answer.err.splitlines()
    assert line.startswith("dp-release: ")
    for word in words:
        assert word in line
    assert line.partition(" (runbook: ")[0].endswith((".", "?"))
    assert SECRET not in line
    assert "Traceback" not in answer.err


# -- what works, for people and for machines


released = only_read()
"""A finished release, for the commands that only look."""


@pytest.fixture
def looking(released, command, monkeypatch):
    monkeypatch.setenv("DP_RELEASE_HOME", str(released.home))
    return command


def keys(answer):
    assert (answer.code, answer.err) == (0, "")
    return set(answer.json)


def test_status_answers_people_and_machines(looking, released):
    assert keys(looking("status", "--json")) == {"releases", "needs", "ledger_verified"}
    assert keys(looking("status", "town", "--json")) >= {
        "release",
        "account",
        "state",
        "outcome",
        "reserved",
        "spent_part",
        "charges",
        "stages_done",
        "stages_open",
        "out",
        "plan_hash",
    }
    text = looking("status").out
    assert "town" in text
    assert "100%" in text
    assert f"Bundle   {released.out}" in looking("status", "town").out


def test_ledger_answers_people_and_machines(looking):
    account = {"total", "reserved", "spent", "left"}
    assert keys(looking("ledger", "show", "--json")) == {"accounts"}
    assert keys(looking("ledger", "show", "town", "--json")) >= account
    spent = looking("ledger", "show", "town", "--json").json["spent"]
    assert (spent["epsilon"], spent["epsilon_exact"]) == (1.0, "1")
    charges = looking("ledger", "charges", "town", "--json").json
    assert isinstance(charges, list)
    assert {"number", "at", "release", "stage", "step", "cost", "event"} <= set(charges[0])
    assert f"{len(charges)} charges to account 'town'." in looking("ledger", "charges", "town").out
    assert keys(looking("ledger", "verify", "--json")) >= {"entries", "head", "passed"}
    assert "verifies" in looking("ledger", "verify").out


def test_verify_answers_people_and_machines(looking, released, tmp_path):
    answer = looking("verify", released.out, "--json")
    assert keys(answer) == {"folder", "passed", "checks"}
    assert answer.json["passed"] is True
    assert f"The bundle {released.out} verifies." in looking("verify", released.out).out

    shutil.copytree(released.out, tmp_path / "changed")
    with (tmp_path / "changed" / "report.html").open("a") as file:
        file.write("x")
    answer = looking("verify", tmp_path / "changed", "--json")
    assert answer.code != 0
    assert answer.json["passed"] is False
    answer = looking("verify", tmp_path / "changed")
    assert answer.code != 0
    assert "report.html was changed" in answer.out
    assert "does NOT verify" in answer.out


def test_a_bundle_by_a_method_that_is_not_known_is_no_fault_and_not_verified(
    looking, released, tmp_path
):
    folder = shutil.copytree(released.out, tmp_path / "newer")
    document = statement_of(folder)
    method, reserve = document["method"], document["ledger"]["receipts"][0]
    method["plan"]["spec"]["reconstruct"]["method"] = "[/newer]"
    method["plan_sha256"] = reserve["body"]["plan"] = digest(method["plan"])
    relink(document)
    reseal(folder, document)
    answer = looking("verify", folder)
    assert answer.code == 2
    assert "The method '[/newer]' is not known to this dp-release" in answer.out
    assert f"The bundle {folder} CANNOT be verified" in answer.out
    assert looking("verify", folder, "--json").json["passed"] is False


def test_plan_answers_people_and_machines_without_opening_the_data(project, command):
    (project.folder / "town.csv").unlink()
    answer = command("plan", project.spec, "--json")
    assert keys(answer) >= {
        "release",
        "epsilon",
        "delta",
        "stages",
        "tables",
        "more_such_releases",
        "plan_hash",
        "spec",
    }
    assert answer.json["more_such_releases"] == 2
    assert sum(Fraction(stage["share"]) for stage in answer.json["stages"]) == 1
    text = command("plan", project.spec).out
    assert "2 releases" in text
    assert project.untouched()


def test_plan_names_the_methods_where_they_are_not_the_presets(project, command):
    assert (
        ": independent, epsilon 1," in command("plan", project.write_spec(method="independent")).out
    )
    project.write_spec("reconstruct: {method: dense}\n", method="independent")
    assert ": independent with one_way + dense, epsilon 1," in command("plan", project.spec).out


def test_plan_says_where_the_method_does_not_draw_by_the_bins_it_buys(project, command):
    schema = project.folder / "town.schema.yaml"
    private = "  pay: {type: number, min: 0, max: 500, bins: {private: 5}}\n"
    schema.write_text(schema.read_text().replace("columns:\n", "columns:\n" + private))
    said = {}
    for method in ("modips", "laplace-sanitizer", "privsyn"):
        project.write_spec(method=method)
        said[method] = " ".join(command("plan", project.spec).out.split())
    assert "modips uses the bins of pay for plots and checks only" in said["modips"]
    assert not any("not by these bins" in said[method] for method in said if method != "modips")
    project.write_spec("synthesize: {models: [modips, slomag]}\n", method="average")
    assert command("plan", project.spec, "--json").json["bins_unused"] == ["pay"]


def test_plan_states_the_threshold_and_what_it_costs(project, command):
    project.write_spec(method="sba")
    found = command("plan", project.spec, "--json").json["threshold"]
    # 49/50 of epsilon 1, delta 1e-6: the noise is of scale 50/49.
    assert found["kept_from"] == threshold_for(Fraction(50, 49), Fraction(1, 10**6))
    assert found["tables"] == 1
    text = " ".join(command("plan", project.spec).out.split())
    assert f"cells of {found['kept_from']} records or more are kept" in text
    assert found["rare_lost"] is None
    assert "are lost" not in text

    schema = project.folder / "town.schema.yaml"
    few = found["most_cells"] - 1
    schema.write_text(re.sub(r"rows_about: \d+", f"rows_about: {few}", schema.read_text()))
    text = " ".join(command("plan", project.spec).out.split())
    assert f"The table has {few + 1:,} cells for about {few:,} rows: combinations that" in text
    schema.write_text(schema.read_text().replace(f"rows_about: {few}", f"rows_about: {few + 1}"))
    assert "are lost" not in command("plan", project.spec).out

    project.write_spec(method="independent")
    assert command("plan", project.spec, "--json").json["threshold"] is None


def test_plan_opens_no_door_to_a_second_account_under_a_misspelt_name(project, command):
    text = command("plan", project.write_spec(account="twon")).out
    assert "There is no account 'twon'. Did you mean 'town'?" in text
    assert "ledger open" not in text


def test_plan_promises_an_error_for_the_schemas_number_of_rows(project, command):
    schema = project.folder / "town.schema.yaml"
    text = schema.read_text()
    found = {}
    for rows in (400, 40_000):
        schema.write_text(text.replace("rows_about: 400", f"rows_about: {rows}"))
        found[rows] = command("plan", project.spec, "--json").json["expected_error"]
        low, high = found[rows]["two_way"]
        assert 0 < low < high < 1
        said = f"Expected average two-way TVD for a typical file: {low:.2g} to {high:.2g}."
        shown = command("plan", project.spec).out
        assert said in shown
        assert ("Merge levels" in shown) == found[rows]["mostly_noise"]
    assert found[40_000]["two_way"][1] < found[400]["two_way"][0]
    assert not found[40_000]["mostly_noise"]

    schema.write_text(text.replace("rows_about: 400\n", ""))
    answer = command("plan", project.spec, "--json").json
    assert answer["expected_error"] is None
    by_rows = [each["two_way"] for each in answer["expected_by_rows"]]
    assert by_rows == sorted(by_rows, reverse=True)
    assert "Add rows_about" in command("plan", project.spec).out


def test_plan_says_where_most_will_be_noise_and_where_it_has_no_forecast(project, command):
    spec = project.write_spec(privacy="{epsilon: 0.05, delta: 1e-6}")
    assert command("plan", spec, "--json").json["expected_error"]["mostly_noise"]
    levels = "levels and bins in 5 columns for about 400 rows. Merge levels"
    assert levels in " ".join(command("plan", spec).out.split())
    spec = project.write_spec(method="perturbed-histogram")
    assert command("plan", spec, "--json").json["expected_error"] is None
    assert "There is no forecast of the sets' error" in command("plan", spec).out
    spec = project.write_spec("synthesize: {sets: 0}\n")
    assert "typical file" not in command("plan", spec).out


def test_plan_makes_no_ledger(project, command, monkeypatch, tmp_path):
    monkeypatch.setenv("DP_RELEASE_HOME", str(tmp_path / "nowhere"))
    answer = command("plan", project.spec)
    assert answer.code == 3
    assert "Plan " in answer.out
    assert (
        "There is no account 'town'. No account is open yet. Open one with `dp-release ledger open"
        in answer.out
    )
    assert not (tmp_path / "nowhere").exists()


def test_schema_draft_answers_people_and_machines(project, command):
    text = command("schema", "draft", project.folder / "town.csv").out
    assert "  marital:" in text
    assert command("schema", "draft", project.folder / "town.csv", "--json").json["schema"] == text


def test_accounts_are_opened_and_closed(home, command):
    words = ("--epsilon", "1/2", "--delta", "1e-9", "--by", "Ada", "--reason", "a test")
    opened = command("ledger", "open", "people", *words, "--json").json
    assert opened["total"]["epsilon_exact"] == "1/2"
    assert opened["composition"] == "basic"
    assert_refused(command("ledger", "open", "people", *words), 2, "is open already")
    closed = command("ledger", "close", "people", "--by", "Ada", "--reason", "over", "--json")
    assert closed.json == {"account": "people", "closed": True}
    assert "(closed)" in command("ledger", "show", "people").out
    assert (home / "ledger.db").stat().st_mode & 0o777 == 0o600


@pytest.mark.usefixtures("quick")
def test_run_and_abandon_answer_machines(project, command):
    answer = command("run", project.spec, "--out", project.out, "--json")
    assert keys(answer) >= {"release", "account", "spent", "left", "out", "sets", "rows", "charges"}
    assert verify(project.out).passed
    project.write_spec(release="town2")
    (project.folder / "town.schema.yaml").write_text(SCHEMA)
    from dp_core.plan.plan import make_plan
    from dp_core.plan.reading.spec_file import load_spec
    from flows.releases.opening import open_run

    ledger = project.ledger()
    with ledger.lease("town2", home_id(project.home)) as writer:
        plan = make_plan(load_spec(project.spec))
        open_run(plan, project.spec, project.folder / "second", ledger, writer)
    answer = command("abandon", "town2", "--json")
    assert keys(answer) >= {"release", "outcome", "account", "left"}
    assert answer.json["left"]["epsilon"] == 1.0


@pytest.mark.usefixtures("quick")
def test_run_tells_people_what_was_spent_and_where_it_is(project, command):
    answer = command("run", project.spec, "--out", project.out)
    assert answer.code == 0
    assert "Spent    epsilon 1, delta 0 (add-remove)" in answer.out
    assert f"Bundle   {project.out}" in answer.out
    assert f"Check    dp-release verify {project.out}" in answer.out
    assert "Validate against the schema" in answer.err


def test_a_failure_is_told_to_machines_as_json(project, command):
    answer = command("run", project.spec, "--out", project.folder, "--json")
    assert answer.code == 2
    assert set(answer.json) == {"error", "exit_code", "runbook"}
    assert answer.json["exit_code"] == 2


@pytest.mark.parametrize("words", [["schema", "check"], ["plan"], ["schema", "suite"]])
def test_all_faults_of_a_schema_are_listed_together(project, command, words):
    """As lines for people, and as a list like the findings for programs."""
    types, path = ", ".join(column_types()), project.folder / "town.schema.yaml"
    path.write_text("version: 1\ntitle: t\ncolumns:\n  a: {type: int}\n  b: {type: float}\n")
    given = [project.spec] if words == ["plan"] else [path]
    given += [project.folder / "town.csv"] if words == ["schema", "check"] else []
    answer = command(*words, *given)
    assert answer.code == 2
    assert answer.err.splitlines() == [
        "dp-release: town.schema.yaml has 2 faults:",
        f"- line 4, columns.a.type: 'int' is not one of {types}. Did you mean 'integer'?",
        f"- line 5, columns.b.type: 'float' is not one of {types}. Did you mean 'number'?",
    ]
    told = command(*words, *given, "--json")
    assert told.code == 2
    assert told.json["faults"] == [
        {
            "severity": "refusal",
            "file": "town.schema.yaml",
            "line": line,
            "key": key,
            "message": f"'{word}' is not one of {types}.",
            "fix": f"Did you mean {meant!r}?",
        }
        for line, key, word, meant in (
            (4, "columns.a.type", "int", "integer"),
            (5, "columns.b.type", "float", "number"),
        )
    ]
    assert project.untouched()


# -- words that are not commands


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["runn"], "Did you mean 'run'?"),
        (["help"], "`dp-release --help` lists"),
        (["ledger", "opn"], "Did you mean 'open'?"),
        (["schema", "drft", "x"], "Did you mean 'draft'?"),
        (["plan"], "Missing argument 'SPEC'; see `dp-release plan --help`."),
        (["run", "x.yaml"], "Missing option '--out'; see `dp-release run --help`"),
        (["run", "x.yaml", "--out"], "'--out' requires an argument"),
        (["plan", "a", "b"], "unexpected extra argument (b); see `dp-release plan --help`"),
        (["plan", "x.yaml", "--jsn"], "Did you mean '--json'?"),
        (["plan", "x.yaml", "--epsilon", "1"], "--epsilon; see `dp-release plan --help`."),
        (["ledger", "open", "a", "--eps", "1"], "Did you mean '--epsilon'?"),
        (["ledger", "open", "a", "--zzz", "1"], "see `dp-release ledger open --help`."),
        (["plan", "x.yaml", "\u2013json"], "; see `dp-release plan --help`."),
        (["plan", "-json", "x.yaml"], "No such option -j; see `dp-release plan --help`."),
        (["check", "x.yaml", "x.csv"], "Did you mean `dp-release schema check`?"),
        (["version"], "Did you mean `dp-release --version`?"),
        (["infer", "income ~ age", "x"], "The folder comes first"),
        (["schema", "check", "x.csv", "x.yaml"], "The schema comes first"),
        (["schema", "draft", "--codebook", "."], ". is a folder. Give the codebook in it."),
        (["ledger", "open", "a", "--neighbors", "x"], "Did you mean '--neighbours'?"),
        (["status", "nope"], "There is no release 'nope' in this ledger"),
        (["abandon", "nope"], "There is no release 'nope' in this ledger"),
        (["resume", "nope"], "There is no run of release 'nope' here"),
        (["status", "../.."], "is a path; name the release"),
        (["ledger", "show", "twon"], "There is no account 'twon'. Did you mean 'town'?"),
        (["ledger", "charges", "twon"], "Did you mean 'town'?"),
        (["ledger", "close", "twon", "--by", "a", "--reason", "b"], "Did you mean 'town'?"),
        (["ledger", "close", "town", "--by", "", "--reason", "b"], "--by is empty"),
        (["verify", "nowhere"], "nowhere does not exist; name the folder of a release"),
        (["schema", "draft", "nowhere.csv"], "nowhere.csv: there is no such file"),
    ],
)
def test_a_mistyped_command_is_one_sentence(project, command, words, said):
    assert_refused(command(*words), 2, said)
    assert project.untouched()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"--epsilon": "0"}, "--epsilon must be above 0"),
        ({"--epsilon": "-1"}, "--epsilon must be above 0"),
        ({"--epsilon": "1e400"}, "too large or too small"),
        ({"--epsilon": "one"}, "'one' is not a number"),
        ({"--epsilon": "1,0"}, "with a decimal point and no unit"),
        ({"--epsilon": "nan"}, "not a number"),
        ({"--delta": "2"}, "--delta must be below 1"),
        ({"--delta": "-1e-9"}, "--delta must be 0 or more"),
        ({"--neighbours": "addremove"}, "Did you mean 'add-remove'?"),
        ({"--unit": "family"}, "Known: household, person, row."),
        ({"--composition": "renyi"}, "Known: basic, zcdp."),
        ({"--by": " "}, "--by is empty"),
        ({"--reason": ""}, "--reason is empty"),
    ],
)
def test_a_wrong_term_of_an_account_opens_none(project, command, changed, said):
    terms = {"--epsilon": "1", "--by": "Ada", "--reason": "a test"} | changed
    words = [word for pair in terms.items() for word in pair]
    assert_refused(command("ledger", "open", "people", *words), 2, said)
    assert project.kinds() == ["ledger", "open"]


@pytest.mark.usefixtures("home")
def test_a_name_that_is_none_opens_no_account(command):
    words = ("--epsilon", "1", "--by", "Ada", "--reason", "a test")
    answer = command("ledger", "open", "two words", *words)
    assert_refused(answer, 2, "'two words'")


def test_swapped_arguments_are_recognised(project, command):
    schema, data = project.folder / "town.schema.yaml", project.folder / "town.csv"
    out = project.out
    refused = [
        (command("run", schema, "--out", out), "is a schema, not a release spec"),
        (command("run", data, "--out", out), "is a data file"),
        (command("run", project.folder, "--out", out), "is a folder"),
        (command("run", "town", "--out", out), "there is no such file"),
        (command("run", out, "--out", project.spec), "there is no such file"),
        (command("run", project.spec, "--out", data), "is a file or a link"),
        (command("resume", project.spec), "is a path; name the release"),
        (command("verify", data), "is a file; name the folder of a release"),
        (command("verify", project.folder), "is not a release: it contains no release.json"),
        (command("plan", schema), "is a schema, not a release spec"),
        (command("schema", "draft", schema), "is a YAML file"),
        (command("schema", "draft", project.folder), "is a folder"),
    ]
    for answer, said in refused:
        assert_refused(answer, 2, said)
    assert project.untouched()
    assert not out.exists()


# -- the spec and what it names


@pytest.mark.parametrize(
    ("old", "new", "code", "said"),
    [
        ("epsilon: 1,", "epsilon: 0,", 2, "privacy.epsilon: must be greater than 0"),
        ("epsilon: 1,", "epsilon: -1,", 2, "privacy.epsilon: must be greater than 0"),
        ("epsilon: 1,", "epsilon: 1e400,", 2, "too large or too small"),
        ("epsilon: 1,", "epsilon: one,", 2, "'one' is not a number"),
        ("epsilon: 1,", "epsilon: 1,0,", 2, "a comma ends the value"),
        ("epsilon: 1,", "", 2, "epsilon"),
        ("1e-6", "2", 2, "privacy.delta: must be less than 1"),
        ("account: town", "account: twon", 3, "Did you mean 'town'?"),
        ("epsilon: 1,", "epsilon: 5,", 3, "has 2 left of 2. No release has used it yet."),
        ("1e-6}", "1e-4}", 3, "The largest privacy.delta that still fits is 1e-05."),
        ("1e-6}", "1e-6, neighbours: replace-one}", 3, "protects under add-remove"),
        ("release: town", "release: a b", 2, "is not a valid name of a release"),
        ("version: 1", "version: 9", 2, "does not read version '9'"),
        ("town.schema.yaml", "twon.schema.yaml", 2, "Did you mean 'town.schema.yaml'?"),
        ("town.schema.yaml", "release.yaml", 2, "is a release spec, not a schema"),
        ("account", "acount", 2, "Did you mean 'account'?"),
        ("version", "measure: {share: 0.9}\nselect: {share: 0.3}\nversion", 2, "sum to 6/5"),
        ("version", "method: prvsyn\nversion", 2, "Did you mean 'privsyn'?"),
        ("sets: 2", "sets: -1", 2, "must be at least 0"),
        ("version: 1", "version: 1\nversion: 1", 2, "version"),
        ("town.csv", "https://example.org/x.csv", 2, "is a URL"),
        ("town.csv", r"C:\survey\town.csv", 2, "No data file matches"),
        ("town.csv", "town.schema.yaml", 2, "name the CSV or Parquet file with the rows"),
        ("town.schema.yaml", "town.csv", 2, "name the schema, a YAML file"),
        ("version: 1", "version: v1", 2, "does not read version 'v1'"),
    ],
)
def test_a_mistake_in_the_spec_costs_nothing(project, command, old, new, code, said):
    text = project.spec.read_text()
    assert old in text
    project.spec.write_text(text.replace(old, new))
    assert_refused(command("run", project.spec, "--out", project.out), code, said)
    assert project.untouched()
    assert not project.run_folder.exists()
    assert not project.out.exists()


def test_counts_are_not_sent_in_clear_to_another_machine(project, command):
    answer = command("run", project.spec, "--out", project.out, "--dask", "tcp://example.org:8786")
    assert answer.code == 2
    assert "(runbook: dask-in-clear)" in answer.err
    assert project.untouched()


def test_a_closed_account_pays_for_nothing(project, command):
    command("ledger", "close", "town", "--by", "Ada", "--reason", "over")
    assert_refused(command("run", project.spec, "--out", project.out), 3, "'town' is closed")
    assert project.kinds() == ["ledger", "open", "close"]


def test_an_output_folder_that_will_not_do_costs_nothing(project, command, tmp_path):
    full, link = tmp_path / "full", tmp_path / "link"
    full.mkdir()
    (full / "precious").write_text("x")
    link.symlink_to(full)
    for out, said in (
        (full, "is not empty; name a new one"),
        (link, "is a file or a link"),
        ("", "is not empty"),
        ("/proc/x", "cannot be created"),
    ):
        assert_refused(command("run", project.spec, "--out", out), 2, said)
    assert (full / "precious").read_text() == "x"
    assert project.untouched()


# -- the data


def spoil_with(name):
    """Return a function that spoils the survey in one way and what is said about it."""
    good = as_csv(survey())
    header, first, *_ = good.splitlines()

    def empty(folder):
        (folder / "town.csv").write_text("")
        return "town.csv", "is empty"

    def header_only(folder):
        (folder / "town.csv").write_text(header + "\n")
        return "town.csv", "no row"

    def folder(folder):
        (folder / "data").mkdir()
        return "data", "is a folder; name a file, or a glob"

    def nothing(_):
        return "nothing-*.csv", "No data file matches"

    def another_kind(folder):
        (folder / "town.xlsx").write_text("x")
        return "town.xlsx", "is an Excel workbook"

    def cut(folder):
        table = pa.table({name: [SECRET] * 5000 for name in header.split(",")})
        pq.write_table(table, folder / "whole.parquet")
        content = (folder / "whole.parquet").read_bytes()
        (folder / "town.parquet").write_bytes(content[: len(content) // 2])
        return "town.parquet", "is damaged"

    def not_parquet(folder):
        (folder / "town.parquet").write_text(good)
        return "town.parquet", "is not a Parquet file"

    def missing_column(folder):
        (folder / "town.csv").write_text(good.replace("marital", "martial", 1))
        return "town.csv", "lacks column 'marital' of the schema"

    def extra_column(folder):
        lines = [line + "," + SECRET for line in good.splitlines()]
        lines[0] = header + ",notes"
        (folder / "town.csv").write_text("\n".join(lines))
        return "town.csv", "has a column that the schema does not describe"

    def no_header(folder):
        (folder / "town.csv").write_text(first.replace("i0", SECRET) + "\n")
        return "town.csv", "names none of the schema's columns"

    def semicolons(folder):
        (folder / "town.csv").write_text(good.replace(",", ";"))
        return "town.csv", "separated by ';'"

    def level(folder):
        (folder / "town.csv").write_text(good.replace(",single,", f",{SECRET},", 1))
        return "town.csv", "Column 'marital' holds texts that are not among its levels"

    def number(folder):
        rows = survey()
        rows[3][4] = SECRET
        (folder / "town.csv").write_text(as_csv(rows))
        return "town.csv", "Column 'income' holds values that are not numbers"

    def bounds(folder):
        rows = survey()
        rows[3][1] = "170"
        (folder / "town.csv").write_text(as_csv(rows))
        return "town.csv", "Column 'age' holds values outside 0 to 99"

    def missing_value(folder):
        rows = survey()
        rows[3][2] = ""
        (folder / "town.csv").write_text(as_csv(rows))
        return "town.csv", "Column 'sex' has missing values (rule missing: reject)"

    def impossible(folder):
        rows = survey()
        rows[3][1:4] = ["3", "1", "married"]
        (folder / "town.csv").write_text(as_csv(rows))
        return "town.csv", "impossible` rule {age: <15, marital: [married, widowed]}"

    def ragged(folder):
        (folder / "town.csv").write_text(good + f"{SECRET},1\n")
        return "town.csv", "more or fewer fields than its header"

    def not_utf8(folder):
        (folder / "town.csv").write_bytes(good.encode() + b"i,1,1,\xff\xfe,1.0,2001-01-01\n")
        return "town.csv", "UTF-8"

    return locals()[name]


@pytest.mark.parametrize(
    "name",
    [
        "empty",
        "header_only",
        "folder",
        "nothing",
        "another_kind",
        "cut",
        "not_parquet",
        "missing_column",
        "extra_column",
        "no_header",
        "semicolons",
        "level",
        "number",
        "bounds",
        "missing_value",
        "impossible",
        "ragged",
        "not_utf8",
    ],
)
def test_bad_data_cost_nothing_and_are_never_quoted(project, command, name, request):
    if name != "level":  # of what Great Expectations finds, one is enough
        request.getfixturevalue("quick")
    data, said = spoil_with(name)(project.folder)
    project.write_spec(data=data)
    answer = command("run", project.spec, "--out", project.out)
    assert answer.code == 2
    last = answer.err.splitlines()[-1]
    assert last.startswith("dp-release: ")
    refusal = project.internal / "refusal.txt"
    if name in ("level", "number", "bounds", "missing_value", "impossible"):
        # Columns and rules are for staff: the output says only that the data refused.
        assert said not in answer.err + answer.out
        last = refusal.read_text()
    else:
        assert not refusal.exists()
    assert said in last
    assert SECRET not in answer.err + answer.out
    assert "Traceback" not in answer.err
    account = project.ledger().account("town")
    assert (account.balance.reserved, account.balance.spent) == (NOTHING, NOTHING)
    assert account.left == account.terms.limit
    assert "charge" not in project.kinds()
    assert not project.out.exists()
    assert not (project.run_folder / "confidential").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_an_unreadable_file_is_one_sentence(project, command):
    (project.folder / "town.csv").chmod(0)
    answer = command("run", project.spec, "--out", project.out)
    assert answer.code == 2
    assert "may not read" in answer.err


def test_detail_is_shown_only_to_a_terminal_that_asked(project, command):
    (project.folder / "town.csv").write_text(as_csv(survey()).replace(",single,", f",{SECRET},", 1))
    plain = command("run", project.spec, "--out", project.out)
    assert SECRET not in plain.err
    asked = command("run", project.spec, "--out", project.out, "--show-values")
    assert (plain.code, asked.code) == (2, 2)
    assert asked.err.count(SECRET) == 1
    # Which rules and columns are broken, and then the detail.
    assert 0 < asked.err.find("Column 'marital' holds texts") < asked.err.find(SECRET)
    assert asked.err.splitlines()[-1].startswith("dp-release: The confidential data of release")


def test_columns_that_the_schema_does_not_name_are_named_to_the_person_at_the_terminal(
    project, command, monkeypatch
):
    lines = [f"{line},{SECRET}" for line in as_csv(survey()).splitlines()]
    (project.folder / "town.csv").write_text("\n".join(lines))
    plain = command("run", project.spec, "--out", project.out)
    assert "has a column that the schema does not describe" in plain.err
    assert SECRET not in plain.err
    monkeypatch.setattr("flows.cli.actions.run_release._on_terminal", lambda: True)
    told = command("run", project.spec, "--out", project.out)
    assert f"has column '{SECRET}'" in told.err
    assert SECRET not in told.err.splitlines()[-1]
    as_json = command("run", project.spec, "--out", project.out, "--json")
    assert SECRET not in as_json.out + as_json.err


def test_a_text_that_is_no_address_of_a_scheduler_is_refused_at_once(project, command, monkeypatch):
    monkeypatch.setattr("flows.engine.own_server.start_own_server", pytest.fail)
    answer = command("run", project.spec, "--out", project.out, "--dask", "nonsense")
    assert answer.code == 2
    assert "'nonsense' is not the address of a Dask scheduler" in answer.err


# -- homes and ledgers


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("variable", "value", "code"),
    [
        ("DP_RELEASE_HOME", "/proc/nowhere", 2),
        ("DP_RELEASE_HOME", "{file}", 2),
        ("DP_RELEASE_LEDGER", "garbage", 2),
        ("DP_RELEASE_LEDGER", "mysql://me:hunter2@host/db", 2),
        ("DP_RELEASE_LEDGER", "postgresql://me:hunter2@127.0.0.1:1/db", 4),
        ("DP_RELEASE_LEDGER", "sqlite:///{file}", 4),
    ],
)
def test_a_home_or_existing_ledger_none_is_one_sentence(
    command, monkeypatch, tmp_path, variable, value, code
):
    file = tmp_path / "file.csv"
    file.write_text("a,b\n1,2\n" * 1000)
    monkeypatch.setenv(variable, value.format(file=file))
    for words in (["status"], ["ledger", "show"], ["ledger", "verify"]):
        answer = command(*words)
        assert_refused(answer, code, variable)
        assert "hunter2" not in answer.err
    assert file.read_text() == "a,b\n1,2\n" * 1000


def test_a_changed_ledger_does_not_verify(project, command):
    import sqlite3

    with sqlite3.connect(project.home / "ledger.db") as connection:
        connection.execute("DROP TRIGGER entries_no_update")
        connection.execute("UPDATE entries SET body = replace(body, '\"2\"', '\"9\"')")
    answer = command("ledger", "verify")
    assert answer.code == 5
    assert "Entry 2 (open) was changed." in answer.err


# -- help


def test_help_is_help_and_fits_a_terminal(command):
    for words in ([], ["-h"], ["ledger"], ["schema"], ["run", "--help"]):
        answer = command(*words)
        assert answer.code == (0 if words[-1:] in (["-h"], ["--help"]) else 2)
        text = answer.out + answer.err
        assert text.startswith("Usage: dp-release")
        assert "..." not in text.replace("[ARGS]...", "")  # no sentence is cut off
        assert all(len(line) <= 100 for line in text.splitlines())
    assert re.fullmatch(r"dp-release, version \d+\.\d+\.\d+\n", command("--version").out)


HEAVY = ("prefect", "great_expectations", "numba", "pandas", "pyarrow", "dask", "distributed")


def test_help_imports_nothing_heavy():
    script = (
        "import sys, json; from flows.cli.main import cli\n"
        "try: cli.main(['--help'])\n"
        "except SystemExit: print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    modules = set(json.loads(ended.stderr))
    heavy = {*HEAVY, "numpy", "scipy", "pyarrow", "sqlalchemy", "rich"}
    assert modules & heavy == set()


@pytest.mark.parametrize("words", [("ledger", "show"), ("plan", "release.yaml")])
def test_commands_that_read_no_data_import_no_engine(project, words):
    unused = [*HEAVY, "scipy", "pyarrow"]
    script = (
        f"import sys; from flows.cli.main import cli\n"
        f"try: cli.main({[str(project.spec) if '.' in word else word for word in words]})\n"
        f"except SystemExit as ended: assert not ended.code\n"
        f"print(sorted(set(sys.modules) & {{*{unused}}}))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={**os.environ, "DP_RELEASE_HOME": str(project.home)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout.splitlines()[-1] == "[]"


def test_what_comes_before_prefect_is_set_up_does_not_import_it():
    # Its settings (silent, local, forgetful) are read when it is imported.
    modules = (
        "flows.releases.start_check, flows.engine.orphaned_servers, flows.engine.engine_failures"
    )
    script = f"import sys, {modules}; print('prefect' in sys.modules)"
    ended = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert ended.stdout == "False\n"


@pytest.mark.parametrize("code", [0, 1])
@pytest.mark.parametrize("as_json", [True, False])
def test_a_reader_that_closes_the_pipe_changes_no_exit_code(tmp_path, code, as_json):
    """`query ... | head -3` is no failure; `verify ... | head -1` must not hide one."""
    lines = (
        "import sys, click",
        "from flows.cli import main",
        "from flows.cli.command_parts import answering, cli",
        "from dp_core.text.pages.answer import CommandAnswer",
        "from dp_core.text.pages.page import Sentence",
        "@cli.command()",
        "@answering",
        f"def talk(): return CommandAnswer(['l'] * 50_000, (Sentence('l'),) * 50_000, {code})",
        "main.main()",
    )
    script = tmp_path / "talk.py"
    script.write_text("\n".join(lines))
    words = [sys.executable, str(script), "talk", *(["--json"] if as_json else [])]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (code, b"")


def test_a_missing_spec_says_how_to_write_one_and_names_no_schema(project, command):
    assert (project.folder / "town.schema.yaml").exists()
    for words in (("plan",), ("run", "--out", project.out)):
        answer = command(words[0], project.folder / "town.release.yaml", *words[1:])
        assert_refused(answer, 2, "no such file", "`privacy: {epsilon: 1, delta: 1e-9}`", "spec.md")
        assert "Did you mean" not in answer.err


def test_a_mistyped_folder_of_a_bundle_and_a_codebook_are_suggested(command, tmp_path):
    (tmp_path / "first").mkdir()
    (tmp_path / "codes.csv").write_text("a\n")
    assert_refused(command("verify", "frist"), 2, "Did you mean 'first'?")
    assert "Did you mean" not in command("verify", "zebra").err
    draft = ("schema", "draft", "--codebook")
    assert_refused(command(*draft, "coeds.csv"), 2, "Did you mean 'codes.csv'?")
    assert "Did you mean" not in command(*draft, "nope.csv").err


def test_an_interrupted_release_is_named(project, command, monkeypatch):
    interrupt = Mock(side_effect=KeyboardInterrupt)
    monkeypatch.setattr(release_flow, "carry_out", interrupt)
    answer = command("run", project.spec, "--out", project.out)
    assert (answer.code, "`dp-release resume town` continues it" in answer.err) == (130, True)
