"""A release whose data another process reads: killed on either side at any message, it goes on."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from dp_core.errors import SchemaViolation, StageFailed
from tasks.confidential import connection, process
from tasks.confidential.connection import Connection, connect
from tasks.ledger.release_writer import ReleaseWriter
from tests.databases import VARIABLE, sqlite_database
from tests.flows.conftest import assert_charged_once, plainly, survey
from tests.flows.test_database_release import TABLE, fill
from tests.full import some
from tests.new_python import new_python

MESSAGES = 18
"""Messages of the project's release, more or less: what it asks for depends on noise."""
ROOT = Path(__file__).parents[2]


class Watched(Connection):
    """A connection that kills its process before, or after, a numbered message."""

    def __init__(self, started, at=None, *, after=False):
        self.started = started
        super().__init__(started)
        self.messages, self._at, self._after = [], at, after

    def exchange(self, message, blocks, notice):
        with contextlib.suppress(FileNotFoundError):  # it has ended
            self.state = Path(f"/proc/{self.started.number}/status").read_text()
        number = len(self.messages)
        self.messages.append((message["type"], message.get("stage")))
        if number == self._at and not self._after:
            self._kill()
        found = super().exchange(message, blocks, notice)
        if number == self._at:
            self._kill()
        return found

    def _kill(self):
        os.kill(self.started.number, signal.SIGKILL)


@pytest.fixture
def watched(monkeypatch):
    """Return a function that lets the next release use a connection, and returns those used."""
    used = []
    # A fork would have what a test patches.
    monkeypatch.setattr(process, "can_fork", lambda: False)

    def use(**how):
        def watching(started):
            used.append(Watched(started, **how))
            return used[-1]

        monkeypatch.setattr(connection, "Connection", watching)
        monkeypatch.setattr(connection, "connect", connect)
        return used

    return use


def test_this_process_holds_no_row_and_no_exact_count(project, watched, monkeypatch):
    used = watched()
    for name in ("dp_core.confidential.source.Source", "tasks.counting.dask_counter.DaskCounter"):
        monkeypatch.setattr(f"{name}.__init__", None)
    run = project.release()
    assert project.faults() == {}
    assert_charged_once(project)
    assert not {"counter", "kernel", "judge"} & {*dir(run)}
    assert type(run.writer) is ReleaseWriter
    assert re.search(r"NoNewPrivs:\s+1\n", used[0].state)
    assert re.search(r"Seccomp:\s+2\n", used[0].state)
    assert abs(len(used[0].messages) - MESSAGES) <= 3
    types = {kind for kind, _ in used[0].messages}
    assert types == {"open", "work", "grant", "ask", "rows", "find"}


@pytest.mark.usefixtures("quick")
def test_a_database_opens_the_network_and_nothing_else(project, watched, tmp_path, monkeypatch):
    used = watched()
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    database = sqlite_database(folder)
    database.run("PRAGMA journal_mode = WAL")  # its readers write beside the file
    fill(database, survey())
    monkeypatch.setenv(VARIABLE, database.url)
    project.write_spec(data=TABLE)
    project.release()
    assert project.faults() == {}
    assert re.search(r"Seccomp:\s+2\n", used[0].state)


def test_it_ends_with_its_release(project, watched):
    used = watched()
    project.release()
    with pytest.raises(StageFailed, match="was ended"):
        used[0].exchange({"type": "readable"}, {}, print)
    assert not psutil.pid_exists(used[0].started.number)


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", some(list(range(MESSAGES)), lambda at: at % 6 == 1))
def test_killed_at_any_message_it_goes_on_and_pays_once(project, watched, at, after):
    used = watched(at=at, after=after)
    failed = None
    try:
        project.release()
    except StageFailed as error:
        failed = error.message
    if failed is None:  # nothing misses a process that has answered its last message
        assert len(used[0].messages) <= at + after
    else:
        assert "reads the data ended by signal 9" in failed
        watched()
        project.release()
    assert project.faults() == {}
    assert_charged_once(project)


DYING = """
import sys
sys.exit("salary-of-row-4711")
"""
CLIENT = """
import sys
from pathlib import Path
from flows.release import carry_out
carry_out(Path(sys.argv[1]), Path(sys.argv[2]), perform=lambda task, *given: task.fn(*given))
"""


