"""Without the extra `pipeline`: what works, and what a command says that needs it."""

import json
import os
import re
import shutil
import sys

import click
import pytest

from flows.cli import main, missing_packages
from flows.cli.missing_packages import BESIDES, PIPELINE, UNIX, require_pipeline, what_to_install
from tests.base_install import PROJECT, not_in_the_base, run, with_dependencies
from tests.full import some

COMMAND = "from flows.cli.main import main; main()"


@pytest.fixture
def base(tmp_path, town_folder):
    """Return a function that runs a script where only the base is installed."""
    shutil.copytree(town_folder / "first", tmp_path / "first")
    shutil.copy(town_folder / "town.schema.yaml", tmp_path)
    (tmp_path / "town.release.yaml").write_text(
        "version: 1\nrelease: town\ndata: town.csv\nschema: town.schema.yaml\naccount: town\n"
        "privacy: {epsilon: 1, delta: 1e-9, neighbours: add-remove}\nmethod: privsyn\n"
    )
    (tmp_path / "town.csv").write_text("sex,age,region,income\n1,20,north,1.00\n")
    environment = {**os.environ, "DP_RELEASE_HOME": str(tmp_path / "home")}

    def as_base(script, *words, missing=frozenset()):
        missing = missing or not_in_the_base()
        return run(script, *words, missing=missing, environment=environment, folder=tmp_path)

    return as_base


def test_the_base_lacks_the_pipeline_and_what_only_tests_need():
    missing = not_in_the_base()
    assert missing >= PIPELINE | BESIDES
    assert missing >= {"jax", "opendp", "dp_accounting", "pytest", "bokeh", "aiosqlite"}
    assert not missing & {"numpy", "pandas", "pyarrow", "scipy", "statsmodels", "click", "yaml"}


def test_the_list_of_the_pipeline_is_that_of_pyproject():
    names = {re.split(r"[^\w-]", each)[0] for each in PROJECT["optional-dependencies"]["pipeline"]}
    known_as = {"scikit-learn": "sklearn"}
    assert {known_as.get(name, name).replace("-", "_") for name in names} == PIPELINE
    assert set(PROJECT["optional-dependencies"]) == {"export", "pipeline"}
    brought = with_dependencies(PROJECT["optional-dependencies"]["pipeline"])
    assert brought >= BESIDES


def test_a_data_user_needs_the_base_only(base):
    ended = base(
        "import dp_core as dp\n"
        "bundle = dp.read_bundle('first')\n"
        "assert not bundle.verify().exit_code\n"
        "assert bundle.query('mean of income by sex').determined\n"
        "assert len(bundle.infer('income ~ age + sex').frame)\n"
        "assert len(bundle.sets) == 5 and len(bundle.tables)\n"
        "repr(bundle), repr(bundle.query('share by sex'))\n"
        "bundle.infer('sex ~ age')._repr_html_()\n"
        "dp.read_schema('town.schema.yaml')\n"
        "for name in dp.__all__: getattr(dp, name)\n"
        "print('done')"
    )
    assert (ended.stdout, ended.stderr) == ("done\n", "")


METHODS = """
import numpy as np
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.plan.reading.spec_file import memory_plan
from dp_core.plan.procedure import carry_out, sample
from dp_core.schema.reading.schema_file import parse_schema
from dp_core.kernel.counting.dataset import Dataset

rng = np.random.default_rng(1)
column = {"type": "category", "levels": ["x", "y"]}
schema = parse_schema({"version": 1, "title": "t", "columns": dict.fromkeys("abc", column)})
codes = rng.integers(0, 2, (3, 500), np.uint16)
for method in sys.argv[1:]:
    plan = memory_plan(schema, {"privacy": {"epsilon": 10, "delta": "1e-6"}, "method": method})
    outcome = carry_out(plan, MemoryCounter(Dataset(schema.domain, codes)))
    sample(outcome.plan, outcome.models, 1)
    print(method)
"""


def test_a_release_in_memory_needs_the_base_only(base):
    methods = ("auto", "privsyn", "mst", "aim", "pgm", "independent")
    from dp_core.plan.presets import PRESETS

    chosen = [method for method in methods if method in PRESETS]
    assert len(chosen) > 3
    ended = base(METHODS, *chosen)
    assert ended.stdout.split() == chosen, ended.stderr


ALL = """
import contextlib, io
from flows.cli import main
for words in json.loads(sys.argv[1]):
    sys.argv[1:] = words
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try: main.main()
        except SystemExit as ended: code = ended.code
        except BaseException as error: code = repr(error)
    print(json.dumps([code, out.getvalue(), err.getvalue()]))
"""
"""Runs many command lines in one process, and prints how each ended."""


def answers(ended, lines):
    """Return code, output and error of each command line of `ALL`, by its words."""
    found = [json.loads(line) for line in ended.stdout.splitlines()]
    assert len(found) == len(lines), ended.stderr
    return {" ".join(words): answer for words, answer in zip(lines, found, strict=True)}


WORKING = [
    ("--help",),
    ("--version",),
    ("verify", "first"),
    ("query", "first", "share by sex"),
    ("query", "first", "share by sex", "--json"),
    ("infer", "first", "income ~ age"),
    ("schema", "draft", "town.csv"),
    ("schema", "suite", "town.schema.yaml"),
    ("schema", "check", "town.schema.yaml", "town.csv"),
    ("completion", "bash"),
]


SYSTEMS = pytest.mark.parametrize(
    "system", some(["unix", "windows"], lambda each: each == "windows")
)


def lacking(system):
    return not_in_the_base() | (UNIX if system == "windows" else set())


