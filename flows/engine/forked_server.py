"""A Prefect server as a fork of this process, which shares the imports that both need.

A fork starts with Prefect's client, SQLAlchemy and Pydantic loaded; a new interpreter would import
them again. It starts before any data are read, keeps no open file of this process, and never
returns to this process's code. Its memory has what this process knew by then: the plan, and the
ledger's URL and signing key.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from typing import NoReturn

from tasks.support.lazy_packages import LazyPackages

_TYPE_CHECKS = LazyPackages([], {"key_value.aio": {}})
"""A package of Prefect's background jobs, whose `__init__` only switches on checks of types. They
take a fifth of a second, and a release has no such jobs."""

_PR_SET_PDEATHSIG = 1  # Linux only
_STDERR = 2
_FEW_COLLECTIONS = 20_000  # imported modules are not garbage


def can_fork() -> bool:
    """Return whether this process can be forked safely: on Linux, without other Python threads."""
    return sys.platform == "linux" and threading.active_count() == 1


def end_with_parent() -> None:
    """Ask the system to end this process when its parent ends, even if the parent is killed.

    Otherwise the server of a killed release keeps running and holds that release's output open.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class ForkedServer:
    """A process that serves `flows.engine.prefect_api` and ends with this one.

    Import Prefect's client before, and create it before other threads start.

    Args:
        listener: Socket that listens; the server accepts its connections.
        secret: Name and password that a request must give, separated by a colon.
        errors: Descriptor of the file to which the server writes its errors.
    """

    def __init__(self, listener: socket.socket, secret: str, errors: int) -> None:
        parent = os.getpid()
        # The server writes one byte when it can answer; the pipe closes when it ends.
        self._heard, said = os.pipe()
        with warnings.catch_warnings():
            # NumPy's threads are asleep, and the server does not use NumPy.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._pid = os.fork()
        if self._pid == 0:
            _become_server(listener, secret, errors, said, parent)
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


def _become_server(
    listener: socket.socket, secret: str, errors: int, said: int, parent: int
) -> NoReturn:
    """Serve until asked to end; nothing of the parent's program runs in this process again."""
    code = 1
    try:
        end_with_parent()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        # Ctrl-C is for the release, which still reports its end to the server.
        os.setsid()
        os.dup2(errors, _STDERR)
        _let_go(kept={listener.fileno(), said})
        # No object of the parent is collected here: to close its database connection would disturb
        # the parent's.
        gc.freeze()
        gc.set_threshold(_FEW_COLLECTIONS)
        if os.getppid() == parent:
            _serve(listener, secret, said)
            code = 0
    finally:
        # The parent starts the whole server if this one ends, and that reports its errors itself.
        os._exit(code)


def _let_go(kept: set[int]) -> None:
    """Give up the parent's open files, with their locks, and its standard input and output.

    Standard error is the file of the server's errors and stays. The others are replaced by the null
    device, not closed. A closed number would be given to a file of the server, into which an object
    of the parent might then write.
    """
    null = os.open(os.devnull, os.O_RDWR)
    for name in os.listdir("/proc/self/fd"):
        number = int(name)
        if number not in kept and number not in (null, _STDERR):
            with contextlib.suppress(OSError):
                os.fstat(number)  # the folder that was listed is closed again
                os.dup2(null, number, inheritable=False)


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
