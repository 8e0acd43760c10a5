"""Starts Prefect's local server for one command before Prefect is imported, to save time.

If no server is configured, Prefect starts one itself. But it starts it late, waits for it, and
imports the whole server into this process too. Here the server loads while this process does its
own imports.
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

# Prefect uses the same settings: no pages and no schedulers, which one command does not need.
_TEMPORARY = {
    "PREFECT_UI_ENABLED": "0",
    "PREFECT__SERVER_EPHEMERAL": "1",
    "PREFECT__SERVER_FINAL": "1",
}
# As `python -m uvicorn`, but with few garbage collections: imported modules are not garbage.
_LAUNCH = "import gc; gc.set_threshold(20_000); from uvicorn.main import main; main()"
_URL = "PREFECT_API_URL"
PATIENCE = "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS"
_WAITING = 128  # connections that may wait until the server accepts the first
_FAREWELL = 5.0  # seconds between the request to end and the kill
_PR_SET_PDEATHSIG = 1  # Linux only; elsewhere the next run ends an orphaned server


class ServerSlow(RuntimeError):
    """The server did not answer in time."""


class OwnServer:
    """A Prefect server that ends with this process.

    Create it before Prefect is imported and before other threads start, because Python code runs
    between the fork and the start of the server.

    Attributes:
        url: URL of its API, on the loopback interface.
    """

    def __init__(self) -> None:
        # Listen before the server runs: no other process can take the port, and an early request
        # waits instead of being refused.
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
        # Prefect reads this variable when it is imported.
        os.environ[_URL] = self.url
        atexit.register(self._end)

    def wait(self) -> None:
        """Wait until the server answers; call it after Prefect is imported.

        Raises:
            ServerSlow: if the server does not answer in time.
            RuntimeError: if the server ended, or answers with an error.
        """
        # Other code takes this variable for a server that the operator configured.
        os.environ.pop(_URL, None)
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
    """Start a server, unless Prefect is already imported or another server may be configured.

    Returns:
        The server; None if Prefect is to find or start one itself.
    """
    if "prefect" in sys.modules or _configured():
        return None
    # The key belongs to a server that is not configured; it would be sent to this one.
    os.environ.pop("PREFECT_API_KEY", None)
    lay_tables(_prefects_home())
    return OwnServer()


def _prefects_home() -> Path:
    named = {name.upper(): value for name, value in os.environ.items()}
    return Path(named.get("PREFECT_HOME") or Path.home() / ".prefect").expanduser()


def _configured() -> bool:
    """Return whether the environment or one of Prefect's configuration files may name a server."""
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
    """Ask the system to end this process when its parent ends, even if the parent is killed.

    Otherwise the server of a killed release keeps running and holds that release's output open.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
