"""The flow under Prefect's own engine: what it shows and keeps, and that nothing leaves."""

import base64
import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from uuid import UUID

import pytest

from dp_core.bundle.verification.verify import verify
from tests.flows.conftest import COLUMNS, as_csv, make_project, survey
from tests.full import some
from tests.raising import raising

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
CANARY = "zqxcanary"

# The command line as a person runs it, with one stage that fails with a value of the file.
SCRIPT = """
import socket, sys
connect = socket.socket.connect
def local_only(self, address):
    if self.family != socket.AF_UNIX and address[0] not in ("127.0.0.1", "::1", "localhost"):
        print("CALLED OUT", address, file=sys.stderr)
        raise OSError("no network here")
    return connect(self, address)
socket.socket.connect = local_only

import os
from pathlib import Path
from flows.engine.settings import prepare
prepare(Path(os.environ["DP_RELEASE_HOME"]))  # as the command does, before Prefect is imported

from tasks.stages import stage_task
from tests.plain_judge import install
install()

attempt = stage_task.attempt
def failing(name, work, run):
    def broken():
        raise ValueError("{canary}")
    return attempt(name, broken if name == {fails!r} and not ended else work, run)
stage_task.attempt = failing

# Both commands in one process: to import Prefect and to start its server takes most of the time.
import json
from flows.cli.main import main
ended = []
for words in json.loads(sys.argv.pop(1)):
    sys.argv[1:] = words
    try:
        main()
    except SystemExit as end:
        ended.append(end.code)
        if "scipy.linalg._basic" in sys.modules:
            print("LOADED scipy.linalg", file=sys.stderr)
        print("ENDED", end.code, file=sys.stderr, flush=True)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory, with_prefects_tables):
    place = tmp_path_factory.mktemp("engine")
    with_prefects_tables(place / "home" / "prefect")
    return place


def run(place, *commands, fails=""):
    """Run commands, of which the first fails; return the exit code and the errors of each."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PREFECT_", "DP_RELEASE_", "DO_NOT_TRACK", "GX_"))
    }
    environment |= {
        "DP_RELEASE_HOME": str(place / "home"),
        "DP_RELEASE_STATE": str(place / "state"),
        "HOME": str(place / "person"),
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": "ignore",
    }
    script = SCRIPT.format(canary=CANARY, fails=fails)
    words = json.dumps([[str(word) for word in command] for command in commands])
    done = subprocess.run(
        [sys.executable, "-c", script, words],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert CANARY not in done.stdout + done.stderr
    parts = re.split(r"^ENDED (.*)\n", done.stderr, flags=re.MULTILINE)
    assert parts.pop() == ""
    return list(zip(parts[1::2], parts[::2], strict=True))


def holding(folder, word):
    return [
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and word in path.read_bytes()
    ]


GRAPH = """\
ledger: reserve
identify <- ledger: reserve
validate <- identify
discretize <- validate
count <- discretize
basics <- count
ledger: grant select <- basics
select <- basics, ledger: grant select
ledger: grant measure <- select
measure <- ledger: grant measure, select
reconstruct <- measure
synthesize <- reconstruct
ledger: grant check <- synthesize
check <- ledger: grant check, synthesize
ledger: settle <- check
publish <- ledger: settle
"""
"""The tasks of a release that goes on from the stage `select`, and what each waits for. A stage
that is done needs no grant."""


def assert_graph(database, spec):
    """Prefect has the second run's tasks with their edges, states, tags and log."""
    with sqlite3.connect(database) as connection:
        run, tags = connection.execute(
            "SELECT id, tags FROM flow_run WHERE name = ? ORDER BY created DESC",
            [f"release {spec}"],
        ).fetchone()
        rows = connection.execute(
            "SELECT id, name, task_inputs, tags, state_type FROM task_run WHERE flow_run_id = ?"
            " ORDER BY start_time",
            [run],
        ).fetchall()
        lines = connection.execute(
            "SELECT message FROM log WHERE flow_run_id = ? ORDER BY timestamp", [run]
        ).fetchall()
        on_tasks = connection.execute(
            "SELECT task_run.name, message FROM log JOIN task_run ON task_run.id = task_run_id"
            " WHERE log.flow_run_id = ?",
            [run],
        ).fetchall()
    names = {identifier: name for identifier, name, *_ in rows}
    drawn = []
    for _, name, inputs, tagged, state in rows:
        assert json.loads(tagged) == []  # Prefect would ask for a slot for each
        assert state == "COMPLETED", name
        of = sorted({names[each["id"]] for given in json.loads(inputs).values() for each in given})
        drawn.append(f"{name} <- {', '.join(of)}" if of else name)
    assert drawn == GRAPH.splitlines()
    made = {tag.partition(":")[0]: tag for tag in json.loads(tags)}
    assert made.keys() == {"release", "account", "method", "home"}
    assert (made["release"], made["account"]) == ("release:town", "account:town")
    said = [line for (line,) in lines]
    assert len(said) >= 20
    assert any(line.startswith("Release town: method auto, epsilon 1") for line in said)
    assert "Stage count of release town is done." not in said  # it was done before
    assert any(line.startswith("Stage measure may count records and charge ") for line in said)
    assert sum(line.startswith("Charged ") for line in said) >= 2
    assert any(line.startswith("Done by an earlier run: validate, discr") for line in said)
    # The page of each task of the ledger says what that task did.
    for task, start in (
        ("ledger: reserve", "Release town: "),
        ("ledger: grant measure", "Stage measure may count records and charge "),
        ("ledger: settle", "Release town is settled: it charged "),
    ):
        assert any(name == task and line.startswith(start) for name, line in on_tasks), task
    assert "Release 'town' is published." in said


def test_a_failed_stage_and_its_resumption_leave_public_values_only(place, monkeypatch):
    monkeypatch.setenv("DP_RELEASE_HOME", str(place / "home"))
    project = make_project(place / "work", place / "home")
    rows = survey()
    rows[7][0] = CANARY
    assert COLUMNS[0] == "interview"
    (project.folder / "town.csv").write_text(as_csv(rows))

    commands = ["run", project.spec, "--out", project.out], ["resume", "town"]
    failed, done = run(place, *commands, fails="select")
    assert failed[0] == "4", failed
    assert "Traceback" not in failed[1]
    assert failed[1].splitlines()[-1].startswith("dp-release: Stage 'select' of release 'town'")
    assert done[0] in ("0", "None"), done
    assert "CALLED OUT" not in failed[1] + done[1]
    assert "LOADED" not in done[1]
    assert project.faults() == {}
    assert project.ledger().account("town").balance.spent.main == 1

    # The value is in the data, and in the folder for staff; nowhere else, in no table of Prefect.
    internal = (project.run_folder / "internal").resolve().relative_to(place)
    assert sorted(holding(place, CANARY.encode())) == [
        f"{internal}/failure.txt",
        "work/town.csv",
    ]
    assert not (place / "person").exists()
    database = place / "home" / "prefect" / "prefect.db"
    assert database.is_file()
    with sqlite3.connect(database) as connection:
        runs = connection.execute(
            "SELECT name, state_type FROM flow_run ORDER BY created"
        ).fetchall()
        tasks = connection.execute("SELECT DISTINCT name FROM task_run").fetchall()
        artifacts = connection.execute(
            "SELECT key, data FROM artifact WHERE key IS NOT NULL ORDER BY created"
        ).fetchall()
        events = connection.execute(
            "SELECT event, payload FROM events WHERE event LIKE 'dp-release.%' ORDER BY occurred"
        ).fetchall()
    assert [state for _, state in runs] == ["FAILED", "COMPLETED"]
    assert {"validate", "select", "publish"} <= {name for (name,) in tasks}
    assert_graph(database, project.spec.name)
    # Of each run: how far it is, its stages with what they may spend, the account, how it ended.
    shown = ["release-progress", "release-stages", "account-budget"]
    ended = ["release-accuracy", "release-outcome", "release-bundle"]
    assert [key for key, _ in artifacts] == [*shown, "release-outcome", *shown, *ended]
    first, second = (data for key, data in artifacts if key == "release-stages")
    assert '"stage": "select", "state": "failed"' in first.replace("\\", "")
    assert second.count("done") == 10
    assert "at work" not in second
    assert [data for key, data in artifacts if key == "release-progress"][1] == 100
    assert "stage-failed" in artifacts[3][1]
    assert "spent 50 %, reserved 0 %" in [d for key, d in artifacts if key == "account-budget"][1]
    assert [event.rpartition(".")[2] for event, _ in events] == ["failed", "resumed", "published"]
    assert '"runbook": "stage-failed"' in events[0][1]
    # What is raised is pickled, whatever the settings say: it must be our sentence, without data.
    stored = [path for path in (place / "home/prefect/storage").rglob("*") if path.is_file()]
    for path in stored:
        pickled = base64.b64decode(path.read_bytes())
        assert b"StageFailed" in pickled
        assert CANARY.encode() not in pickled
    assert len(stored) <= 1


@pytest.fixture(scope="module")
def harness(tmp_path_factory, with_prefects_tables):
    """Prefect's own server for tests, with empty tables."""
    from prefect.testing import utilities

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PREFECT_HOME", str(tmp_path_factory.mktemp("prefect")))
        # Where the harness makes a database for this test.
        tables = with_prefects_tables(Path(tempfile.mkdtemp()), "prefect-test.db")
        patch.setattr(utilities, "mkdtemp", lambda: str(tables))
        with utilities.prefect_test_harness(server_startup_timeout=120):
            yield


@pytest.fixture
def town(harness, tmp_path, monkeypatch):  # noqa: ARG001
    monkeypatch.setenv("DP_RELEASE_HOME", str(tmp_path / "home"))
    return make_project(tmp_path / "work", tmp_path / "home")


def by_prefect(project):
    """Make the release as a flow of Prefect; return the state of its run."""
    return release_by_prefect(project.spec, project.out)


def release_by_prefect(spec, out):
    from flows.release import release

    return release(spec=str(spec), out=str(out), return_state=True)


def runs_of(state):
    """Return the run with this state, and its tasks by name, once the server has all of them."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowRunFilter

    run = state.state_details.flow_run_id
    mine = FlowRunFilter.model_validate({"id": {"any_": [run]}})
    with get_client(sync_client=True) as client:
        until = time.monotonic() + 30
        while True:
            tasks = client.read_task_runs(flow_run_filter=mine)
            # Task runs reach the server as events, after their flow has ended.
            if all(task.state and task.state.is_final() for task in tasks) or (
                time.monotonic() > until
            ):
                return client.read_flow_run(run), {task.name: task for task in tasks}
            time.sleep(0.1)


@pytest.mark.full
def test_the_flow_runs_in_the_test_harness(town, monkeypatch):
    from prefect.runtime import deployment

    monkeypatch.setattr(
        deployment,
        "_get_flow_run",
        raising(AssertionError("a new client for each task only to learn what the process knows")),
    )
    state = by_prefect(town)
    assert state.is_completed()
    assert verify(town.out).passed

    # Another release from its tables: the graph says whose they are, and asks for no grant.
    town.spec.write_text(
        "version: 1\nrelease: again\nschema: town.schema.yaml\naccount: town\nmeasurements: town\n"
    )
    state = release_by_prefect(town.spec, town.folder / "again")
    assert state.is_completed()
    assert verify(town.folder / "again", measurements=town.out).passed
    _, tasks = runs_of(state)
    assert set(tasks) == {
        *("ledger: reserve", "reuse tables of town", "reconstruct", "synthesize", "check"),
        *("ledger: settle", "publish"),
    }
    after = {
        name: {each.id for given in task.task_inputs.values() for each in given}
        for name, task in tasks.items()
    }
    assert after["reconstruct"] == {tasks["reuse tables of town"].id}


@pytest.mark.parametrize("deployed", [False, True])
def test_a_run_knows_whether_a_deployment_made_it(deployed, monkeypatch):
    from types import SimpleNamespace

    from flows.monitoring import prefect_runs

    assert not prefect_runs.is_deployed()  # outside a flow run
    run = SimpleNamespace(deployment_id=UUID(int=1) if deployed else None)
    context = SimpleNamespace(get=lambda: SimpleNamespace(flow_run=run))
    monkeypatch.setattr(prefect_runs, "FlowRunContext", context)
    assert prefect_runs.is_deployed() is deployed


def test_a_refusal_of_the_ledger_is_a_failed_task_of_the_ledger(town):
    town.write_spec(privacy="{epsilon: 100, delta: 1e-6}")
    state = by_prefect(town)
    run, tasks = runs_of(state)
    assert run.state.is_failed()
    assert [*tasks] == ["ledger: reserve"]
    assert tasks["ledger: reserve"].state.is_failed()
    assert "epsilon" in tasks["ledger: reserve"].state.message
    assert town.kinds() == ["ledger", "open"]


def test_no_run_of_a_dead_attempt_stays_running(town):
    """The next attempt, which has the lease, ends what a killed process left in Prefect."""
    from prefect import flow, task
    from prefect.client.orchestration import get_client
    from prefect.states import Running

    from dp_core.plan.plan import make_plan
    from dp_core.plan.reading.spec_file import load_spec
    from flows.monitoring.prefect_runs import tags_of

    def fails(task, *given):
        if task.name == "count":
            raise KeyboardInterrupt
        return task.fn(*given)

    with pytest.raises(KeyboardInterrupt):
        town.release(perform=fails)

    @task
    def left():
        pass

    @flow
    def killed():
        return left(return_state=True)

    state = killed()
    with get_client(sync_client=True) as client:
        mine = [*tags_of(make_plan(load_spec(town.spec)).spec)]
        other = client.create_flow_run(killed, tags=mine, state=Running())
        alone = client.create_task_run(left, other.id, "0", state=Running())
        client.set_task_run_state(alone.id, Running(), force=True)
        # Another home has a release of this name.
        stranger = client.create_flow_run(
            killed, tags=["release:town", "home:another"], state=Running()
        )
        assert by_prefect(town).is_completed()
        assert client.read_flow_run(other.id).state.is_crashed()
        assert client.read_task_run(alone.id).state.is_crashed()
        assert client.read_flow_run(stranger.id).state.is_running()
    assert state.is_completed()
    assert verify(town.out).passed


@pytest.mark.parametrize("pause", some([True, False], lambda pause: not pause))
def test_a_run_that_is_stopped_in_the_pages_stops_before_its_next_task_and_goes_on(
    town, monkeypatch, pause
):
    """The button is pressed while a stage is at work, as the pages do through Prefect's API."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import ArtifactFilter
    from prefect.exceptions import Abort
    from prefect.exceptions import Pause as Paused
    from prefect.runtime import flow_run
    from prefect.states import Cancelling, Suspended

    from flows import release as module
    from tasks.stages import stage_task

    attempt, pressed = stage_task.attempt, []

    def press(name, work, run):
        if name == "count" and not pressed:
            asked = Suspended(timeout_seconds=300) if pause else Cancelling()
            with get_client(sync_client=True) as client:
                client.set_flow_run_state(UUID(flow_run.id), asked, force=True)
            pressed.append(flow_run.id)
        return attempt(name, work, run)

    monkeypatch.setattr(stage_task, "attempt", press)
    monkeypatch.setenv("PREFECT_API_URL", "a server with pages")
    with pytest.raises(Paused if pause else Abort):
        module.release(spec=str(town.spec), out=str(town.out))
    with get_client(sync_client=True) as client:
        state = client.read_flow_run(UUID(pressed[0])).state
        mine = ArtifactFilter.model_validate(
            {"flow_run_id": {"any_": pressed}, "key": {"any_": ["release-stages"]}}
        )
        (shown,) = client.read_artifacts(artifact_filter=mine)
    assert state.is_paused() if pause else state.is_cancelled()
    # No stage is shown at work.
    states = {row["stage"]: row["state"] for row in json.loads(shown.data)}
    assert (states["count"], set(states.values())) == ("done", {"done", "open"})
    # The lease is free, the stage that was at work is done, and the next has not begun.
    assert town.ledger().holder("town") is None
    assert "charge" not in town.kinds()
    assert not (town.run_folder / "public/noisy").exists()
    assert by_prefect(town).is_completed()
    assert verify(town.out).passed
