"""The log for staff: what happened, in lines that a machine reads, and no value of the file."""

import json
from fractions import Fraction

import pytest

from dp_core.errors import StageFailed
from flows.monitoring import log
from tests.flows.conftest import STAGES, plainly
from tests.raising import raising

CANARY = "zqxcanary"


@pytest.fixture(autouse=True)
def unlogged(monkeypatch):
    """Begin without a log, and end so, whatever a command set."""
    for name in (log.FILE, log.FORMAT):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


@pytest.fixture
def logged(tmp_path, monkeypatch):
    """Log as JSON into a file; return a function that reads it."""
    file = tmp_path / "release.log"
    monkeypatch.setenv(log.FILE, str(file))
    monkeypatch.setenv(log.FORMAT, "json")
    return lambda: [json.loads(line) for line in file.read_text().splitlines()]


def named(lines, event):
    return [line for line in lines if line["event"] == event]


@pytest.mark.usefixtures("quick")
def test_what_happens_is_logged_in_order_and_once(project, logged, tmp_path):
    run = project.release()
    lines = logged()
    assert (tmp_path / "release.log").stat().st_mode & 0o777 == 0o600
    assert {line["release"] for line in lines} == {"town"}
    assert lines[0] == {
        **{"version": 1, "time": lines[0]["time"], "event": "opened", "release": "town"},
        **{"account": "town", "method": "auto", "epsilon": 1.0, "delta": 1e-6},
        **{"neighbours": "add-remove", "plan": run.plan.hash},
    }
    assert [line["stage"] for line in named(lines, "stage-begun")] == list(STAGES)
    ends = named(lines, "stage-ended")
    assert [line["stage"] for line in ends] == list(STAGES)
    assert {line["outcome"] for line in ends} == {"done"}
    assert all(line["seconds"] >= 0 for line in ends)
    charges = named(lines, "charge-committed")
    ledger = project.ledger()
    paid = ledger.charges(ledger.reservation("town"))
    assert [(line["stage"], line["receipt"], Fraction(line["cost_exact"])) for line in charges] == [
        (charge.stage, charge.number, charge.cost) for charge in paid
    ]
    assert {line["currency"] for line in charges} == {run.plan.currency.kind}
    # Within its stage, and after the charge's result is stored.
    at = [(line["event"], line.get("stage")) for line in lines]
    begun, over = at.index(("stage-begun", "measure")), at.index(("stage-ended", "measure"))
    assert begun < at.index(("charge-committed", "measure")) < over
    assert [line["time"] for line in lines] == sorted(line["time"] for line in lines)


@pytest.mark.usefixtures("quick")
def test_a_failed_stage_is_logged_without_what_failed(project, logged, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("tasks.stages.reconstruct._write_tables", raising(ValueError(CANARY)))
        with pytest.raises(StageFailed):
            project.release()
    lines = logged()
    assert lines[-1]["event"] == "stage-ended"
    assert (lines[-1]["stage"], lines[-1]["outcome"]) == ("reconstruct", "failed")
    assert CANARY not in json.dumps(lines)
    before = len(lines)
    project.release()
    after = logged()[before:]
    assert after[0]["event"] == "opened"
    # What was done is not done again, and what was paid is not logged twice.
    assert [line["stage"] for line in named(after, "stage-begun")] == [
        "identify",
        *STAGES[STAGES.index("reconstruct") :],
    ]
    assert named(after, "charge-committed") == []


def test_a_command_logs_where_it_is_told(project, command, tmp_path):
    file = tmp_path / "there.log"
    project.write_spec(privacy="{epsilon: 100, delta: 1e-6}")
    words = ("run", project.spec, "--out", project.out, "--log-file", file)
    answer = command(*words, "--log-format", "json")
    assert answer.code == 3
    (line,) = [json.loads(line) for line in file.read_text().splitlines()]
    assert (line["event"], line["exit_code"]) == ("refused", 3)
    assert line["sentence"] in answer.err
    command(*words, "--log-format", "text")
    text = file.read_text().splitlines()[-1]
    assert ' refused release.yaml exit_code=3 sentence="' in text
    assert command(*words, "--log-format", "yaml").code == 2


def test_a_log_that_cannot_be_written_is_refused_before_anything_begins(
    project, command, tmp_path, monkeypatch
):
    words = ("run", project.spec, "--out", project.out)
    answer = command(*words, "--log-file", tmp_path / "no" / "such.log")
    assert (answer.code, "cannot be written" in answer.err) == (2, True)
    monkeypatch.setenv(log.FILE, str(tmp_path / "log"))
    monkeypatch.setenv(log.FORMAT, "xml")
    answer = command(*words)
    assert (answer.code, "text or json" in answer.err) == (2, True)
    assert project.untouched()


@pytest.mark.usefixtures("quick", "logged")
def test_a_log_that_fails_later_stops_nothing(project, tmp_path):
    def perform(stage, run, *given):
        if stage.name == "count":
            (tmp_path / "release.log").unlink()
            (tmp_path / "release.log").mkdir()
        return plainly(stage, run, *given)

    project.release(perform=perform)
    assert project.out.is_dir()
