"""The whole service: where it listens, the HTTP server, and the queue that answers.

Without TLS it listens on the loopback interface only. The server is uvicorn with limits on headers
and connections, and without its log.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import signal
import socket
import ssl
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from dp_core.errors import BadInput
from flows.desk.service.answerer import Answerer
from flows.desk.service.application import LOG, Service, make_application
from flows.desk.service.gate import Gate, Limits
from flows.desk.service.open_desks import OpenDesks
from flows.desk.service.queue import Queue
from flows.desk.service.service_records import ServiceRecords
from flows.desk.service.tokens import TokenStore

HOST = "127.0.0.1"
PORT = 8085
LARGEST_HEAD = 1 << 14
"""Largest size of the request line and headers of a request, in bytes."""
IDLE_S = 15
"""Seconds that a connection stays open between two requests."""
GRACE_S = 10
"""Seconds that requests get to end when the service is stopped."""
WAITING = 128
"""Connections that may wait to be accepted."""


@dataclass(frozen=True, slots=True)
class Listening:
    """Where and how the service listens.

    Attributes:
        host: Address; 127.0.0.1 by default.
        port: Port; 0 chooses a free one; 8085 by default.
        certificate: PEM file of the TLS certificate and its chain; None for HTTP.
        key: PEM file of its key; None for HTTP.
        behind_proxy: Whether a TLS proxy is in front of the service; False by default.
    """

    host: str = HOST
    port: int = PORT
    certificate: Path | None = None
    key: Path | None = None
    behind_proxy: bool = False

    @property
    def url(self) -> str:
        """URL without the path."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.certificate else 'http'}://{host}:{self.port}"


def check_listening(given: Listening) -> Listening:
    """Return where to listen, if tokens and answers are protected on the network.

    Raises:
        BadInput: if other machines can reach the address and there is neither TLS nor a proxy, or
            if the certificate or key cannot be used.
    """
    if (given.certificate is None) != (given.key is None):
        raise BadInput("--tls-cert and --tls-key belong together; give both.")
    if given.certificate is not None and given.key is not None:
        _check_pair(given.certificate, given.key)
    elif not is_loopback(given.host) and not given.behind_proxy:
        raise BadInput(
            f"--host {given.host!r:.60} can be reached from other machines, so tokens would cross"
            " the network unencrypted. Give --tls-cert and --tls-key (deployments/tls.py makes"
            " them), or --behind-tls-proxy if a TLS proxy is in front of the service."
        )
    return given


def is_loopback(host: str) -> bool:
    """Return whether an address can be reached only from this machine.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _check_pair(certificate: Path, key: Path) -> None:
    """Check that a certificate and a key can be read and belong together.

    Raises:
        BadInput: if they cannot be used, or others may read the key.
    """
    try:
        others = key.stat().st_mode & 0o077
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(
            certificate, key, password=""
        )
    except (OSError, ssl.SSLError):
        raise BadInput(
            f"--tls-cert {certificate} and --tls-key {key} are not a certificate and its key in"
            " PEM; deployments/tls.py makes such files."
        ) from None
    if others & 0o007:
        raise BadInput(f"Every user of this machine can read {key}; type: chmod 600 {key}")


def serve_questions(
    home: Path,
    desks: OpenDesks,
    where: Listening,
    limits: Limits,
    *,
    deployment: bool = False,
    said: Callable[[str], object],
) -> None:
    """Serve the desks of a home until SIGTERM or Ctrl-C.

    Args:
        home: The home.
        desks: Its desks.
        where: Where to listen.
        limits: Limits of users, requests and answers.
        deployment: Whether Prefect's deployment `questions` answers; by default (False) a process
            of this service does.
        said: Called with the URL once the service is listening.

    Raises:
        BadInput: if the address, or the TLS certificate or key, cannot be used.
    """
    check_listening(where)
    log_to_stderr()
    tokens, records = TokenStore(home), ServiceRecords(home)
    answerer = Answerer(records, limits.answer, deployment=deployment)
    queue = Queue(desks, tokens, records, answerer)
    service = Service(
        desks, tokens, records, limits, admitted=queue.wake, running=lambda: queue.running
    )
    listener = bound_socket(where)
    bound = replace(where, port=int(listener.getsockname()[1]))
    worker, stopped = threading.Thread(target=queue.run, name="questions"), threading.Event()
    ticks = threading.Thread(target=service.renew_at_ticks, args=(stopped,), name="ticks")

    def on_start() -> None:
        worker.start()
        ticks.start()
        said(bound.url)

    try:
        serve_until_stopped(make_application(service), listener, bound, limits, started=on_start)
    finally:
        stopped.set()
        queue.stop()
        answerer.end()
        for each in (worker, ticks):
            if each.ident is not None:
                each.join()


def log_to_stderr() -> None:
    """Write the service's own lines to standard error: user, question number, state and cost."""
    if not LOG.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    LOG.propagate = False


