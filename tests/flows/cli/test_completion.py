"""Completion as each shell asks for it: commands, options, and the names in a home."""

from fractions import Fraction

import pytest

from dp_core.kernel.cost.composition import Terms
from dp_core.plan.presets import PRESETS
from tasks.run.home import open_ledger
from tasks.run.stage_table import REPEATABLE
from tests.new_python import new_python

VARIABLE = "_DP_RELEASE_COMPLETE"


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home with three accounts and two releases."""
    monkeypatch.setenv("DP_RELEASE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DP_RELEASE_STATE", str(tmp_path / "state"))
    ledger = open_ledger()
    for name in ("panel", "panel-2026", "town"):
        ledger.open_account(
            name,
            terms=Terms("basic", Fraction(1), Fraction(0)),
            neighbours="add-remove",
            by="Ada",
            reason="test",
        )
    for name in ("town-2026q3", "town-2026q4"):
        (tmp_path / "home" / "runs" / name).mkdir(parents=True)
    return tmp_path / "home"


@pytest.fixture
def completed(home, command, monkeypatch):
    """Return a function that asks as the script of bash does; the last word is incomplete."""
    assert home.is_dir()

    def complete(*words, shell="bash"):
        monkeypatch.setenv(VARIABLE, f"{shell}_complete")
        monkeypatch.setenv("COMP_WORDS", " ".join(["dp-release", *words]))
        monkeypatch.setenv("COMP_CWORD", words[-1] if shell == "fish" else str(len(words)))
        answer = command()
        assert (answer.code, answer.err) == (0, "")
        return answer.out.splitlines()

    return complete


def values(lines):
    return [line.partition(",")[2] for line in lines if line.startswith("plain,")]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("sta",), ["status"]),
        (("ledger", "ra"), ["raise"]),
        (("plan", "--js"), ["--json"]),
        (("status", ""), ["town-2026q3", "town-2026q4"]),
        (("resume", "town-2026q4"), ["town-2026q4"]),
        (("resume", "--from", ""), [*REPEATABLE]),
        (("ledger", "show", "pan"), ["panel", "panel-2026"]),
        (("ledger", "open", "new", "--within", "t"), ["town"]),
        (("ledger", "open", "new", "--per", ""), ["month", "quarter", "year"]),
        (("ledger", "open", "new", "--neighbours", "r"), ["replace-one"]),
        (("ledger", "charges", "town", "--release", "x"), []),
        (("audit", "--method", ""), [*PRESETS]),
        (("server", "s"), ["schedule", "sweep"]),
        (("completion", ""), ["bash", "zsh", "fish"]),
        (("run", "a.yaml", "--log-format", "j"), ["json"]),
    ],
)
def test_a_word_is_completed(completed, words, expected):
    assert values(completed(*words)) == expected


def test_a_command_that_does_not_exist_is_no_error_while_a_line_is_typed(completed):
    assert "status" in values(completed("no-such-command", ""))


def test_files_are_left_to_the_shell(completed):
    assert completed("plan", "rel") == ["file,rel"]
    assert completed("verify", "bun") == ["file,bun"]


def test_a_home_that_cannot_be_read_completes_nothing(completed, home, monkeypatch):
    (home / "ledger.db").write_bytes(b"not a database, but of some length" * 100)
    assert values(completed("ledger", "show", "")) == []
    monkeypatch.setenv("DP_RELEASE_LEDGER", "postgresql://ada:hunter2@db/ledger")
    assert values(completed("ledger", "show", "")) == []
    monkeypatch.setenv("DP_RELEASE_HOME", str(home / "nowhere"))
    assert values(completed("status", "")) == []
    assert not (home / "nowhere").exists()


def test_completion_writes_nothing_and_imports_nothing_heavy(home):
    before = {path: path.stat().st_mtime_ns for path in home.rglob("*")}
    script = (
        "import sys; from flows.cli import completion\n"
        "found = completion.accounts(), completion.releases(), completion.methods()\n"
        "import flows.cli.main\n"
        "print(*(each.partition('.')[0] for each in sys.modules)); print(len(found[0]))"
    )
    modules, accounts = new_python(script).stdout.splitlines()
    assert accounts == "3"
    heavy = {"prefect", "sqlalchemy", "numpy", "pandas", "pyarrow", "dask", "rich", "scipy"}
    assert not heavy & {*modules.split()}
    assert {path: path.stat().st_mtime_ns for path in home.rglob("*")} == before


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_asks_by_the_variable(command, shell):
    answer = command("completion", shell)
    assert (answer.code, answer.err) == (0, "")
    assert f"{VARIABLE}={shell}_complete" in answer.out
