"""Prefect's own server for one command, started before Prefect is imported: both load at once.

Prefect starts a server by itself where none is named, but only once it is asked for, waits for it,
and imports all of it into this process as well. Here the same server has loaded while this process
imports what it needs.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import http.client
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

from flows.engine.orphaned_servers import SERVER
from flows.engine.prefect_tables import lay_tables

# As Prefect starts its own: without its pages and schedulers, which one command has no use for.
_TEMPORARY = {
    "PREFECT_UI_ENABLED": "0",
    "PREFECT__SERVER_EPHEMERAL": "1",
    "PREFECT__SERVER_FINAL": "1",
}
# `python -m uvicorn`; what it imports stays, and Python need not search it for garbage meanwhile.
_LAUNCH = "import gc; gc.set_threshold(20_000); from uvicorn.main import main; main()"
_URL = "PREFECT_API_URL"
PATIENCE = "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS"
_WAITING = 128  # connections that may wait before the server takes the first
_FAREWELL = 5.0  # seconds
_PR_SET_PDEATHSIG = 1  # of Linux; elsewhere the next run ends what was left


class ServerSlow(RuntimeError):
    """The server did not answer in time."""


class OwnServer:
    """A server that ends with this process; Prefect must not have been imported before.

    It is to be started before other threads are: what it does before it runs is Python.

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
            command = [sys.executable, "-c", _LAUNCH, "--factory", SERVER]
            command += ["--fd", str(listener.fileno()), "--log-level", "error", "--lifespan", "on"]
            self._process = subprocess.Popen(
                command,
                env={**os.environ, **_TEMPORARY},
                pass_fds=[listener.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                preexec_fn=_end_with_parent,
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
        seconds = float(os.environ.get(PATIENCE, "300"))
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
    if "prefect" in sys.modules or _configured():
        return None
    # Of a server that is not named; it would be sent to this one.
    os.environ.pop("PREFECT_API_KEY", None)
    lay_tables(_prefects_home())
    return OwnServer()


def _prefects_home() -> Path:
    named = {name.upper(): value for name, value in os.environ.items()}
    return Path(named.get("PREFECT_HOME") or Path.home() / ".prefect").expanduser()


def _configured() -> bool:
    """Return whether the environment or one of Prefect's own files may name a server."""
    named = {name.upper(): value for name, value in os.environ.items()}
    if named.get(_URL) or named.get("PREFECT_SERVER_ALLOW_EPHEMERAL_MODE"):
        return True
    folder = _prefects_home()
    profiles = named.get("PREFECT_PROFILES_PATH") or folder / "profiles.toml"
    for file, word in (
        (Path(profiles).expanduser(), r"api_url"),
        (Path("prefect.toml"), r""),
        (Path("pyproject.toml"), r"tool\W+prefect|^\s*prefect\s*="),
        (Path(".env"), r"prefect_"),
    ):
        try:
            text = file.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            continue
        except OSError:
            return True
        if re.search(word, text, re.IGNORECASE | re.MULTILINE):
            return True
    return False


def _end_with_parent() -> None:
    """Ask the system to end this process when its parent is gone, however that ended.

    Otherwise the server of a release that was killed goes on, and holds its output open.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
