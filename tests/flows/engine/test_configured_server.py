"""A Prefect server that cannot be used is named with its cause before Prefect is imported."""

import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from dp_core.errors import BadInput, StageFailed
from flows.engine import configured_server
from flows.engine.configured_server import require_server, server_fault
from tests.http_listener import listening

ROOT = Path(__file__).parents[3]
SECRET = "zqxsecret"


@pytest.fixture
def server(monkeypatch):
    """A small server; its list of answers says what it gives, and what it was asked."""
    for name in ("KEY", "AUTH_STRING", "SSL_CERT_FILE", "TLS_INSECURE_SKIP_VERIFY"):
        monkeypatch.delenv(f"PREFECT_API_{name}", raising=False)
    monkeypatch.delenv("PREFECT_CLIENT_CUSTOM_HEADERS", raising=False)

    with listening() as listener:
        listener.body = b'"3.8.8"'
        monkeypatch.setenv("PREFECT_API_URL", f"{listener.url}/api")
        yield listener


def test_a_server_that_answers_is_used(server, monkeypatch):
    require_server()
    monkeypatch.setenv("PREFECT_API_AUTH_STRING", "ada:word")
    require_server()
    monkeypatch.delenv("PREFECT_API_AUTH_STRING")
    url = f"http://ada:word@127.0.0.1:{server.server_port}/api/"
    monkeypatch.setenv("PREFECT_API_URL", url)
    require_server()
    basic = "Basic YWRhOndvcmQ="
    assert server.asked == [("/api/version", None), *[("/api/version", basic)] * 2]


def test_nothing_is_asked_where_no_server_is_named(monkeypatch):
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setattr(configured_server, "_version_reply", lambda _url: pytest.fail("It asked."))
    require_server()


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (200, b"<html>Prefect</html>", "not as Prefect's API"),
        (404, b"", "not as Prefect's API"),
        (401, b"", "PREFECT_API_AUTH_STRING"),
        (503, b"", "HTTP 503"),
    ],
)
def test_an_answer_that_is_no_prefect_is_told(server, status, body, says):
    server.status, server.body = status, body
    with pytest.raises(StageFailed, match=says) as failed:
        require_server()
    assert failed.value.row == "server-unreachable"
    assert failed.value.exit_code == 4


@pytest.mark.parametrize(
    ("url", "says"),
    [
        (f"http://ada:{SECRET}@127.0.0.1:9/api?{SECRET}", "at http://127.0.0.1:9/api refuses"),
        (f"http://ada:{SECRET}@no.such.host.invalid/api", "host that is not found"),
    ],
)
def test_a_server_that_is_not_there_is_told_without_its_password(monkeypatch, url, says):
    monkeypatch.setenv("PREFECT_API_URL", url)
    told = server_fault()
    assert says in told
    assert SECRET not in told


def test_a_certificate_that_is_not_trusted_is_told(tmp_path, server, monkeypatch):
    subprocess.run([sys.executable, ROOT / "deployments" / "tls.py", tmp_path], check=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem", tmp_path / "server.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    monkeypatch.setenv("PREFECT_API_URL", f"https://127.0.0.1:{server.server_port}/api")
    assert "PREFECT_API_SSL_CERT_FILE" in server_fault()
    monkeypatch.setenv("PREFECT_API_SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    require_server()
    monkeypatch.delenv("PREFECT_API_SSL_CERT_FILE")
    monkeypatch.setenv("PREFECT_API_TLS_INSECURE_SKIP_VERIFY", "true")
    require_server()


@pytest.mark.parametrize("url", [f"{SECRET}:4200/api", "http://", f"http://a:{SECRET}/api"])
def test_what_is_no_url_is_bad_input_and_not_quoted(monkeypatch, url):
    monkeypatch.setenv("PREFECT_API_URL", url)
    with pytest.raises(BadInput) as failed:
        require_server()
    assert SECRET not in failed.value.message


@pytest.mark.parametrize(
    ("file", "text"),
    [
        (".env", "PREFECT_API_URL=http://127.0.0.1:9/api\n"),
        ("prefect.toml", '[api]\nurl = "http://127.0.0.1:9/api"\n'),
        ("pyproject.toml", '[tool.prefect.api]\nurl = "http://127.0.0.1:9/api"\n'),
    ],
)
def test_a_setting_of_a_file_is_named_with_its_file(tmp_path, monkeypatch, file, text):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    (tmp_path / file).write_text(text, encoding="utf-8")
    fault = server_fault("http://127.0.0.1:9/api")
    assert fault is not None
    assert f"PREFECT_API_URL in {file}" in fault
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    assert f"in {file}" not in str(server_fault())
