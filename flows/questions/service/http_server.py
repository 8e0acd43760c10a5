"""The HTTP server: uvicorn, with a time limit for the headers of requests and without its log."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from dp_core.errors import BadInput
from flows.questions.service.addresses import Listening
from flows.questions.service.limits import Limits

if TYPE_CHECKING:
    from flows.questions.service.gate import Gate

LARGEST_HEAD = 1 << 14
"""Largest size of the request line and headers of a request, in bytes."""
IDLE_S = 15
"""Seconds that a connection stays open between two requests."""
GRACE_S = 10
"""Seconds that requests get to end when the service is stopped."""
WAITING = 128
"""Connections that may wait to be accepted."""


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
        limit_concurrency=limits.connections,
        timeout_keep_alive=IDLE_S,
        timeout_graceful_shutdown=GRACE_S,
        h11_max_incomplete_event_size=LARGEST_HEAD,
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
    """Return uvicorn's protocol with a time limit for the request line and headers of a request."""

    class PatientProtocol(H11Protocol):
        _head: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > 2 * limits.connections:
                transport.abort()  # even a 503 reply would keep the connection too long
                return
            self._expect_head()

        def data_received(self, data: bytes) -> None:
            before = self.cycle
            super().data_received(data)
            if self.cycle is not before:
                self._forget_head()
            elif self._head is None and (before is None or before.response_complete):
                self._expect_head()

        def connection_lost(self, exc: Exception | None) -> None:
            self._forget_head()
            super().connection_lost(exc)

        def _expect_head(self) -> None:
            self._head = self.loop.call_later(limits.patience, self.transport.abort)

        def _forget_head(self) -> None:
            if self._head is not None:
                self._head.cancel()
                self._head = None

    return PatientProtocol