def bound_socket(where: Listening) -> socket.socket:
    """Return a socket that is bound to an address, so that its port is known.

    Raises:
        BadInput: if the address or port cannot be used.
    """
    try:
        family = socket.getaddrinfo(where.host, where.port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((where.host, where.port), family=family, backlog=WAITING)
    except OSError as error:
        raise BadInput(
            f"Cannot listen on {where.host}:{where.port} ({error.strerror or 'no such address'});"
            " give another --host or --port, or stop the program that uses it."
        ) from None


def serve_until_stopped(
    app: Gate,
    listener: socket.socket,
    where: Listening,
    limits: Limits,
    *,
    started: Callable[[], object],
) -> None:
    """Serve an application until SIGTERM or Ctrl-C.

    Args:
        app: The application.
        listener: Its socket.
        where: Where it listens, and the TLS certificate and key.
        limits: Limits of time and of connections.
        started: Called once before the first request.
    """
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)
    config = uvicorn.Config(
        app,
        http=_protocol(limits),
        ws="none",
        loop="asyncio",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=IDLE_S,
        timeout_graceful_shutdown=GRACE_S,
        h11_max_incomplete_event_size=LARGEST_HEAD - 1,  # more than this, and still incomplete
        ssl_certfile=where.certificate,
        ssl_keyfile=where.key,
    )
    server = uvicorn.Server(config)
    # After closing its connections, the server raises the signal that ended it once more.
    earlier = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        started()
        server.run(sockets=[listener])
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, earlier)
        listener.close()


def _protocol(limits: Limits) -> type[asyncio.Protocol]:
    """Return uvicorn's protocol with limits on connections, and on the headers of a request."""

    class PatientProtocol(H11Protocol):
        _head: asyncio.TimerHandle | None = None
        _opened = 0

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            PatientProtocol._opened += 1
            self._opened = PatientProtocol._opened
            self._expect_head()
            self._make_room()

        def data_received(self, data: bytes) -> None:
            before = self.cycle
            while data and not self.transport.is_closing():
                # h11 measures a head only while it is incomplete. So it gets the data in pieces,
                # none of which completes a head that is too large.
                room = LARGEST_HEAD - len(self.conn.trailing_data[0])
                if room <= 0:  # further requests, sent before the reply to this one
                    self.transport.abort()
                    return
                super().data_received(data[:room])
                data = data[room:]
            if self.cycle is not before:
                self._forget_head()
            elif self._head is None and (before is None or before.response_complete):
                self._expect_head()

        def send_400_response(self, msg: str) -> None:
            hint = getattr(sys.exception(), "error_status_hint", 400)
            if hint != 431 or (self.cycle is not None and not self.cycle.response_complete):
                super().send_400_response(msg)
                return
            body = (
                b'{"error": "The headers of the request have more than %d bytes."}' % LARGEST_HEAD
            )
            self.transport.write(
                b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
                b"content-type: application/json\r\nconnection: close\r\n"
                b"content-length: %d\r\n\r\n%s" % (len(body), body)
            )
            self.transport.close()

        def connection_lost(self, exc: Exception | None) -> None:
            self._forget_head()
            super().connection_lost(exc)

        def _make_room(self) -> None:
            """Close a connection if there are too many.

            It is one whose request has no valid token, of the address that has most connections,
            and there the oldest. So slow connections without a token keep nobody out.
            """
            own = [each for each in self.connections if isinstance(each, PatientProtocol)]
            now = [each for each in own if not each.transport.is_closing()]
            if len(now) <= limits.connections:
                return
            crowd = Counter(_address(each) for each in now)
            idle = [each for each in now if not _has_token(each)] or [self]
            worst = max(idle, key=lambda each: (crowd[_address(each)], -each._opened))
            worst.transport.abort()

        def _expect_head(self) -> None:
            self._head = self.loop.call_later(limits.patience, self.transport.abort)

        def _forget_head(self) -> None:
            if self._head is not None:
                self._head.cancel()
                self._head = None

    return PatientProtocol


def _address(connection: H11Protocol) -> str:
    return connection.client[0] if connection.client else ""


def _has_token(connection: H11Protocol) -> bool:
    """Return whether a connection has a request in progress whose token is valid."""
    cycle = connection.cycle
    return cycle is not None and not cycle.response_complete and "holder" in cycle.scope
