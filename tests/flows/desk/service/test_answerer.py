"""Answering one question: the outcome has a fixed sentence, and it ends in time."""

from __future__ import annotations

import fcntl
import threading
from dataclasses import dataclass
from fractions import Fraction
from types import SimpleNamespace

import prefect.deployments
import pytest
import yaml
from prefect.states import Completed, Crashed, Running

from dp_core import errors
from flows.answer import FLOW
from flows.desk import own_process
from flows.desk.service import answerer
from flows.desk.service.answerer import AWAITING_APPROVAL, DEPLOYMENT, EARLY, Answerer
from flows.desk.service.service_records import AdmittedQuestion, Outcome, ServiceRecords
from flows.desk.service.tokens import FOLDER
from flows.monitoring.outcome import TITLES
from tests.processes import ROOT

SECRET = "row 17 has income 5"
QUESTION = AdmittedQuestion("rand", 7, "anna", "count by sex", "1/10", "waiting")
ANSWER = 'print(json.dumps({"answer": {}}))'


@dataclass
class Acting:
    """What answering does instead of its work."""

    error: Exception | None = None

    def __call__(self, _desk, _number, *, carry_out):
        if self.error is not None:
            raise self.error
        carry_out("spec", "out")
        return SimpleNamespace(paid=SimpleNamespace(epsilon=Fraction(1, 10)))


@pytest.fixture
def acting(monkeypatch, home):  # noqa: ARG001
    made = Acting()
    monkeypatch.setattr(answerer, "answer_question", made)
    monkeypatch.setattr(answerer, "find_desk", lambda account: account)
    return made


@pytest.fixture
def start(acting, home, tmp_path, monkeypatch):  # noqa: ARG001
    """Return a function that gives an answerer whose process runs other code."""
    monkeypatch.setattr(own_process, "CHILD", "acting_child")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def begin(code=ANSWER, seconds=600.0, **options):
        lines = (
            "import fcntl, json, os, sys, time",
            "job = json.loads(sys.stdin.readline())",
            code,
        )
        (tmp_path / "acting_child.py").write_text("\n".join(lines))
        return Answerer(ServiceRecords(home), seconds, **options)

    return begin


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (errors.BudgetRefused(SECRET, row="budget"), "refused"),
        (errors.AwaitsApproval(SECRET, row="waits-for-approval"), "awaiting approval"),
        (errors.Held(SECRET), "awaiting approval"),
        (errors.Unpublished(SECRET), "refused"),
        (errors.BadInput(SECRET), "refused"),
        (errors.SchemaViolation(SECRET, row="data-do-not-fit"), "refused"),
        (errors.StageFailed(SECRET, row="disk-full"), "failed"),
        (errors.LedgerCorrupt(SECRET), "failed"),
        (ValueError(SECRET), "failed"),
    ],
)
def test_a_failure_is_told_by_its_state_and_a_fixed_sentence(acting, start, error, state):
    acting.error = error
    found = start()(QUESTION)
    assert found.state == state
    assert SECRET not in repr(found)
    assert found.cost == "0"
    assert bool(found.reason) == (state != "awaiting approval")


def test_an_answer_tells_what_was_paid_and_the_last_line_of_the_process_decides(start):
    code = (
        f"print('noise'); assert job == {{'spec': 'spec', 'out': 'out', 'options': {{}}}}; {ANSWER}"
    )
    assert start(code)(QUESTION) == Outcome("answered", cost="1/10")


@pytest.mark.parametrize(
    "code", ["os._exit(3)", "os.kill(os.getpid(), 9)", "print('[]')", "print('{\"x\": 1}')", "pass"]
)
def test_a_process_that_ends_without_an_answer_has_failed(start, code):
    found = start(code)(QUESTION)
    assert (found.state, found.row) == ("failed", "interrupted")


def test_what_stopped_the_process_is_raised_with_its_class_and_row(start):
    told = {"error": SECRET, "class": "AwaitsApproval", "row": "waits-for-approval"}
    assert start(f"print(json.dumps({told}))")(QUESTION) == Outcome("awaiting approval")


def test_an_answer_that_takes_too_long_is_interrupted_and_has_failed(start):
    code = "try: time.sleep(600)\nexcept KeyboardInterrupt: print(json.dumps({'interrupted': ''}))"
    assert start(code, 2.0)(QUESTION) == Outcome("failed", EARLY)


