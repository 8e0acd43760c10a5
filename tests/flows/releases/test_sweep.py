"""What goes on by itself, and what is left alone; Prefect's server is a few lines here."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from uuid import UUID, uuid4

import pytest
from prefect.client.schemas.objects import StateType
from prefect.exceptions import ObjectNotFound, Pause

from flows import sweep as sweep_module
from flows.monitoring.prefect_runs import home_tag
from flows.releases import run_records
from flows.releases.run_records import SUSPENDED, RunRecords
from flows.sweep import Rules, Sweep, only_one

RELEASES, OTHERS = uuid4(), uuid4()


class Server:
    """Runs and their states, as much of Prefect as a sweep asks for."""

    def __init__(self):
        self.found = {}
        self.tasks = []

    def add_task(self, run, kind, *, age=1000):
        """Add a task run of a flow run."""
        task = SimpleNamespace(id=uuid4(), run=run, states=[])
        self.tasks.append(task)
        self._set(task, StateType[kind], age)
        return task

    def add(self, kind, *, flow=RELEASES, age=1000, tags=()):
        run = SimpleNamespace(id=uuid4(), name="run", flow_id=flow, states=[], tags=tags)
        self.found[run.id] = run
        self._set(run, StateType[kind], age)
        return run

    def _set(self, run, kind, age=0):
        then = datetime.now(UTC) - timedelta(seconds=age)
        run.state = SimpleNamespace(type=kind, timestamp=then)
        run.states.append(kind.name)

    def read_flow_run(self, identifier):
        assert isinstance(identifier, UUID)
        if identifier not in self.found:
            raise ObjectNotFound(Exception())
        return self.found[identifier]

    def read_flow_runs(self, flow_run_filter, **_asked):
        kinds = flow_run_filter.state.type.any_
        return [run for run in self.found.values() if run.state.type in kinds]

    def read_task_runs(self, flow_run_filter, task_run_filter, limit):
        ids = flow_run_filter.id and flow_run_filter.id.any_
        kinds = flow_run_filter.state and flow_run_filter.state.type.any_
        tags = set() if flow_run_filter.tags is None else set(flow_run_filter.tags.all_)
        return [
            task
            for task in self.tasks
            if (ids is None or task.run.id in ids)
            and tags <= set(task.run.tags)
            and (kinds is None or task.run.state.type in kinds)
            and task.state.type in task_run_filter.state.type.any_
        ][:limit]

    def set_task_run_state(self, identifier, state, force):
        assert force
        (task,) = [task for task in self.tasks if task.id == identifier]
        self._set(task, state.type)

    def read_flows(self, **_asked):
        return [SimpleNamespace(id=RELEASES)]

    def set_flow_run_state(self, identifier, state):
        self._set(self.found[identifier], state.type)
        self.found[identifier].title = state.name


class Field:
    """A home, a server, and the rules."""

    def __init__(self, home):
        self.home, self.server, self.records = home, Server(), RunRecords(home)
        self.rules = Rules(patience=300, first_wait=60, most_failures=3)

    def begun(self, kind, *, flow="scheduled-release", age=1000, **known):
        """A run that began here, and how Prefect shows it."""
        run = self.server.add(kind, flow=RELEASES if flow == "scheduled-release" else OTHERS)
        began = (datetime.now(UTC) - timedelta(seconds=age)).isoformat()
        noted = replace(self.records.begin(str(run.id), flow), began=began, **known)
        self.records.note(noted)
        return run

    def sweep(self):
        swept = Sweep(self.server, self.records, self.rules, own="own")
        swept.all()
        return swept


@pytest.fixture
def field(home):
    return Field(home)


@pytest.fixture
def dead(monkeypatch):
    """Every process that is noted is gone."""
    monkeypatch.setattr(run_records, "is_gone", lambda _holder: True)


@pytest.mark.usefixtures("dead")
@pytest.mark.parametrize("kind", ["RUNNING", "PENDING"])
def test_a_killed_run_is_said_to_be_dead_and_goes_on(field, kind):
    run = field.begun(kind, release="town-1", age=1)
    assert field.sweep().given_back == ["town-1"]
    # Crashed comes first, so that the run no longer counts towards the concurrency limit.
    assert run.states == [kind, "CRASHED", "SCHEDULED"]
    assert run.title == "AwaitingRetry"
    assert field.sweep().given_back == []


@pytest.mark.parametrize("code", [None, 4])
@pytest.mark.usefixtures("dead")
def test_a_run_that_was_taken_up_again_and_is_slow_to_begin_is_left_alone(field, code):
    run = field.begun("PENDING", ended=code, failures=1, age=250)
    field.server._set(run, StateType.PENDING, age=200)
    field.sweep()
    assert run.states == ["PENDING", "PENDING"]
    # Until it shows no life for too long.
    field.server._set(run, StateType.PENDING, age=301)
    field.records.note(
        replace(
            field.records.find(str(run.id)),
            began=(datetime.now(UTC) - timedelta(seconds=400)).isoformat(),
        )
    )
    field.sweep()
    assert run.states[-2:] == ["CRASHED", "SCHEDULED"]


def test_a_run_whose_process_lives_is_left_alone(field):
    run = field.begun("RUNNING", age=100_000)
    field.sweep()
    assert run.states == ["RUNNING"]


def test_a_process_on_another_machine_shows_life_by_its_lease(field, monkeypatch):
    holder = replace(field.records.begin("other", "x").holder, host="elsewhere")
    field.records.forget(field.records.find("other"))
    early = field.begun("RUNNING", age=200, holder=holder, release="early")
    late = field.begun("RUNNING", age=400, holder=holder, release="late")
    held = field.begun("RUNNING", age=400, holder=holder, release="held")
    ledger = SimpleNamespace(holder=lambda release: release == "held")
    monkeypatch.setattr(sweep_module, "ledger_exists", lambda _home: True)
    monkeypatch.setattr(sweep_module, "open_ledger", lambda _home: ledger)
    assert field.sweep().given_back == ["late"]
    assert early.states == held.states == ["RUNNING"]
    assert late.states[-1] == "SCHEDULED"


@pytest.mark.parametrize(
    ("code", "number", "age", "goes_on"),
    [
        (4, 1, 59, False),
        (4, 1, 61, True),
        (4, 2, 61, False),
        (4, 2, 121, True),
        (1, 1, 61, True),
        (130, 0, 1, True),
        (130, 9, 1, True),
        # Tried often enough.
        (4, 3, 100_000, False),
        # Refused by input, budget or ledger; held; done: nothing passes by itself.
        (2, 1, 100_000, False),
        (3, 1, 100_000, False),
        (5, 1, 100_000, False),
        (0, 1, 100_000, False),
    ],
)
def test_a_failure_goes_on_after_a_while_if_it_may_pass(field, code, number, age, goes_on):
    # Killed often before, which does not count.
    run = field.begun(
        "FAILED", ended=code, number=number + 5, failures=number, age=age, release="town-1"
    )
    swept = field.sweep()
    assert (run.state.type.name == "SCHEDULED") is goes_on
    assert swept.left == (["town-1"] if number == 3 else [])
    assert ("town-1 failed 3 times and need a person" in swept.sentence) is (number == 3)


@pytest.mark.runbook("tried-too-often")
def test_a_release_that_failed_too_often_is_left_to_a_person(field, says):
    field.begun("FAILED", ended=4, number=3, failures=3, age=100_000, release="town-1")
    says(field.sweep().sentence)


@pytest.mark.usefixtures("dead")
@pytest.mark.parametrize("kind", ["CANCELLED", "CANCELLING", "SCHEDULED", "PAUSED", "COMPLETED"])
def test_what_a_person_or_prefect_decided_stays(field, kind):
    run = field.begun(kind)
    field.sweep()
    assert run.states == [kind]


@pytest.mark.usefixtures("dead")
@pytest.mark.parametrize(
    ("kind", "goes_on"),
    [("PAUSED", False), ("FAILED", False), ("PENDING", True), ("RUNNING", True), ("CRASHED", True)],
)
def test_a_suspended_run_goes_on_only_if_a_person_continued_it(field, kind, goes_on):
    """Prefect sets it to FAILED after the timeout; a worker takes it up after Resume or Retry."""
    run = field.begun(kind, ended=SUSPENDED, age=100_000)
    field.sweep()
    assert (run.state.type.name == "SCHEDULED") is goes_on
    assert field.records.find(str(run.id)) is not None


def test_a_run_that_a_person_suspends_is_recorded_as_such(field):
    with pytest.raises(Pause), field.records.going_on("one", "scheduled-release"):
        raise Pause
    record = field.records.find("one")
    assert (record.ended, record.failures) == (SUSPENDED, 0)


@pytest.mark.parametrize("approved", [False, True])
def test_a_run_that_waits_for_an_approval_goes_on_once_it_is_there(field, monkeypatch, approved):
    run = field.begun("COMPLETED", ended=0, waits=True, release="town-1")
    monkeypatch.setattr(sweep_module, "ledger_exists", lambda _home: True)
    monkeypatch.setattr(sweep_module, "open_ledger", lambda _home: object())
    monkeypatch.setattr(sweep_module, "_is_approved", lambda *_asked: approved)
    field.sweep()
    assert (run.state.type.name == "SCHEDULED") is approved


def test_runs_that_never_began_go_on_after_a_while(field):
    early = field.server.add("PENDING", age=200)
    late = field.server.add("PENDING", age=400)
    crashed = field.server.add("CRASHED", age=400)
    failed = field.server.add("FAILED", age=400)
    upkeep = field.server.add("PENDING", flow=OTHERS, age=400)
    field.sweep()
    assert early.states == ["PENDING"]
    assert late.states == ["PENDING", "CRASHED", "SCHEDULED"]
    assert crashed.states == ["CRASHED", "SCHEDULED"]
    # Before its first line: its code or its parameters are wrong, which does not pass.
    assert failed.states == ["FAILED"]
    # Its next run does the same; but its place in the limit is given back.
    assert upkeep.states == ["PENDING", "CRASHED"]


@pytest.mark.usefixtures("dead")
def test_a_dead_run_of_the_upkeep_ends_and_does_not_go_on(field):
    run = field.begun("RUNNING", flow="verify-ledger")
    field.sweep()
    assert run.states == ["RUNNING", "CRASHED"]
    assert field.records.find(str(run.id)) is None


@pytest.mark.usefixtures("dead")
def test_a_run_that_prefect_forgot_is_forgotten(field):
    run = field.begun("RUNNING")
    del field.server.found[run.id]
    field.sweep()
    assert field.records.all() == []


def test_one_sweep_at_a_time(home):
    with only_one(home) as first, only_one(home) as second:
        assert (first, second) == (True, False)
    with only_one(home) as again:
        assert again


@pytest.mark.usefixtures("dead")
@pytest.mark.parametrize("kind", ["RUNNING", "FAILED", "CRASHED"])
def test_no_task_of_a_killed_run_stays_running(field, kind):
    run = field.begun(kind, release="town-1", age=1)
    left = field.server.add_task(run, "RUNNING", age=1)
    done = field.server.add_task(run, "COMPLETED", age=1)
    other = field.server.add_task(field.server.add("RUNNING", age=1), "RUNNING", age=1)
    assert field.sweep().given_back == ["town-1"]
    assert left.states == ["RUNNING", "CRASHED"]
    assert done.states == ["COMPLETED"]
    assert other.states == ["RUNNING"]


@pytest.mark.parametrize(("kind", "ends"), [("COMPLETED", "COMPLETED"), ("CANCELLED", "CRASHED")])
def test_a_task_whose_end_was_lost_with_the_server_is_ended_after_its_run(field, kind, ends):
    run = field.server.add(kind, tags=["release:town-1", home_tag()])
    lost = field.server.add_task(run, "RUNNING", age=1000)
    late = field.server.add_task(run, "RUNNING", age=10)
    # Another home's, and another team's.
    others = [field.server.add(kind, tags=tags) for tags in (["home:another"], ["etl"])]
    foreign = [field.server.add_task(each, "RUNNING", age=1000) for each in others]
    field.sweep()
    assert lost.states == ["RUNNING", ends]
    assert [task.states for task in foreign] == [["RUNNING"]] * 2
    # Its end may still be on its way.
    assert late.states == ["RUNNING"]
