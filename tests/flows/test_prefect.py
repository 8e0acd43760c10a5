"""The flow under Prefect's own engine: what it shows and keeps, and that nothing leaves."""

import base64
import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from dp_core.bundle.verification.verify import verify
from tests.flows.conftest import COLUMNS, as_csv, make_project, survey

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
from tasks.validation import expectations
class Suite:  # Great Expectations takes seconds to import, and our own counts stop a file as well
    rules = ()
    def __init__(self, schema): ...
    def judge(self, profiles): return set()
expectations.Suite = Suite

attempt = stage_task._attempt
def failing(name, work, run):
    def broken(run):
        raise ValueError("{canary}")
    return attempt(name, broken if name == {fails!r} and not ended else work, run)
stage_task._attempt = failing

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


@pytest.mark.slow
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
    assert verify(project.out).passed
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


@pytest.mark.slow
def test_the_flow_runs_in_the_test_harness(tmp_path, monkeypatch, with_prefects_tables):
    from prefect.testing import utilities

    from flows.release import release

    monkeypatch.setenv("DP_RELEASE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))
    project = make_project(tmp_path / "work", tmp_path / "home")
    # Where the harness makes a database for this test.
    tables = with_prefects_tables(Path(tempfile.mkdtemp()), "prefect-test.db")
    monkeypatch.setattr(utilities, "mkdtemp", lambda: str(tables))
    with utilities.prefect_test_harness(server_startup_timeout=120):
        release(spec=str(project.spec), out=str(project.out))
    assert verify(project.out).passed
