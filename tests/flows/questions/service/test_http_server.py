"""The server under abuse: slow heads, many connections, broken requests; and TLS."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import socket
import ssl
import subprocess
import sys

import httpx
import pytest

from dp_core.errors import BadInput
from flows.questions.service.addresses import Listening
from flows.questions.service.http_server import LARGEST_HEAD, bound_socket
from tests.flows.questions.service.listening_site import LIMITS
from tests.processes import ROOT

SECONDS = 120


class Listener:
    """A service in another process, its port and a token."""

    def __init__(self, *words):
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.flows.questions.service.listening_site",
                *map(str, words),
            ],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
        )
        port, self.token = self.process.stdout.readline().split()
        self.port = int(port)

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=SECONDS)

    def said(self, request):
        """Send bytes; return all that comes back until the server closes the connection."""
        with self.connect() as connection:
            connection.sendall(request)
            found = b""
            with contextlib.suppress(ConnectionResetError):
                while piece := connection.recv(1 << 16):
                    found += piece
            return found

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=SECONDS)
        return self.process.returncode


@pytest.fixture(scope="module")
def listener(tmp_path_factory):
    found = Listener(tmp_path_factory.mktemp("site"))
    yield found
    assert found.stop() == 0


def healthy(listener):
    found = httpx.get(f"http://127.0.0.1:{listener.port}/healthz", timeout=SECONDS)
    return found.status_code == 200


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"G",
        b"GET /healthz HTTP/1.1\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: ",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\nGET /healthz HTTP/1.1\r\nHost:",
    ],
)
def test_a_connection_whose_head_does_not_arrive_is_closed(listener, sent):
    said = listener.said(sent)
    assert said.count(b"200 OK") == sent.count(b"\r\n\r\n")
    assert healthy(listener)


def test_a_body_that_does_not_arrive_is_given_up(listener):
    head = f"POST /v1/plan HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {listener.token}\r\n"
    said = listener.said(head.encode() + b"Content-Length: 50\r\n\r\n{")
    assert said.startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize(
    "request_",
    [
        b"nonsense\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"y" * (20 * LARGEST_HEAD) + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"POST /v1/plan HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        b"POST /v1/plan HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01",  # TLS to a service without it
    ],
)
def test_what_is_no_request_is_refused_and_the_connection_closed(listener, request_):
    said = listener.said(request_)
    assert not said or said.split()[1] in (b"400", b"501")
    assert healthy(listener)


def test_a_request_with_a_length_and_pieces_is_no_second_request(listener):
    head = f"POST /v1/plan HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {listener.token}\r\n"
    body = b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    hidden = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
    assert b'"ok"' not in listener.said(head.encode() + body + hidden)


def test_with_many_connections_open_further_requests_are_answered_with_503(listener):
    with contextlib.ExitStack() as stack:
        kept = [stack.enter_context(listener.connect()) for _ in range(LIMITS.connections + 20)]
        assert listener.said(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n").split()[1] == b"503"
        for each in kept:  # the server closes them when no head arrives
            with contextlib.suppress(ConnectionResetError):
                assert each.recv(1) == b""
    assert healthy(listener)


def test_more_connections_than_that_are_closed_at_once(listener):
    with contextlib.ExitStack() as stack:
        kept = [stack.enter_context(listener.connect()) for _ in range(4 * LIMITS.connections)]
        for each in kept:
            with contextlib.suppress(ConnectionResetError):
                assert each.recv(1) == b""
    assert healthy(listener)


def test_a_websocket_is_not_accepted(listener):
    head = (
        "GET /v1/questions HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    assert listener.said(head.encode()).startswith(b"HTTP/1.1 401")


def test_the_replies_do_not_name_the_server(listener):
    found = httpx.get(f"http://127.0.0.1:{listener.port}/healthz", timeout=SECONDS)
    assert "server" not in found.headers


def test_with_a_certificate_the_service_speaks_tls_only(tmp_path):
    spec = importlib.util.spec_from_file_location("tls", ROOT / "deployments" / "tls.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    tls = tmp_path / "tls"
    module.make_certificates(tls)
    found = Listener(tmp_path / "site", tls / "server.pem", tls / "server.key")
    try:
        trust = ssl.create_default_context(cafile=tls / "ca.pem")
        url = f"https://127.0.0.1:{found.port}/v1/allowance"
        header = {"authorization": f"Bearer {found.token}"}
        assert httpx.get(url, headers=header, verify=trust, timeout=SECONDS).status_code == 200
        assert b"200" not in found.said(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
    finally:
        assert found.stop() == 0


def test_a_port_that_is_used_is_refused(listener):
    with pytest.raises(BadInput, match="Cannot listen"):
        bound_socket(Listening(port=listener.port))
    with pytest.raises(BadInput, match="Cannot listen"):
        bound_socket(Listening("no-such-host.invalid"))
