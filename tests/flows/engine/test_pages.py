"""`dp-release ui`: the pages of a home's runs, on this machine only, until stopped."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[3]
FLOW = """
import os
from pathlib import Path
from flows.engine.own_server import start_own_server
from flows.engine.settings import prepare
prepare(Path(os.environ["DP_RELEASE_HOME"]))
server = start_own_server()
from prefect import flow
@flow(name="left here")
def left():
    pass
server.wait()
left()
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def environment(tmp_path, with_prefects_tables):
    with_prefects_tables(tmp_path / "home" / "prefect")
    usual = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PREFECT_", "DP_RELEASE_"))
    }
    return usual | {"DP_RELEASE_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)}


@pytest.mark.slow
def test_it_shows_the_runs_of_the_home_on_this_machine_only_and_ends_in_order(environment):
    subprocess.run([sys.executable, "-c", FLOW], env=environment, check=True, timeout=120)
    port = free_port()
    command = [sys.executable, "-m", "flows.cli.main", "ui", "--port", str(port)]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line.endswith(f"home: http://127.0.0.1:{port}\n"), line
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/") as answer:
            assert b"<html" in answer.read().lower()
        asked = urllib.request.Request(
            f"http://127.0.0.1:{port}/api/flows/filter",
            data=b"{}",
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(asked) as answer:
            assert [each["name"] for each in json.loads(answer.read())] == ["left here"]
        children = psutil.Process(process.pid).children(recursive=True)
        open_to = {
            each.laddr.ip
            for child in children
            for each in child.net_connections("inet")
            if each.status == psutil.CONN_LISTEN
        }
        assert open_to == {"127.0.0.1"}
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
        assert not psutil.wait_procs(children, timeout=10)[1]
    finally:
        process.kill()
        process.communicate()


def test_a_port_that_is_taken_is_named(command):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        answer = command("ui", "--port", port)
    assert answer.code == 2
    assert f"Cannot listen on 127.0.0.1:{port}" in answer.err
    assert "--port" in answer.err


def test_a_server_that_is_named_has_the_pages(command, monkeypatch):
    monkeypatch.setenv("PREFECT_API_URL", "https://prefect.example/api")
    answer = command("ui")
    assert answer.code == 2
    assert "open https://prefect.example," in answer.err