def test_the_code_that_judges_and_pays_is_not_even_loaded_in_the_client(project):
    script = CLIENT + "print('loaded:', *sys.modules)"
    home = str(project.home)
    told = new_python(script, project.spec, project.out, DP_RELEASE_HOME=home).stdout
    loaded = told.rpartition("loaded: ")[2].split()
    assert "tasks.confidential.client" in loaded
    assert "tasks.validation.judged_sets" in loaded  # sets are public
    forbidden = (
        *("tasks.ledger.charging", "tasks.confidential.host", "tasks.inputs"),
        "tasks.validation.expectations",
    )
    assert [name for name in loaded if name.startswith(forbidden)] == []
    assert_charged_once(project)


def test_what_a_dying_process_says_is_in_the_internal_folder_and_not_read_here(
    project, watched, monkeypatch
):
    used = watched()
    monkeypatch.setattr(process, "PROGRAM", ("-c", DYING))
    with pytest.raises(StageFailed, match="ended with code 1") as failed:
        project.release()
    errors = project.internal / process.ERRORS
    assert used[0].started.errors == errors
    assert f"is in {errors}" in failed.value.message
    assert "salary-of-row-4711" in errors.read_text()
    assert errors.stat().st_mode & 0o777 == 0o600
    (holder,) = (
        path
        for path in project.home.rglob("*")
        if path.is_file() and b"salary-of-row-4711" in path.read_bytes()
    )
    assert holder.samefile(errors)


def test_it_ends_when_its_client_is_killed(project):
    client = subprocess.Popen(
        [sys.executable, "-c", CLIENT, str(project.spec), str(project.out)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "DP_RELEASE_HOME": str(project.home)},
    )
    children = []
    until = time.monotonic() + 60
    while not children and time.monotonic() < until:
        children = psutil.Process(client.pid).children()
        time.sleep(0.01)
    client.kill()
    client.wait()
    gone, alive = psutil.wait_procs(children, timeout=60)
    assert gone
    assert not alive
    project.release()
    assert_charged_once(project)


@pytest.mark.slow
def test_this_process_has_no_client_of_the_scheduler_that_counts(project):
    project.write_spec(dask="{cluster: distributed.LocalCluster, options: {n_workers: 1}}")
    joined = "\nprint({'distributed', 'tasks.support.dask_cluster'} & sys.modules.keys())"
    words = [sys.executable, "-c", CLIENT + joined, str(project.spec), str(project.out)]
    surroundings = {**os.environ, "PYTHONPATH": str(ROOT), "DP_RELEASE_HOME": str(project.home)}
    found = subprocess.check_output(words, env=surroundings, text=True)
    assert found.splitlines()[-1] == "set()"
    assert_charged_once(project)


def test_a_refusal_crosses_as_one_sentence_and_is_counted(project, watched):
    watched()
    data = project.folder / "town.csv"
    data.write_text(data.read_text() + "x,4711,1,single,1,2001-01-01\n")
    with pytest.raises(SchemaViolation, match="do not fit its schema") as refused:
        project.release()
    file = project.internal / "message.txt"
    assert "4711" not in refused.value.message
    assert "age" not in refused.value.message.replace(str(file), "")
    assert "'age'" in file.read_text()
    assert "verdict" in {each.kind for each in project.ledger().entries()}


def test_stages_ask_for_nothing_without_a_grant(project, watched):
    watched()
    seen = []

    def without(task, *given):
        if task.name == "ledger: grant":
            seen.append(given[1])
            return None
        return plainly(task, *given)

    with pytest.raises(StageFailed, match="without the ledger's grant"):
        project.release(perform=without)
    assert seen
    assert "charge" not in project.kinds()


@pytest.mark.slow
def test_a_batch_of_hundreds_of_tables_is_paid_and_read(project, watched):
    """The ledger sorts more than SQLite keeps in memory by itself, and may write nowhere else."""
    names = [f"c{number:02}" for number in range(22)]
    rows = [
        "".join("01"[(row >> (at % 7)) & 1] + "," for at in range(22))[:-1] for row in range(99)
    ]
    (project.folder / "town.csv").write_text("\n".join([",".join(names), *rows]) + "\n")
    columns = "".join(f'  {name}: {{type: category, levels: ["0", "1"]}}\n' for name in names)
    schema = f"version: 1\ntitle: Wide\nunit: row\nrows_about: 99\ncolumns:\n{columns}"
    (project.folder / "town.schema.yaml").write_text(schema)
    project.write_spec("select: {method: ways, orders: [2]}\nsynthesize: {sets: 1}\n")
    watched()
    project.release()
    assert project.faults() == {}
    assert_charged_once(project)
