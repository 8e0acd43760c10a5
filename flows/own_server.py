"""Prefect's own server for one command, started before Prefect is imported: both load at once.

Prefect starts a server by itself where none is named, but only once it is asked for, waits for it,
and imports all of it into this process as well. Here the same server has loaded while this process
imports what it needs.
"""

from __future__ import annotations

import atexit
import contextlib
import http.client
import os
import socket
import subprocess
import sys
from pathlib import Path

from flows.orphans import SERVER, mark

# As Prefect starts its own: without its pages and schedulers, which one command has no use for.
_TEMPORARY = {
    "PREFECT_UI_ENABLED": "0",
    "PREFECT__SERVER_EPHEMERAL": "1",
    "PREFECT__SERVER_FINAL": "1",
}
_URL = "PREFECT_API_URL"
_PATIENCE = "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS"
_WAITING = 128  # connections that may wait before the server takes the first
_FAREWELL = 5.0  # seconds


class ServerSlow(RuntimeError):
    """The server did not answer in time."""


class OwnServer:
    """A server that ends with this process; Prefect must not have been imported before.

    Attributes:
        url: Of its API; on the loopback interface.
    """

    def __init__(self) -> None:
        # Listening before there is a server: no port is lost to another process meanwhile, and
        # who asks too early waits instead of being refused.
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(_WAITING)
            self._port = int(listener.getsockname()[1])
            self.url = f"http://127.0.0.1:{self._port}/api"
            mark()
            command = [sys.executable, "-m", "uvicorn", "--factory", SERVER]
            command += ["--fd", str(listener.fileno()), "--log-level", "error", "--lifespan", "on"]
            self._process = subprocess.Popen(
                command, env={**os.environ, **_TEMPORARY}, pass_fds=[listener.fileno()]
            )
        # Prefect reads it when it is imported.
        os.environ[_URL] = self.url
        atexit.register(self._end)

    def wait(self) -> None:
        """Wait until it answers; Prefect must have been imported.

        Raises:
            ServerSlow: if it does not in time.
            RuntimeError: if it ended, having said why.
        """
        os.environ.pop(_URL, None)  # what others find there is a server that an operator named
        seconds = float(os.environ.get(_PATIENCE, "300"))
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=seconds)
        with contextlib.closing(connection):
            try:
                connection.request("GET", "/api/health")
                status = connection.getresponse().status
            except TimeoutError:
                raise ServerSlow("Prefect's own server did not answer in time.") from None
            except OSError:
                code = self._process.wait()
                raise RuntimeError(f"Prefect's own server ended with {code}.") from None
        if status != http.client.OK:
            raise RuntimeError(f"Prefect's own server answers {status}.")

    def _end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(timeout=_FAREWELL)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def start_own_server() -> OwnServer | None:
    """Start a server, or leave it to Prefect: where it is loaded, or may be told of another."""
    if "prefect" in sys.modules or os.environ.get(_URL) or _configured():
        return None
    return OwnServer()


def _configured() -> bool:
    """Return whether one of Prefect's own files may name a server."""
    folder = Path(os.environ.get("PREFECT_HOME") or Path.home() / ".prefect").expanduser()
    profiles = os.environ.get("PREFECT_PROFILES_PATH") or folder / "profiles.toml"
    for file, word in (
        (Path(profiles).expanduser(), "API_URL"),
        (Path("prefect.toml"), "api"),
        (Path("pyproject.toml"), "[tool.prefect"),
        (Path(".env"), "PREFECT_"),
    ):
        try:
            if word in file.read_text(encoding="utf-8", errors="replace"):
                return True
        except FileNotFoundError:
            continue
        except OSError:
            return True
    return False
