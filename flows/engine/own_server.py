"""Starts Prefect's local server for one command before Prefect is imported, to save time.

If no server is configured, Prefect starts one itself. But it starts it late, waits for it, and
imports the whole server into this process too. Here the server loads while this process does its
own imports.

Of two servers the smaller one that suffices is started:

- usually a fork of this process with the part of Prefect's API that a release uses
  (`flows.engine.prefect_api`);
- Prefect's whole server, if Prefect's version is not the locked one, its database must be migrated
  or has automations, the operator set something for the server, the system is not Linux, or the
  fork fails.

Both listen on the loopback interface, and answer only requests with the secret that is drawn for
this command.
"""

from __future__ import annotations

import atexit
import contextlib
import http.client
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from flows.engine.forked_server import ForkedServer
from flows.engine.prefect_tables import lay_tables, need_whole_server
from flows.engine.site_settings import (
    EPHEMERAL,
    files_with,
    leaves,
    prefect_settings,
    prefects_home,
)
from tasks.support.forked_process import can_fork, end_with_parent

if TYPE_CHECKING:
    from prefect.settings import Settings

# Prefect uses the same settings: no pages and no schedulers, which one command does not need.
_TEMPORARY = {
    "PREFECT_UI_ENABLED": "0",
    "PREFECT__SERVER_EPHEMERAL": "1",
    "PREFECT__SERVER_FINAL": "1",
}
# As `python -m uvicorn`, but with few garbage collections: imported modules are not garbage.
_LAUNCH = "import gc; gc.set_threshold(20_000); from uvicorn.main import main; main()"
SERVER = "prefect.server.api.server:create_app"
"""Application of Prefect's whole server."""
_URL = "PREFECT_API_URL"
_SECRETS = ("PREFECT_API_AUTH_STRING", "PREFECT_SERVER_API_AUTH_STRING")
PATIENCE = "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS"
ERRORS = "own-server.log"
"""File in Prefect's folder with the errors of the server that was started last."""
_WAITING = 128  # connections that may wait until the server accepts the first
_FAREWELL = 5.0  # seconds between the request to end and the kill
_OURS = {
    "analytics_enabled",
    "api.auth_string",
    "ephemeral.enabled",
    "ephemeral.startup_timeout_seconds",
}
"""Settings of the server that the program makes itself, or that are for its start."""


_SHARED = ("prefect.artifacts", "prefect.events", "prefect.flow_engine", "prefect.task_engine")
"""Modules that both the flow and a forked server need."""


class ServerSlow(RuntimeError):
    """The server did not answer in time."""


class OwnServer:
    """A Prefect server that ends with this process.

    Create it before Prefect is imported and before other threads start, because Python code runs
    between the fork and the start of the server.

    Args:
        whole: Whether to start Prefect's whole server; True by default. Otherwise it starts the
            smaller server unless the operator has set something for Prefect's server. Both import
            Prefect's client.

    Attributes:
        url: URL of its API, on the loopback interface.
    """

    def __init__(self, *, whole: bool = True) -> None:
        # Listen before the server runs: no other process can take the port, and an early request
        # waits instead of being refused.
        self._listener = socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(_WAITING)
        self._port = int(self._listener.getsockname()[1])
        self.url = f"http://127.0.0.1:{self._port}/api"
        self._secret = f"dp-release:{secrets.token_urlsafe(32)}"
        # Prefect reads these variables when it is imported.
        os.environ.update({_URL: self.url} | dict.fromkeys(_SECRETS, self._secret))
        self._errors = _error_file()
        # What is registered first is called last: Prefect sends its last events before.
        atexit.register(self._end)
        self._process: subprocess.Popen[bytes] | ForkedServer | None = None
        if not whole and _suffices():
            self._process = ForkedServer(self._listener, self._secret, self._errors)
        else:
            # privacy: a server that cannot read the settings prints their values.
            prefect_settings(own_server=True)
            self._process = self._start_whole()

    def wait(self) -> None:
        """Wait until the server answers; call it after Prefect is imported.

        Raises:
            ServerSlow: if the server does not answer in time.
            RuntimeError: if the server ended, or answers with an error.
        """
        seconds = float(os.environ.get(PATIENCE, "300"))
        if isinstance(self._process, ForkedServer):
            try:
                answers = self._process.ready(seconds)
            except TimeoutError:
                raise ServerSlow("Prefect's own server did not answer in time.") from None
            if not answers:
                self._process.wait()
                self._process = self._start_whole()
        self._listener.close()
        os.close(self._errors)
        # Other code takes these variables for a server that the operator configured.
        for name in (_URL, *_SECRETS):
            os.environ.pop(name, None)
        if isinstance(self._process, subprocess.Popen):
            require_health(self._process, self._port, seconds)

    def _start_whole(self) -> subprocess.Popen[bytes]:
        started = start_whole_server(self._listener, {**os.environ, **_TEMPORARY}, self._errors)
        self._listener.close()
        return started

    def _end(self) -> None:
        if self._process is None:  # its start failed
            return
        end_server(self._process, _FAREWELL)


