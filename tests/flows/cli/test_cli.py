"""The command line: exit codes, machine answers, and one sentence for every mistake."""

import json
import re
import subprocess
import sys
from fractions import Fraction

import pytest

from dp_core.accounts.requested import unprotected
from dp_core.methods.drawn_events import threshold_for
from dp_core.schema.column_types.registry import words as column_types
from tests.flows.conftest import as_csv, survey
from tests.new_python import new_python

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


def keys(answer):
    assert (answer.code, answer.err) == (0, "")
    return set(answer.json)


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


def test_plan_states_the_threshold(project, command):
    project.write_spec(method="sba")
    found = command("plan", project.spec, "--json").json["threshold"]
    # 49/50 of epsilon 1, delta 1e-6: the noise is of scale 50/49.
    assert found["kept_from"] == threshold_for(Fraction(50, 49), Fraction(1, 10**6))
    assert found["rare_lost"] is None
    text = " ".join(command("plan", project.spec).out.split())
    assert f"cells of {found['kept_from']} records or more are kept" in text


def test_plan_opens_no_door_to_a_second_account_under_a_misspelt_name(project, command):
    text = command("plan", project.write_spec(account="twon")).out
    assert "There is no account 'twon'. Did you mean 'town'?" in text
    assert "ledger open" not in text


def test_plan_says_in_the_words_of_the_ledger_that_a_large_delta_is_no_protection(project, command):
    assert "unprotected" not in command("plan", project.spec, "--json").json
    spec = project.write_spec(privacy="{epsilon: 1, delta: 0.5}")
    said = unprotected(Fraction(1), Fraction(1, 2))
    assert "delta of 0.5" in said
    assert said in " ".join(command("plan", spec).out.split())
    assert command("plan", spec, "--json").json["unprotected"] == said


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


@pytest.mark.usefixtures("quick")
def test_run_tells_people_what_was_spent_and_where_it_is(project, command):
    answer = command("run", project.spec, "--out", project.out)
    assert answer.code == 0
    assert "Spent    epsilon 1, delta 0 (add-remove)" in answer.out
    assert f"Bundle   {project.out}" in answer.out
    assert f"Check    dp-release verify {project.out}" in answer.out
    assert "Validate against the schema" in answer.err


def test_all_faults_of_a_schema_are_listed_together(project, command):
    """As lines for people, and as a list like the findings for programs."""
    types, path = ", ".join(column_types()), project.folder / "town.schema.yaml"
    path.write_text("version: 1\ntitle: t\ncolumns:\n  a: {type: int}\n  b: {type: float}\n")
    answer = command("plan", project.spec)
    assert answer.code == 2
    assert answer.err.splitlines() == [
        "dp-release: town.schema.yaml has 2 faults:",
        f"- line 4, columns.a.type: 'int' is not one of {types}. Did you mean 'integer'?",
        f"- line 5, columns.b.type: 'float' is not one of {types}. Did you mean 'number'?",
    ]
    told = command("plan", project.spec, "--json")
    assert told.code == 2
    assert told.json["faults"][1] == {
        "severity": "refusal",
        "file": "town.schema.yaml",
        "line": 5,
        "key": "columns.b.type",
        "message": f"'float' is not one of {types}.",
        "fix": "Did you mean 'number'?",
    }


