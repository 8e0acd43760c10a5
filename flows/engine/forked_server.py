"""A Prefect server as a fork of this process, which shares the imports that both need.

A fork starts with Prefect's client, SQLAlchemy and Pydantic loaded; a new interpreter would import
them again. It starts before any data are read, keeps no open file of this process, and never
returns to this process's code. Its memory has what this process knew by then: the plan, and the
ledger's URL and signing key.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import socket
import subprocess
import time

from tasks.support.forked_process import fork
from tasks.support.lazy_packages import LazyPackages

_TYPE_CHECKS = LazyPackages([], {"key_value.aio": {}})
"""A package of Prefect's background jobs, whose `__init__` only switches on checks of types. They
take a fifth of a second, and a release has no such jobs."""


class ForkedServer:
    """A process that serves `flows.engine.prefect_api` and ends with this one.

    Import Prefect's client before, and create it before other threads start.

    Args:
        listener: Socket that listens; the server accepts its connections.
        secret: Name and password that a request must give, separated by a colon.
        errors: Descriptor of the file to which the server writes its errors.
    """

    def __init__(self, listener: socket.socket, secret: str, errors: int) -> None:
        # The server writes one byte when it can answer; the pipe closes when it ends.
        self._heard, said = os.pipe()
        # The parent starts the whole server if this one ends, and that reports its errors itself.
        self._pid = fork(
            lambda: _serve(listener, secret, said),
            kept={listener.fileno(), said},
            errors=errors,
        )
        os.close(said)
        self._code: int | None = None

    @property
    def pid(self) -> int:
        """Number of the server's process."""
        return self._pid

    def ready(self, seconds: float) -> bool:
        """Wait until the server can answer.

        Args:
            seconds: Longest time to wait.

        Returns:
            Whether it can answer; False if it ended.

        Raises:
            TimeoutError: if it neither answers nor ends in time.
        """
        if not select.select([self._heard], [], [], seconds)[0]:
            raise TimeoutError
        return os.read(self._heard, 1) != b""

    def terminate(self) -> None:
        """Ask the server to write what it holds and to end."""
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """End the server at once."""
        self._send(signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        """Wait until the server has ended, and return its exit code.

        Args:
            timeout: Longest time to wait, in seconds; None (the default) for no limit.

        Raises:
            subprocess.TimeoutExpired: if it has not ended in time.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while self._code is None:
            left = None if until is None else max(until - time.monotonic(), 0.0)
            if not select.select([self._heard], [], [], left)[0]:
                raise subprocess.TimeoutExpired("Prefect's own server", timeout or 0.0)
            if os.read(self._heard, 1) == b"":
                self._code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        return self._code

    def _send(self, number: signal.Signals) -> None:
        if self._code is None:
            os.kill(self._pid, number)


def _serve(listener: socket.socket, secret: str, said: int) -> None:
    import uvicorn
    from prefect.logging.configuration import setup_logging

    _TYPE_CHECKS.install()
    from flows.engine.prefect_api import WHOLE_SERVER, PrefectApi, is_worth_a_line

    WHOLE_SERVER.install()
    setup_logging()
    logging.getLogger("uvicorn.error").addFilter(is_worth_a_line)

    def on_start() -> None:
        os.write(said, b"1")

    app = PrefectApi(secret, on_start)
    config = uvicorn.Config(app, log_level="error", access_log=False, lifespan="on")
    uvicorn.Server(config).run(sockets=[listener])