def start_whole_server(
    listener: socket.socket, environment: Mapping[str, str], errors: int | None = None
) -> subprocess.Popen[bytes]:
    """Start Prefect's whole server in a new interpreter.

    Args:
        listener: Socket that listens; the server accepts its connections.
        environment: Its environment.
        errors: Descriptor for its errors; None (the default) for the standard error.
    """
    command = [sys.executable, "-W", "ignore", "-c", _LAUNCH, "--factory", SERVER]
    command += ["--fd", str(listener.fileno()), "--log-level", "error", "--lifespan", "on"]
    return subprocess.Popen(
        command,
        env=environment,
        pass_fds=[listener.fileno()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=errors,
        start_new_session=True,  # Ctrl-C is for this process, which reports its end to it
        preexec_fn=end_with_parent,
    )


def require_health(process: subprocess.Popen[bytes], port: int, seconds: float) -> None:
    """Wait until a server answers.

    Raises:
        ServerSlow: if it does not answer in time.
        RuntimeError: if it ended, or answers with an error.
    """
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)
    with contextlib.closing(connection):
        try:
            connection.request("GET", "/api/health")
            status = connection.getresponse().status
        except TimeoutError:
            raise ServerSlow("Prefect's own server did not answer in time.") from None
        except (OSError, http.client.HTTPException):
            code = process.wait()
            raise RuntimeError(
                f"Prefect's own server ended with {code}; see {prefects_home() / ERRORS}."
            ) from None
    if status != http.client.OK:
        raise RuntimeError(
            f"Prefect's own server answers {status}; see {prefects_home() / ERRORS}."
        )


def end_server(process: subprocess.Popen[bytes] | ForkedServer, seconds: float) -> None:
    """Ask a server to end; kill it if it takes more seconds than that."""
    process.terminate()
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _error_file() -> int:
    """Return the descriptor of a file for the server's errors, which are not for the terminal.

    If there can be none, such as on a full disk, it is that of the null device.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    try:
        return os.open(prefects_home() / ERRORS, flags, 0o600)
    except OSError:
        return os.open(os.devnull, os.O_WRONLY)


def start_own_server() -> OwnServer | None:
    """Start a server, unless Prefect is already imported or another server may be configured.

    Returns:
        The server; None if Prefect is to find or start one itself.
    """
    if "prefect" in sys.modules or _names_a_server():
        return None
    # The key belongs to a server that is not configured; it would be sent to this one.
    os.environ.pop("PREFECT_API_KEY", None)
    folder = prefects_home()
    lay_tables(folder)
    return OwnServer(whole=not can_fork() or need_whole_server(folder))


def _suffices() -> bool:
    """Import what a forked server shares; return whether Prefect's settings allow such a server.

    They do if nothing is set for Prefect's server, in the environment, a profile or another file.
    """
    settings = prefect_settings(own_server=True)
    for name in _SHARED:
        import_module(name)
    return has_plain_server(settings)


def has_plain_server(settings: Settings) -> bool:
    """Return whether Prefect's settings say nothing of its server that we did not set ourselves."""
    return leaves(settings.server.model_dump(exclude_unset=True)) <= _OURS


def _names_a_server() -> bool:
    """Return whether the environment or one of Prefect's configuration files names a server."""
    named = {name.upper(): value for name, value in os.environ.items()}
    return bool(named.get(_URL) or named.get(EPHEMERAL[0]) or files_with({_URL, *EPHEMERAL}))
