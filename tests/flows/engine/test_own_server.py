"""Prefect's own server, started beside the imports: it answers, or one clear error says why not."""

import http.client
import os
import sys

import psutil
import pytest

from flows.engine import own_server
from flows.engine.own_server import OwnServer, ServerSlow, start_own_server

APP = """
import asyncio, os

def create():
    if os.environ["ANSWER"] == "broken":
        raise SystemExit(7)
    return answer

async def answer(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            said = (await receive())["type"]
            await send({"type": said + ".complete"})
    if os.environ["ANSWER"] == "slow":
        await asyncio.sleep(60)
    seen = os.environ.get("PREFECT__SERVER_EPHEMERAL", "")
    seen += " secret" * (len(os.environ["PREFECT_SERVER_API_AUTH_STRING"]) > 40)
    status = 200 if os.environ["ANSWER"] == "well" else 503
    await send({"type": "http.response.start", "status": status, "headers": []})
    await send({"type": "http.response.body", "body": seen.encode()})
"""


@pytest.fixture
def server(tmp_path, monkeypatch):
    """Starts a small server in the place of Prefect's, which takes seconds."""
    (tmp_path / "small_app.py").write_text(APP)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(own_server, "SERVER", "small_app:create")
    monkeypatch.setattr("atexit.register", lambda function: started.append(function))
    for name in ("PREFECT_API_URL", "PREFECT_API_AUTH_STRING", "PREFECT_SERVER_API_AUTH_STRING"):
        monkeypatch.setenv(name, "")
    started = []

    def start(answer):
        monkeypatch.setenv("ANSWER", answer)
        return OwnServer()

    yield start
    for end in started:
        end()


def test_it_answers_on_the_loopback_to_its_secret(server):
    own = server("well")
    assert os.environ["PREFECT_API_URL"] == own.url
    own.wait()
    for name in ("URL", "AUTH_STRING"):  # for Prefect alone, which has read them
        assert not os.environ.get(f"PREFECT_API_{name}")
    assert os.getpgid(own._process.pid) == own._process.pid  # Ctrl-C goes to a group of processes
    host, _, port = own.url.removeprefix("http://").removesuffix("/api").partition(":")
    assert host == "127.0.0.1"
    connection = http.client.HTTPConnection(host, int(port), timeout=10)
    connection.request("GET", "/")
    seen = connection.getresponse().read().decode()
    assert seen == "1 secret"
    connection.close()
    listening = [
        each.laddr.ip
        for each in psutil.Process(own._process.pid).net_connections("inet")
        if each.status == psutil.CONN_LISTEN
    ]
    assert listening == ["127.0.0.1"]


def test_one_that_ends_or_refuses_is_said_at_once(server):
    with pytest.raises(RuntimeError, match="ended with 7"):
        server("broken").wait()
    with pytest.raises(RuntimeError, match="answers 503"):
        server("refusing").wait()


def test_one_that_does_not_answer_is_slow(server, monkeypatch):
    monkeypatch.setenv("PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS", "0.5")
    monkeypatch.setattr(own_server, "_FAREWELL", 0.1)  # it does not end by itself either
    with pytest.raises(ServerSlow):
        server("slow").wait()


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("home/profiles.toml", '[profiles.site]\nPREFECT_API_URL = "https://prefect.site/api"\n'),
        ("prefect.toml", '[api]\nurl = "https://prefect.site/api"\n'),
        ("pyproject.toml", '[tool.prefect.api]\nurl = "https://prefect.site/api"\n'),
        ("pyproject.toml", '[ tool . prefect . api ]\nurl = "https://prefect.site/api"\n'),
        ("pyproject.toml", '[tool]\nprefect = {api = {url = "https://prefect.site/api"}}\n'),
        (".env", "prefect_api_url=https://prefect.site/api\n"),
        (".env", "PREFECT_API_URL=https://prefect.site/api\n"),
    ],
)
def test_a_server_that_prefect_may_be_told_of_is_left_to_prefect(tmp_path, monkeypatch, file, text):
    asked = []
    monkeypatch.setattr(own_server, "OwnServer", lambda **_: asked.append(1))
    monkeypatch.delitem(sys.modules, "prefect", raising=False)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.delenv("PREFECT_PROFILES_PATH", raising=False)
    monkeypatch.delenv("PREFECT_SERVER_ALLOW_EPHEMERAL_MODE", raising=False)
    monkeypatch.setenv("PREFECT_API_KEY", "of-another-server")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text('dependencies = ["prefect==3.8.8"]\n')
    start_own_server()
    assert asked == [1]
    assert "PREFECT_API_KEY" not in os.environ
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(text)
    assert start_own_server() is None
    (tmp_path / file).unlink()
    monkeypatch.setenv("PREFECT_API_URL", "https://prefect.site/api")
    assert start_own_server() is None
    assert asked == [1]