def test_ending_interrupts_the_answer_and_starts_no_other(start, tmp_path):
    begun = tmp_path / "begun"
    code = (
        f"try: open({str(begun)!r}, 'w').close(); time.sleep(600)\n"
        "except KeyboardInterrupt: print(json.dumps({'interrupted': ''}))"
    )
    found = start(code)
    outcomes = []
    thread = threading.Thread(target=lambda: outcomes.append(found(QUESTION)))
    thread.start()
    while not begun.exists():
        thread.join(0.05)
    found.end()
    thread.join()
    assert outcomes == [Outcome("interrupted")]
    assert found(QUESTION) == Outcome("interrupted")


def test_the_process_keeps_the_lock_of_the_queue_if_the_service_is_killed(start, home):
    lock = str(home / FOLDER / "queue.lock")
    place = "/proc/self/fd"
    code = f"files = [os.path.realpath(f'{place}/{{one}}') for one in os.listdir({place!r})]"
    assert start(f"{code}; assert {lock!r} in files; {ANSWER}")(QUESTION).state == "answered"


def test_an_answer_waits_for_the_one_of_a_killed_service(start, home):
    (home / FOLDER).mkdir(parents=True)
    found, outcomes = start(), []
    with (home / FOLDER / "queue.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        thread = threading.Thread(target=lambda: outcomes.append(found(QUESTION)))
        thread.start()
        thread.join(0.5)
        assert outcomes == []
    thread.join()
    assert outcomes == [Outcome("answered", cost="1/10")]


def test_nothing_that_the_process_prints_on_standard_error_is_kept(start, capfd):
    assert start(f"print({SECRET!r}, file=sys.stderr); {ANSWER}")(QUESTION).state == "answered"
    assert capfd.readouterr().err == ""


# -- by Prefect's deployment


@pytest.fixture
def handed(monkeypatch, start):
    """What was handed to Prefect; `ends` is the state in which the runs end."""
    found = SimpleNamespace(runs=[], ends=Completed(), answerer=start(deployment=True))

    async def run(name, **options):
        found.runs.append((name, options))
        if isinstance(found.ends, Exception):
            raise found.ends
        return SimpleNamespace(id=1, state=Running())

    class Client:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            return False

        def read_flow_run(self, _id):
            return SimpleNamespace(id=1, state=found.ends)

    monkeypatch.setattr(prefect.deployments, "arun_deployment", run)
    monkeypatch.setattr("prefect.client.orchestration.get_client", lambda **_: Client())
    monkeypatch.setattr(answerer, "prepare", lambda home: home)
    monkeypatch.setattr(answerer, "POLL_S", 0.001)
    return found


def test_a_question_is_handed_over_once_for_each_attempt(handed, home):
    records = ServiceRecords(home)
    for outcome in ("awaiting approval", "failed", "refused"):
        assert handed.answerer(QUESTION).state == "answered"
        records.keep_outcome("rand", 7, Outcome(outcome))
        # Asked again, it is a further attempt, and none that Prefect knows.
        records.forget_outcome("rand", 7)
    handed.answerer(QUESTION)
    assert {name for name, _ in handed.runs} == {DEPLOYMENT}
    keys = [each["idempotency_key"] for _, each in handed.runs]
    assert keys == [f"rand-question-7-{attempt}" for attempt in (0, 0, 1, 2)]
    assert handed.runs[0][1]["parameters"] == {"account": "rand", "number": 7}


@pytest.mark.parametrize("ends", [Crashed(), RuntimeError(SECRET)])
def test_a_run_that_does_not_end_well_has_failed(handed, ends):
    handed.ends = ends
    found = handed.answerer(QUESTION)
    assert found.state == "failed"
    assert SECRET not in found.reason


def test_a_run_whose_plan_awaits_approval_is_no_failure(handed):
    assert TITLES["waiting"] == AWAITING_APPROVAL
    handed.ends = Completed(name=AWAITING_APPROVAL)
    assert handed.answerer(QUESTION) == Outcome("awaiting approval")


def test_a_run_that_does_not_end_is_given_up_with_the_service(handed):
    handed.ends = Running()
    outcomes = []
    thread = threading.Thread(target=lambda: outcomes.append(handed.answerer(QUESTION)))
    thread.start()
    while not handed.runs:
        thread.join(0.01)
    handed.answerer.end()
    thread.join()
    assert outcomes == [Outcome("interrupted")]


def test_there_is_a_deployment_of_that_name():
    deployments = yaml.safe_load((ROOT / "deployments" / "prefect.yaml").read_text())["deployments"]
    names = {each["entrypoint"]: each["name"] for each in deployments}
    assert f"{FLOW}/{names['flows.answer.answer']}" == DEPLOYMENT
