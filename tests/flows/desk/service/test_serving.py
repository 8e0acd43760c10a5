"""In the clear it listens on this machine only; slow heads, many connections, broken requests."""

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
from flows.desk.service.serving import LARGEST_HEAD, Listening, bound_socket, check_listening
from tests.flows.desk.service.listening_site import LIMITS
from tests.processes import ROOT

SECONDS = 120


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    spec = importlib.util.spec_from_file_location("tls", ROOT / "deployments" / "tls.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.make_certificates(folder)
    return folder


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.8.8.8"])
def test_the_loopback_interface_needs_no_tls(host):
    assert check_listening(Listening(host)).host == host


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "server.example", "", "127.1"])
def test_another_address_needs_tls_or_a_proxy(host):
    with pytest.raises(BadInput, match="--tls-cert"):
        check_listening(Listening(host))
    check_listening(Listening(host, behind_proxy=True))


def test_another_address_is_allowed_with_a_certificate_and_its_key(certificates):
    pair = {"certificate": certificates / "server.pem", "key": certificates / "server.key"}
    assert check_listening(Listening("0.0.0.0", **pair)).url == "https://0.0.0.0:8085"
    assert Listening("::1").url == "http://[::1]:8085"


def test_files_that_are_no_pair_are_refused(certificates, tmp_path):
    certificate, key = certificates / "server.pem", certificates / "server.key"
    with pytest.raises(BadInput, match="not a certificate"):
        check_listening(Listening(certificate=certificate, key=certificates / "client.key"))
    with pytest.raises(BadInput, match="not a certificate"):
        check_listening(Listening(certificate=certificate, key=tmp_path / "none"))
    with pytest.raises(BadInput, match="belong together"):
        check_listening(Listening(certificate=certificate))
    loose = tmp_path / "loose.key"
    loose.write_bytes(key.read_bytes())
    loose.chmod(0o644)
    with pytest.raises(BadInput, match="chmod"):
        check_listening(Listening(certificate=certificate, key=loose))


class Listener:
    """A service in another process, its port and a token."""

    def __init__(self, *words):
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.flows.desk.service.listening_site",
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


@pytest.mark.parametrize(
    "request_",
    [
        b"nonsense\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\nHost: a\r\n\r\n",
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


def _padded(size, header=b"X: "):
    """Return a request whose request line and headers have `size` bytes."""
    start = b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n" + header
    return start + b"y" * (size - len(start) - 4) + b"\r\n\r\n"


@pytest.mark.parametrize("size", [LARGEST_HEAD + 1, 40_000, 20 * LARGEST_HEAD])
def test_headers_beyond_the_limit_are_refused_with_431(listener, size):
    for request_ in (_padded(size), _padded(size, b"X:" + b" " * (size - 100))):
        assert len(request_) == size
        said = listener.said(request_)
        # The reply may be lost if the client still sends when the connection is closed.
        assert said.startswith(b"HTTP/1.1 431") or (not said and size > 1 << 16)
    assert healthy(listener)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: ",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n",  # idle after its reply
        b"POST /healthz HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST /v1/questions HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n",
    ],
)
def test_connections_without_a_token_keep_nobody_out(listener, sent):
    with contextlib.ExitStack() as stack:
        for _ in range(2 * LIMITS.connections + 20):
            each = stack.enter_context(listener.connect())
            with contextlib.suppress(ConnectionError):
                each.sendall(sent)
        header = {"authorization": f"Bearer {listener.token}"}
        for path in ("/healthz", "/v1/allowance"):
            url = f"http://127.0.0.1:{listener.port}{path}"
            assert httpx.get(url, headers=header, timeout=SECONDS).status_code == 200


def test_connections_without_a_token_do_not_close_one_with_a_token(listener):
    body = b'{"question": "count", "epsilon": "0.1"}'
    head = f"POST /v1/plan HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {listener.token}\r\n"
    with contextlib.ExitStack() as stack:
        known = stack.enter_context(listener.connect())
        known.sendall(head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body[:1])
        assert healthy(listener)  # the head of `known` was read before
        for _ in range(LIMITS.connections + 20):
            stack.enter_context(listener.connect())
        known.sendall(body[1:])
        # 408 if the machine is so slow that the body came too late; the connection was not closed
        assert known.recv(1 << 16).split()[1] in (b"200", b"408")


def test_more_connections_than_that_are_closed_at_once(listener):
    with contextlib.ExitStack() as stack:
        kept = [stack.enter_context(listener.connect()) for _ in range(4 * LIMITS.connections)]
        for each in kept:
            with contextlib.suppress(ConnectionResetError):
                assert each.recv(1) == b""
    assert healthy(listener)


def test_with_a_certificate_the_service_speaks_tls_only(tmp_path, certificates):
    tls = certificates
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
