"""A fork serves what Prefect's whole server would, takes nothing along, and can be replaced."""

import fcntl
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from flows.engine.own_server import ERRORS, has_plain_server
from flows.engine.settings import DEFAULTS, QUIET
from tests.full import some

ROOT = Path(__file__).parents[3]

START = """
import fcntl, json, os, signal, sys, time
from flows.engine import forked_server, own_server
for number in (signal.SIGHUP, signal.SIGTERM):
    signal.signal(number, signal.SIG_DFL)  # `nohup` has every process ignore one of them
own_server._suffices = lambda: True
held = open(sys.argv[1])
fcntl.flock(held, fcntl.LOCK_EX)
def serve(listener, secret, said):
    {serve}
forked_server._serve = serve
own_server.SERVER = "another_app:create"
own = own_server.OwnServer(whole=False)
try:
    own.wait()
    print(own._process.pid, flush=True)
except Exception as error:
    print(json.dumps(repr(error)), flush=True)
{then}
"""


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Starts a process with a server that is forked from it; returns it and what it prints."""
    started = []
    (tmp_path / "held").write_text("")
    for name in [each for each in os.environ if each.startswith("PREFECT_")]:
        monkeypatch.delenv(name)

    def begin(serve, then="time.sleep(600)", **environment):
        process = subprocess.Popen(
            [sys.executable, "-c", START.format(serve=serve, then=then), str(tmp_path / "held")],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
            | environment,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process, json.loads(process.stdout.readline())

    yield begin
    for process in started:
        process.kill()
        process.communicate()


READY = "os.write(said, b'1'); time.sleep(600)"


def test_it_keeps_no_file_and_no_lock_of_its_parent(start, tmp_path):
    parent, number = start(READY, then="signal.pause()")
    server = psutil.Process(number)
    assert number != parent.pid
    open_files = {
        name: os.readlink(f"/proc/{number}/fd/{name}")
        for name in os.listdir(f"/proc/{number}/fd")
        if name != "2"
    }
    kinds = [link.partition(":")[0] for link in open_files.values() if link != os.devnull]
    assert sorted(kinds) == ["pipe", "socket"]
    assert open_files["1"] == os.devnull
    parent.kill()
    parent.wait(timeout=60)
    with (tmp_path / "held").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the lock was the parent's alone
    server.wait(timeout=60)


@pytest.mark.parametrize("kind", ["forked", "whole"])
def test_its_errors_are_in_a_file_and_not_on_the_terminal(start, tmp_path, kind):
    (tmp_path / "another_app.py").write_text(f"import sys; sys.stderr.write('wrong')\n{APP}")
    said = "os.write(2, b'wrong'); " + READY if kind == "forked" else "os._exit(3)"
    _, number = start(said, PREFECT_HOME=str(tmp_path))
    log = tmp_path / ERRORS
    assert os.readlink(f"/proc/{number}/fd/2") == str(log)
    assert "wrong" in log.read_text()
    assert log.stat().st_mode & 0o077 == 0


def test_an_interruption_at_the_terminal_is_for_its_parent_alone(start):
    parent, number = start(READY)
    assert os.getpgid(parent.pid) == parent.pid
    assert os.getpgid(number) == number  # Ctrl-C goes to a group of processes


@pytest.mark.parametrize("kind", ["whole", "forked"])
@pytest.mark.parametrize(
    "how", some([signal.SIGKILL, signal.SIGTERM, signal.SIGHUP], lambda how: how == signal.SIGKILL)
)
def test_it_ends_with_its_release_however_that_ends(start, tmp_path, how, kind):
    (tmp_path / "another_app.py").write_text(APP)
    parent, number = start(READY if kind == "forked" else "os._exit(3)")
    server = psutil.Process(number)
    parent.send_signal(how)
    # Who reads the output of a release is told of its end, too.
    assert parent.communicate(timeout=120)[0] == ""
    server.wait(timeout=120)


APP = """
def create():
    return answer

async def answer(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            await send({"type": (await receive())["type"] + ".complete"})
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})
"""


@pytest.mark.parametrize("end", ["raise ImportError('no such router')", "os._exit(3)"])
def test_one_that_ends_is_replaced_by_the_whole_server(start, tmp_path, end):
    (tmp_path / "another_app.py").write_text(APP)
    _, number = start(end)
    assert "another_app:create" in psutil.Process(number).cmdline()


def test_one_that_does_not_answer_is_slow(start):
    patience = {"PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "0.2"}
    _, error = start("time.sleep(600)", then="", **patience)
    assert error.startswith("ServerSlow")


@pytest.fixture
def settings(monkeypatch, tmp_path):
    """Returns Prefect's settings as a new process would read them."""
    from prefect.settings import Settings

    for name in [each for each in os.environ if each.startswith("PREFECT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return Settings


def test_our_own_settings_leave_the_server_plain(settings, monkeypatch):
    for name, value in {**QUIET, **DEFAULTS}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PREFECT_SERVER_API_AUTH_STRING", "name:secret")
    assert has_plain_server(settings())


@pytest.mark.parametrize(
    "name",
    [
        "PREFECT_SERVER_DATABASE_TIMEOUT",
        "PREFECT_API_DATABASE_TIMEOUT",
        "PREFECT_API_SERVICES_LATE_RUNS_LOOP_SECONDS",
        "PREFECT_SERVER_EVENTS_MAXIMUM_RELATED_RESOURCES",
    ],
)
@pytest.mark.parametrize("where", ["environment", "profile"])
def test_what_an_operator_sets_for_the_server_is_seen(settings, monkeypatch, tmp_path, name, where):
    if where == "environment":
        monkeypatch.setenv(name, "70")
    else:
        (tmp_path / "profiles.toml").write_text(
            f'active = "site"\n[profiles.site]\n{name} = "70"\n'
        )
    assert not has_plain_server(settings())


def test_its_routers_are_those_of_the_whole_server():
    from prefect.server.api import server

    from flows.engine.prefect_api import BASE, ROUTERS, _module

    pages = ("prefect.server.api.ui.", "prefect.server.api.templates")
    for router in server.API_ROUTERS:
        for route in router.routes:
            if not route.endpoint.__module__.startswith(pages):
                module = _module(BASE + route.path)
                assert f"prefect.server.api.{module}" == route.endpoint.__module__, route.path
    assert len(set(ROUTERS.values())) == len(server.API_ROUTERS) - 5