@SYSTEMS
def test_a_command_that_needs_no_pipeline_works(base, system):
    found = answers(base(ALL, json.dumps(WORKING), missing=lacking(system)), WORKING)
    wrong = {
        words: answer for words, answer in found.items() if answer[0] or answer[2] or not answer[1]
    }
    assert wrong == {}


@SYSTEMS
def test_a_plan_needs_the_base_only_and_knows_no_account(base, tmp_path, system):
    ended = base(COMMAND, "plan", "town.release.yaml", "--json", missing=lacking(system))
    answer = json.loads(ended.stdout)
    assert (ended.returncode, answer["account_found"], ended.stderr) == (3, False, "")
    assert not (tmp_path / "home").exists()
    # An account may pay for it, and this installation cannot read which.
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "ledger.db").write_bytes(b"")
    assert_says_what_to_install(base(COMMAND, "plan", "town.release.yaml"))


def assert_says_what_to_install(ended):
    assert ended.returncode == 2, ended
    (line,) = ended.stderr.splitlines()
    assert ended.stdout == ""
    assert line.startswith("dp-release: This command needs the extra `pipeline` (the package ")
    assert line.endswith('"dp-release[pipeline]"')


DECISION = ("--by", "Ada", "--reason", "why")
NEEDING = [
    ("demo",),
    ("run", "town.release.yaml", "--out", "out"),
    ("resume", "town"),
    ("status",),
    ("abandon", "town"),
    ("release", "look", "town", *DECISION),
    ("release", "publish", "town", *DECISION),
    ("release", "withdraw", "town", *DECISION),
    ("ledger", "open", "town", "--epsilon", "1", *DECISION),
    ("ledger", "raise", "town", "--epsilon", "2", *DECISION),
    ("ledger", "restate", "town", "--composition", "basic", *DECISION),
    ("ledger", "close", "town", *DECISION),
    ("ledger", "allow-retry", "town", *DECISION),
    ("ledger", "approve", "0" * 64, *DECISION),
    ("ledger", "withdraw", "0" * 64, *DECISION),
    ("ledger", "keygen", "new.key", *DECISION),
    ("ledger", "adopt", *DECISION),
    ("ledger", "show"),
    ("ledger", "charges", "town"),
    ("ledger", "forecast", "town.release.yaml"),
    ("ledger", "export", "town.json"),
    ("ledger", "verify"),
    ("compare", "town.release.yaml", "--public-data", *DECISION),
    ("infer", "first", "income ~ age", "--against-confidential"),
    ("release", "data-docs", "town"),
    ("release", "evaluate", "first"),
    ("schema", "draft", "town", "--database", "TOWN"),
    ("schema", "draft", "s3://town/town.csv"),
    ("server", "metrics"),
    ("server", "ui"),
    ("server", "nightly"),
    ("server", "sweep"),
    ("server", "schedule", "town.release.yaml", "--cron", "0 0 1 * *", "--out-root", "out"),
    ("server", "alerts", "town.yaml"),
    ("desk", "ask", "town", "count by sex", "--epsilon", "1"),
    ("desk", "open", "town.yaml", *DECISION),
    ("desk", "show"),
    ("desk", "close", "town", *DECISION),
    ("desk", "serve"),
    ("desk", "token", "town", "ada"),
    ("desk", "revoke", "town", "ada"),
]
UNTRIED = ("audit",)
"""Commands that do hours of work if no option says otherwise."""


def commands(group=main.cli, before=()):
    """Return the words of every command, with "first" for all that it requires."""
    for name, each in group.commands.items():
        if isinstance(each, click.Group):
            yield from commands(each, (*before, name))
        else:
            required = [one for one in each.params if one.required]
            options = [one.opts[0] for one in required if isinstance(one, click.Option)]
            arguments = ["first" for one in required if isinstance(one, click.Argument)]
            given = [word for option in options for word in (option, "first")]
            yield (*before, name), (*before, name, *arguments, *given)


def test_a_command_that_is_not_listed_needs_no_pipeline(base):
    groups = {name for name, each in main.cli.commands.items() if isinstance(each, click.Group)}
    named = {words[: 1 + (words[0] in groups)] for words in NEEDING}
    tried = [line for words, line in commands() if words not in named and words[0] not in UNTRIED]
    assert tried
    assert named <= {words for words, _ in commands()}
    wrong = {
        words: (code, error)
        for words, (code, _, error) in answers(base(ALL, json.dumps(tried)), tried).items()
        if code not in (0, 2) or "pipeline" in error
    }
    assert wrong == {}, "if a command needs the pipeline, add a line to NEEDING"


def test_a_command_that_needs_the_pipeline_says_what_to_install_and_does_nothing(base, tmp_path):
    before = sorted(path.name for path in tmp_path.iterdir())
    found = answers(base(ALL, json.dumps(NEEDING)), NEEDING)
    wrong = {
        words: answer
        for words, answer in found.items()
        if answer[0] != 2
        or answer[1]
        or "needs the extra `pipeline`" not in answer[2]
        or len(answer[2].splitlines()) != 1
    }
    assert wrong == {}
    assert sorted(path.name for path in tmp_path.iterdir()) == before


# -- Windows, which lacks some of Python's modules


def test_on_windows_the_sentence_names_wsl_and_not_the_extra(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    said = what_to_install(ModuleNotFoundError("", name="sqlalchemy.orm"))
    assert said is not None
    assert "WSL" in said
    assert "dp-release[pipeline]" not in said


def test_a_release_is_refused_if_one_package_of_the_pipeline_is_missing(monkeypatch):
    require_pipeline()
    monkeypatch.setattr(
        missing_packages, "find_spec", lambda name: None if name == "great_expectations" else name
    )
    with pytest.raises(ModuleNotFoundError) as refused:
        require_pipeline()
    assert "great_expectations is not installed" in str(what_to_install(refused.value))
