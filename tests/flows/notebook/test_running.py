"""`run` and `resume` in Python: errors with their exit codes, interruption, and what is left."""

import json
import os
import signal
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path

import pytest

import flows
from dp_core import errors
from flows.answers.amounts import PrivacyAmount
from flows.notebook import running
from tests.dp_core.test_face import loaded_after

ROOT = Path(__file__).parents[3]
ACTING = "tests.flows.notebook.acting_child"
WAITING = f"""
from flows import run
from flows.notebook import running
running.CHILD = {ACTING!r}
run("wait", out="stopped")
"""


@pytest.fixture
def acting(monkeypatch):
    monkeypatch.setattr(running, "CHILD", ACTING)


def test_importing_flows_imports_nothing_heavy():
    assert loaded_after("import flows; dir(flows); flows.__all__") == set()
    assert "prefect" not in loaded_after("from flows import run, resume")


def test_each_name_is_what_its_module_defines():
    for name in flows.__all__:
        assert getattr(flows, name).__name__ == name
        assert getattr(flows, name).__doc__
    with pytest.raises(AttributeError, match="no attribute 'runn'"):
        flows.runn  # noqa: B018


@pytest.mark.usefixtures("acting")
@pytest.mark.parametrize(
    "kind",
    [
        errors.BadInput,
        errors.SchemaViolation,
        errors.BudgetRefused,
        errors.StageFailed,
        errors.LedgerCorrupt,
        errors.Held,
        errors.Unpublished,
    ],
)
def test_an_error_has_the_class_the_exit_code_and_the_row_of_the_command(kind):
    with pytest.raises(errors.ReleaseError) as raised:
        flows.run(kind.__name__, out="x", quiet=True)

    assert type(raised.value) is kind
    assert raised.value.exit_code == kind.exit_code
    assert raised.value.row == "some-row"
    assert raised.value.message == 'It says `resume("town")`.'
    assert raised.value.internal is None


@pytest.mark.usefixtures("acting")
def test_a_process_that_is_killed_is_a_failure_that_can_be_resumed():
    with pytest.raises(errors.StageFailed, match="signal 9") as raised:
        flows.run("kill", out="x", quiet=True)

    assert raised.value.exit_code == 4


@pytest.mark.usefixtures("acting")
def test_a_package_that_is_not_installed_is_named():
    with pytest.raises(errors.BadInput, match="package prefect is not installed"):
        flows.run("import", out="x", quiet=True)


@pytest.mark.parametrize("ends_with", [signal.SIGINT, signal.SIGKILL])
def test_a_release_stops_when_its_caller_is_interrupted_or_dies(tmp_path, ends_with):
    caller = subprocess.Popen(
        [sys.executable, "-c", WAITING],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert caller.stdout is not None
    assert caller.stdout.readline() == "at work\n"
    caller.send_signal(ends_with)
    _, said = caller.communicate(timeout=60)

    until = time.monotonic() + 60
    while not (tmp_path / "stopped").exists() and time.monotonic() < until:
        time.sleep(0.02)
    assert (tmp_path / "stopped").read_text() == "stopped"
    assert caller.returncode == -ends_with
    if ends_with == signal.SIGINT:
        assert "KeyboardInterrupt: The release was interrupted; nothing is lost" in said


@pytest.mark.usefixtures("home")
def test_mistakes_are_refused_as_by_the_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for call, says in (
        (lambda: flows.run("nowhere.yaml", out="x"), "no such file"),
        (lambda: flows.resume("nowhere"), "no run of release 'nowhere'"),
    ):
        with pytest.raises(errors.BadInput, match=says):
            call()


def test_a_spec_in_place_of_a_name_is_a_type_error():
    with pytest.raises(TypeError, match="path of a spec"):
        flows.resume(Path("survey.release.yaml"))  # type: ignore[arg-type]


def test_too_little_left_is_the_ledgers_refusal(project):
    project.write_spec(privacy="{epsilon: 3, delta: 1e-6}")

    with pytest.raises(errors.BudgetRefused) as raised:
        flows.run(project.spec, out=project.out, quiet=True)
    assert raised.value.exit_code == 3


def test_the_answer_is_printed_with_what_was_spent_and_left(tmp_path):
    answer = {
        "release": "town",
        "account": "town",
        "spent": PrivacyAmount(Fraction(1, 2), Fraction(1, 1_000_000)).to_json(),
        "left": PrivacyAmount(Fraction(1, 2), Fraction(0)).to_json(),
        "above": None,
        "internal": str(tmp_path / "internal"),
        "neighbours": "add-remove",
        "charges": 7,
        "out": str(tmp_path),
        "sets": 1,
        "rows": 400,
        "accuracy": {},
        "seconds": 3.2,
    }
    made = flows.MadeRelease(json.loads(json.dumps(answer)))

    assert "town is released: 1 set of 400 rows in 3.2 s." in str(made)
    assert "Spent    epsilon 0.5, delta 1e-06 (add-remove) in 7 charges" in str(made)
    assert "<b>Spent</b>" in made._repr_html_()
    with pytest.raises(errors.BadInput, match="not a release"):
        made.bundle  # noqa: B018


@pytest.mark.usefixtures("quick")
def test_sets_in_memory_are_those_that_the_pipeline_writes(project):
    """The same plan and models give the same rows, value by value."""
    import pyarrow.parquet as pq

    from dp_core.public_data.memory_release import drawn_set
    from tasks.run.public_files import synthetic_place
    from tasks.stages.reconstruct import restored_models

    compared = []

    def perform(task, *given):
        result = task.fn(*given)
        if task.name == "synthesize":
            run = given[0]
            models = restored_models(run)
            for number in range(1, run.spec.sets + 1):
                written = pq.read_table(synthetic_place(run, number))
                drawn = drawn_set(run.plan, models, number)
                compared.append(drawn.records.to_pylist() == written.to_pylist())
        return result

    project.write_spec("synthesize: {sets: 2, seed: 5}\n", method="independent")
    project.release(perform=perform)

    assert compared == [True, True]


@pytest.mark.parametrize("words", [({"version": 1}, "z"), ("s.yaml", None), (["s.yaml"], "z")])
def test_what_is_no_path_is_refused_in_a_sentence(words):
    with pytest.raises(TypeError, match=r"^`(spec|out)` must be the path of a .*, not \w+\.$"):
        running.run(*words)
