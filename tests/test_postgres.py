"""The throw-away PostgreSQL that other tests rely on."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests import postgres
from tests.postgres import PostgresServer, Unavailable, find_programs

ROOT = Path(__file__).parents[1]


def execute(url, statement):
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        result = connection.execute(sa.text(statement))
        return list(result.scalars()) if result.returns_rows else None


def tables(url):
    return sa.inspect(sa.create_engine(url, poolclass=sa.NullPool)).get_table_names()


def test_two_urls_are_two_databases(postgres_server, postgres_url):
    other = postgres_server.create_database()
    execute(postgres_url, "CREATE TABLE here (value integer)")
    assert other != postgres_url
    assert tables(postgres_url) == ["here"]
    assert tables(other) == []
    postgres_server.drop_database(other)
    with pytest.raises(sa.exc.OperationalError, match="does not exist"):
        tables(other)


@pytest.mark.slow
def test_what_was_committed_outlives_a_crash(postgres_server, postgres_url):
    execute(postgres_url, "CREATE TABLE kept (value integer)")
    execute(postgres_url, "INSERT INTO kept VALUES (7)")
    postgres_server.stop()
    assert postgres_server.pid is None
    with pytest.raises(sa.exc.OperationalError):
        execute(postgres_url, "SELECT value FROM kept")
    postgres_server.start()
    assert execute(postgres_url, "SELECT value FROM kept") == [7]


def test_a_test_that_leaves_the_server_stopped_does_no_harm(postgres_cluster, request):
    postgres_cluster.stop()
    assert execute(request.getfixturevalue("postgres_url"), "SELECT 1") == [1]


def test_the_server_listens_to_no_network(postgres_server, postgres_url):
    assert execute(postgres_url, "SHOW listen_addresses") == [""]
    assert postgres_server.folder.stat().st_mode & 0o777 == 0o700


def test_each_ledger_url_is_fresh(ledger_url):
    assert tables(ledger_url) == []
    execute(ledger_url, "CREATE TABLE here (value integer)")
    assert tables(ledger_url) == ["here"]


def test_without_programs_it_says_what_is_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("PG_BINDIR", str(tmp_path))
    with pytest.raises(Unavailable, match=r"not installed .* set PG_BINDIR"):
        PostgresServer()


@pytest.mark.parametrize(
    ("broken", "says"), [("initdb", "initdb fails"), ("postgres", "PostgreSQL ends at once")]
)
def test_a_program_that_fails_is_unavailable_and_leaves_nothing(monkeypatch, broken, says):
    pytest.importorskip("psycopg")
    try:
        found = find_programs()
    except Unavailable as why:
        pytest.skip(str(why))
    no_luck = Path(shutil.which("false"))
    monkeypatch.setattr(postgres, "find_programs", lambda: found | {broken: no_luck})
    made = []
    make = tempfile.mkdtemp
    monkeypatch.setattr(tempfile, "mkdtemp", lambda **named: made.append(make(**named)) or made[-1])
    with pytest.raises(Unavailable, match=says), PostgresServer():
        pass
    assert len(made) == 1
    assert not Path(made[0]).exists()


SKIPPED = """
pytest_plugins = ["tests.postgres"]

def test_needs_it(postgres_url):
    raise AssertionError("there is none")

def test_needs_either(ledger_url):
    assert "postgresql" not in ledger_url
"""


def test_tests_that_need_it_are_skipped_with_a_reason(tmp_path):
    (tmp_path / "conftest.py").write_text(SKIPPED.partition("\n\n")[0])
    (tmp_path / "test_it.py").write_text(SKIPPED.partition("\n\n")[2])
    answer = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs", str(tmp_path)],
        env={**os.environ, "PG_BINDIR": str(tmp_path), "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout
    assert "1 passed, 2 skipped" in answer.stdout
    assert "PostgreSQL is not installed" in answer.stdout


KILLED = """
import sys, time
from tests.postgres import PostgresServer
with PostgresServer() as server:
    print(server.pid, server.folder, flush=True)
    time.sleep(600)
"""


@pytest.mark.usefixtures("postgres_server")
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's end")
def test_no_server_outlives_killed_tests(tmp_path):
    tests = subprocess.Popen(
        [sys.executable, "-c", KILLED],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
    )
    with tests:
        number, folder = tests.stdout.readline().split()
        assert Path(f"/proc/{number}").exists()
        tests.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 60
    while alive(number) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not alive(number)
    shutil.rmtree(folder)


def alive(number):
    """Whether a process runs; one that ended and that nobody waited for does not."""
    try:
        status = Path(f"/proc/{number}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"
