"""A database that goes away in mid-release: one sentence, exit code 4, and nothing is lost."""

import os
import sys

import pytest

from tasks.support.run_folder import kept_message
from tests.flows.conftest import assert_charged_once, make_project
from tests.full import at_full_size

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick")]

# A process of its own: what it held is free as soon as it has ended, as in real life.
RUN = """
import os, signal, sys, time
from pathlib import Path
import psycopg
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from flows import release
from flows.cli import main as cli
from tasks.ledger.charging import ledger_session
from tasks.ledger.database.transaction import Transaction

server, marker = int(sys.argv.pop(1)), Path(sys.argv.pop(1))
kind, moment = sys.argv.pop(1), sys.argv.pop(1)

def stop_server():
    if marker.exists():
        return
    marker.touch()
    os.kill(server, signal.SIGQUIT)
    status = Path(f"/proc/{server}/stat")
    while status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.01)

def append(self, row_kind, *args, original=Transaction.append, **values):
    if (row_kind, moment) == (kind, "before"):
        stop_server()
    entry = original(self, row_kind, *args, **values)
    if row_kind == kind and moment == "written":
        stop_server()
    if row_kind == kind and moment == "unheard":
        PGDialect_psycopg.do_commit = unheard
    return entry

def unheard(self, connection, original=PGDialect_psycopg.do_commit):
    original(self, connection)
    PGDialect_psycopg.do_commit = original
    stop_server()
    raise psycopg.OperationalError("the server closed the connection unexpectedly")

def draw(*args, original=ledger_session._draw_and_store, **named):
    if (kind, moment) == ("draw", "before"):
        stop_server()
    original(*args, **named)
    if (kind, moment) == ("draw", "stored"):
        stop_server()

Transaction.append = append
ledger_session._draw_and_store = draw

def without_engine(spec, out, dask=None, keep_confidential=False):
    release.carry_out(Path(spec), Path(out), perform=lambda task, *given: task.fn(*given))

release.release = without_engine
cli.main()
"""

EVERY_POINT = (
    # When the server goes away.
    ("reserve", "written"),
    ("charge", "written"),
    ("charge", "unheard"),  # it is kept, and nobody hears of it
    ("draw", "before"),
    ("draw", "stored"),
    ("commit", "written"),
    ("commit", "unheard"),
    ("settle", "written"),
    ("settle", "unheard"),
)
POINTS = EVERY_POINT if at_full_size() else EVERY_POINT[2::4]
AGAIN = ("charge", "unheard")
"""After which the result is drawn anew: it had not got its name, so nobody had seen it."""


@pytest.fixture
def project(tmp_path, home, postgres_url, monkeypatch):
    monkeypatch.setenv("DP_RELEASE_LEDGER", postgres_url)
    return make_project(tmp_path / "work", home)


def results(project):
    folder = project.run_folder / "public/noisy"
    return {path.name: path.read_bytes() for path in folder.glob("*.noise")}


@pytest.mark.skipif(sys.platform != "linux", reason="the run looks into /proc for the server")
@pytest.mark.runbook("ledger-silent")
def test_a_database_that_goes_away_stops_a_release_and_its_return_lets_it_go_on(
    project, fork_server, postgres_server, command, tmp_path, says
):
    """One release loses it at each point in turn, and goes on every time."""
    surroundings = {**os.environ, "DP_RELEASE_HOME": str(project.home)}
    begin = ["run", project.spec, "--out", project.out]
    words, stored, again = begin, {}, 0
    for point in POINTS:
        # In the home, because the confidential process may write nowhere else.
        marker = project.home / "-".join(("stopped", *point))
        told = [postgres_server.pid, marker, *point, *words]
        stopped = fork_server.run(RUN, told, tmp_path, surroundings)
        assert marker.exists(), (point, stopped.stderr)
        assert postgres_server.pid is None
        assert stopped.returncode == 4, stopped.stderr
        last = stopped.stderr.splitlines()[-1]
        inside = "message.txt" in last  # the process that reads the data lost it
        said = kept_message(project.internal / "message.txt") if inside else last[12:]
        assert said.startswith("The ledger at ")
        says(last)
        assert "resume" in last
        assert stopped.stderr.count("dp-release: ") == 1
        assert "Traceback" not in stopped.stderr
        assert not project.out.exists()
        found = results(project)
        assert {name: found.get(name) for name in stored} == stored, point
        stored = found

        # A release that did not get so far as a folder of its own is begun again by `run`.
        words = ["resume", "town"] if project.run_folder.exists() else begin
        answer = command(*words)  # while the server is still away
        assert answer.code == 4
        assert answer.err.splitlines()[-1].startswith("dp-release: The ledger's database at ")
        assert "Traceback" not in answer.err
        postgres_server.start()
        assert project.redraws() == again, point
        again += point == AGAIN

    answer = command(*words)
    assert (answer.code, "Traceback" in answer.err) == (0, False), answer.err
    assert_charged_once(project)
    assert project.kinds().count("reserve") == 1
    project.ledger().verify()
    assert {name: results(project)[name] for name in stored} == stored
    assert project.redraws() == again