# -- words that are not commands


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["runn"], "Did you mean 'run'?"),
        (["help"], "`dp-release --help` lists"),
        (["ledger", "opn"], "Did you mean 'open'?"),
        (["plan"], "Missing argument 'SPEC'; see `dp-release plan --help`."),
        (["plan", "a", "b"], "unexpected extra argument (b); see `dp-release plan --help`"),
        (["plan", "x.yaml", "--jsn"], "Did you mean '--json'?"),
        (["ledger", "open", "a", "--eps", "1"], "Did you mean '--epsilon'?"),
        (["check", "x.yaml", "x.csv"], "Did you mean `dp-release schema check`?"),
        (["infer", "income ~ age", "x"], "The folder comes first"),
        (["schema", "check", "x.csv", "x.yaml"], "The schema comes first"),
        (["schema", "draft", "--codebook", "."], "is a folder; name a codebook in it."),
        (["status", "nope"], "There is no release 'nope' in this ledger"),
        (["resume", "nope"], "There is no run of release 'nope' here"),
        (["status", "../.."], "is a path; name the release"),
        (["ledger", "close", "town", "--by", "", "--reason", "b"], "--by is empty"),
        (["verify", "nowhere"], "nowhere does not exist; name the folder of a release"),
    ],
)
def test_a_mistyped_command_is_one_sentence(project, command, words, said):
    assert_refused(command(*words), 2, said)
    assert project.untouched()


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
        ("epsilon: 1,", "epsilon: 0,", 2, "privacy.epsilon: '0' must be from 1e-12 to 1,000"),
        ("account: town", "account: twon", 3, "Did you mean 'town'?"),
        ("epsilon: 1,", "epsilon: 5,", 3, "has 2 left of 2. No release has used it yet."),
        ("1e-6}", "1e-4}", 3, "The largest privacy.delta that still fits is 1e-05."),
        ("release: town", "release: a b", 2, "is not a valid name of a release"),
        ("town.schema.yaml", "twon.schema.yaml", 2, "Did you mean 'town.schema.yaml'?"),
        ("version", "measure: {share: 0.9}\none_way: {share: 0.3}\nversion", 2, "sum to 6/5"),
        ("town.csv", "https://example.org/x.csv", 2, "is a URL"),
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
    assert "has a column that the schema does not describe" not in plain.err
    assert SECRET not in plain.err
    monkeypatch.setattr("flows.cli.arguments.on_terminal", lambda _stream: True)
    told = command("run", project.spec, "--out", project.out)
    assert "has a column that the schema does not describe" in told.err.splitlines()[-1]
    assert f"has column '{SECRET}'" in told.err
    assert SECRET not in told.err.splitlines()[-1]
    as_json = command("run", project.spec, "--out", project.out, "--json")
    assert SECRET not in as_json.out + as_json.err


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


def test_help_imports_nothing_heavy():
    script = (
        "import sys, json; from flows.cli.main import cli\n"
        "try: cli.main(['--help'])\n"
        "except SystemExit: print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    )
    modules = set(json.loads(new_python(script).stderr))
    heavy = {*ENGINES, "statsmodels", "numpy", "pandas", "pyarrow", "sqlalchemy", "rich"}
    assert modules & heavy == set()


ENGINES = ("prefect", "great_expectations", "numba", "dask", "distributed", "scipy")


@pytest.mark.parametrize(
    ("words", "unused"),
    [
        (("ledger", "show"), ("pandas", "pyarrow")),
        (("plan", "release.yaml"), ("pandas", "pyarrow")),
        (("schema", "draft", "town.csv"), ("pyarrow", "sqlalchemy")),
        (("schema", "check", "town.schema.yaml", "town.csv"), ("sqlalchemy",)),
    ],
)
def test_a_command_imports_no_engine_that_it_does_not_need(project, words, unused):
    script = (
        "import sys; from flows.cli.main import cli\n"
        f"try: cli.main({list(words)})\n"
        "except SystemExit as ended: assert not ended.code\n"
        f"print(sorted(set(sys.modules) & {{*{[*ENGINES, *unused]}}}))"
    )
    ended = new_python(script, cwd=project.folder, DP_RELEASE_HOME=str(project.home))
    assert ended.stdout.splitlines()[-1] == "[]"


def test_what_comes_before_prefect_is_set_up_does_not_import_it():
    # Its settings (silent, local, forgetful) are read when it is imported.
    modules = "flows.releases.start_check, flows.engine.engine_failures"
    script = f"import sys, {modules}; print('prefect' in sys.modules)"
    assert new_python(script).stdout == "False\n"


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
