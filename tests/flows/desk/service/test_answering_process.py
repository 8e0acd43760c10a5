"""The process that answers one question: its outcome has fixed sentences, and it ends in time."""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass
from fractions import Fraction
from types import SimpleNamespace

import pytest

from dp_core import errors
from flows.desk.service import answering_process, queue
from flows.desk.service.queue import AnsweringProcesses
from flows.desk.service.service_records import AdmittedQuestion, Outcome, ServiceRecords

JOB = {"account": "rand", "number": 1, "attempt": 0, "deployment": False}
SECRET = "row 17 has income 5"
QUESTION = AdmittedQuestion("rand", 1, "anna", "count by sex", "1/10", "waiting")


@dataclass
class Acting:
    """What answering does instead of its work."""

    error: Exception | None = None

    def __call__(self, *_words, **_options):
        if self.error is not None:
            raise self.error
        return SimpleNamespace(paid=SimpleNamespace(epsilon=Fraction(1, 10)))


@pytest.fixture
def acting(monkeypatch):
    made = Acting()
    monkeypatch.setattr("flows.desk.asking.answer_question", made)
    monkeypatch.setattr("flows.desk.desk.find_desk", lambda account: account)
    return made


def test_an_answer_tells_what_was_paid(acting):
    assert acting.error is None
    assert answering_process.perform(JOB) == Outcome("answered", cost="1/10")


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (errors.BudgetRefused(SECRET, row="budget"), "refused"),
        (errors.AwaitsApproval(SECRET, row="waits-for-approval"), "awaiting approval"),
        (errors.BudgetRefused(SECRET, row="waits-for-approval"), "awaiting approval"),
        (errors.Held(SECRET), "awaiting approval"),
        (errors.Unpublished(SECRET), "refused"),
        (errors.BadInput(SECRET), "refused"),
        (errors.SchemaViolation(SECRET, row="data-do-not-fit"), "refused"),
        (errors.StageFailed(SECRET, row="disk-full"), "failed"),
        (errors.LedgerCorrupt(SECRET), "failed"),
    ],
)
def test_a_failure_is_told_by_its_state_and_a_fixed_sentence(acting, error, state):
    acting.error = error
    found = answering_process.perform(JOB)
    assert found.state == state
    assert SECRET not in repr(found)
    assert found.cost == "0"
    assert bool(found.reason) == (state != "awaiting approval")


def processes(tmp_path, monkeypatch, code, seconds=600.0):
    """Return answering processes that run other code."""
    child = tmp_path / "acting_answer.py"
    child.write_text(
        f"import json, os, sys, time\njob = json.loads(sys.stdin.readline())\n{code}\n"
    )
    monkeypatch.setattr(queue, "CHILD", "acting_answer")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert sys.executable
    return AnsweringProcesses(ServiceRecords(tmp_path / "home"), seconds)


def test_the_last_line_of_the_process_is_the_outcome(tmp_path, monkeypatch):
    code = "print('noise'); print(json.dumps({'state': 'answered', 'cost': str(job['attempt'])}))"
    found = processes(tmp_path, monkeypatch, code)
    assert found(QUESTION) == Outcome("answered", cost="0")
    records = ServiceRecords(tmp_path / "home")
    records.keep_outcome("rand", 1, Outcome("failed"))
    assert found(QUESTION) == Outcome("answered", cost="1")
    # Asked again, it is a further attempt, and none that Prefect knows.
    records.forget_outcome("rand", 1)
    records.keep_outcome("rand", 1, Outcome("awaiting approval"))
    assert found(QUESTION) == Outcome("answered", cost="1")
    records.keep_outcome("rand", 1, Outcome("refused"))
    assert found(QUESTION) == Outcome("answered", cost="2")


@pytest.mark.parametrize(
    "code", ["os._exit(3)", "os.kill(os.getpid(), 9)", "print('[]')", "print('{\"x\": 1}')", "pass"]
)
def test_a_process_that_ends_without_an_outcome_has_failed(tmp_path, monkeypatch, code):
    assert processes(tmp_path, monkeypatch, code)(QUESTION).state == "failed"


def test_an_answer_that_takes_too_long_is_interrupted_and_has_failed(tmp_path, monkeypatch):
    assert processes(tmp_path, monkeypatch, "time.sleep(600)", 0.5)(QUESTION).state == "failed"


def test_ending_interrupts_the_answer_and_starts_no_other(tmp_path, monkeypatch):
    begun = tmp_path / "begun"
    code = f"open({str(begun)!r}, 'w').close(); time.sleep(600)"
    found = processes(tmp_path, monkeypatch, code)
    outcomes = []
    thread = threading.Thread(target=lambda: outcomes.append(found(QUESTION)))
    thread.start()
    while not begun.exists():
        thread.join(0.05)
    found.end()
    thread.join()
    assert outcomes == [Outcome("interrupted")]
    assert found(QUESTION) == Outcome("interrupted")


def test_nothing_that_the_process_prints_on_standard_error_is_kept(tmp_path, monkeypatch, capfd):
    code = f"print({SECRET!r}, file=sys.stderr); print(json.dumps({{'state': 'answered'}}))"
    assert processes(tmp_path, monkeypatch, code)(QUESTION).state == "answered"
    assert capfd.readouterr().err == ""
