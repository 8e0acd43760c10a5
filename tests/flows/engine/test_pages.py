"""`dp-release server ui`: the pages of a home's runs, on this machine only, until stopped."""

import base64
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from flows.engine.prefect_tables import NAME
from tests.browser import CHROMIUM, browser
from tests.deployments.site import free_port
from tests.full import at_full_size

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


@pytest.fixture
def environment(tmp_path, with_prefects_tables):
    with_prefects_tables(tmp_path / "home" / "prefect")
    usual = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PREFECT_", "DP_RELEASE_"))
    }
    return usual | {"DP_RELEASE_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)}


def answered(port, path, headers, data=None):
    """Return the status, the headers and the JSON of an answer of the API."""
    asked = urllib.request.Request(f"http://127.0.0.1:{port}/api/{path}", data, headers)
    try:
        with urllib.request.urlopen(asked) as answer:
            return answer.status, answer.headers, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, None


def basic(secret):
    return {"Authorization": "Basic " + base64.b64encode(secret.encode()).decode()}


def flows(port, secret):
    """Return the status and the names of the flows, asked for as Prefect's pages do."""
    token = answered(port, "csrf-token?client=test", basic(secret))[2]["token"]
    headers = {"Prefect-Csrf-Token": token, "Prefect-Csrf-Client": "test"}
    headers |= {"Content-Type": "application/json", **basic(secret)}
    code, _, found = answered(port, "flows/filter", headers, b"{}")
    return code, [each["name"] for each in found]


def refuses_everybody_else(port, secret):
    assert answered(port, "admin/version", {})[0] == 401
    assert answered(port, "admin/version", basic(secret[:-1]))[0] == 401
    assert answered(port, "flows/filter", basic(secret), b"{}")[0] == 403
    foreign = {"Origin": "http://elsewhere.example"}
    for headers in (foreign, foreign | basic(secret)):
        assert "Access-Control-Allow-Origin" not in answered(port, "admin/version", headers)[1]
    own = {"Origin": f"http://127.0.0.1:{port}", **basic(secret)}
    allowed = answered(port, "admin/version", own)[1]["Access-Control-Allow-Origin"]
    assert allowed == own["Origin"]


def assert_the_pages_work(page, port, secret):
    """Log in with the secret and find the run in the list."""
    page.call("Page.navigate", url=f"http://127.0.0.1:{port}/runs")
    until_shown(page, "!!document.querySelector('input[type=password]')")
    page.ask("document.querySelector('input[type=password]').focus()")
    page.call("Input.insertText", text=secret)
    page.ask(
        "[...document.querySelectorAll('button')].find(b => /log ?in/i.test(b.innerText)).click()"
    )
    until_shown(page, "document.body.innerText.includes('left here')")


def until_shown(page, condition):
    until = time.monotonic() + 120
    while not page.ask(condition):
        assert time.monotonic() < until, page.ask("document.body.innerText")
        time.sleep(0.2)


@pytest.mark.slow
def test_it_shows_the_runs_of_the_home_to_who_has_the_secret_and_ends_in_order(
    environment, tmp_path
):
    if at_full_size():
        subprocess.run([sys.executable, "-c", FLOW], env=environment, check=True, timeout=120)
    else:
        with closing(sqlite3.connect(tmp_path / "home" / "prefect" / NAME)) as database, database:
            database.execute("INSERT INTO flow (name) VALUES ('left here')")
    port = free_port()
    command = [sys.executable, "-m", "flows.cli.main", "server", "ui", "--port", str(port)]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line.endswith(f"home: http://127.0.0.1:{port}\n"), line
        secret = process.stderr.readline().split()[-1]
        assert len(secret) > 32
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/") as answer:
            assert b"<html" in answer.read().lower()
        assert flows(port, secret) == (200, ["left here"])
        refuses_everybody_else(port, secret)
        if CHROMIUM is not None and at_full_size():
            with browser(tmp_path / "profile") as page:
                assert_the_pages_work(page, port, secret)
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
        answer = command("server", "ui", "--port", port)
    assert answer.code == 2
    assert f"Cannot listen on 127.0.0.1:{port}" in answer.err
    assert "--port" in answer.err


def test_a_server_that_is_named_has_the_pages(command, monkeypatch):
    monkeypatch.setenv("PREFECT_API_URL", "https://prefect.example/api")
    answer = command("server", "ui")
    assert answer.code == 2
    assert "Open https://prefect.example," in answer.err


def test_the_password_in_a_server_s_url_is_not_shown(command, monkeypatch):
    monkeypatch.setenv("PREFECT_API_URL", "https://ada:s3cret@prefect.example/api")
    answer = command("server", "ui")
    assert "Open https://prefect.example," in answer.err
    assert "s3cret" not in answer.err
