"""Serves Prefect's pages of the runs in a home, on this machine only."""

from __future__ import annotations

import http.client
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from dp_core.errors import BadInput, StageFailed
from flows.engine.configured_server import shown_url
from flows.engine.own_server import end_server
from flows.engine.prefect_tables import lay_tables

HOST = "127.0.0.1"
_URL = "PREFECT_API_URL"
_LOOK = 0.2
"""Seconds between two checks whether the server answers."""
_LONGEST = 300.0
_FAREWELL = 10.0
USER = "dp-release"
"""User in the secret of the pages; the password is drawn at each start."""


def show_pages(port: int, ready: Callable[[str, str], None]) -> None:
    """Run Prefect's server with its pages until the process is told to end.

    Call it after `flows.engine.settings.prepare`. The server plans and starts no runs. It answers
    only requests with a secret that is drawn for this start, and lets the scripts of no other
    origin than its own pages read an answer.

    Args:
        port: Port on the loopback interface.
        ready: Called with the URL of the pages and the secret that they ask for, once they can be
            opened.

    Raises:
        BadInput: if PREFECT_API_URL names another server, which has pages of its own, or the port
            is taken.
        StageFailed: if the server ends, or does not answer.
    """
    if os.environ.get(_URL):
        # The URL may hold a password.
        named = (shown_url(os.environ[_URL]) or "the pages of that server").removesuffix("/api")
        raise BadInput(
            f"{_URL} names a Prefect server, which has pages of its own. Open {named}, or unset"
            f" {_URL} to see the runs of this home."
        )
    _require_free(port)
    folder = Path(os.environ["PREFECT_HOME"]).expanduser()
    lay_tables(folder)
    url, secret = f"http://{HOST}:{port}", f"{USER}:{secrets.token_urlsafe(24)}"
    command = [sys.executable, "-W", "ignore", "-m", "prefect", "server", "start"]
    command += ["--host", HOST, "--port", str(port), "--no-services"]
    environment = {
        **os.environ,
        "PREFECT_UI_API_URL": f"{url}/api",
        # Prefect copies its pages there; its own folder may be read-only.
        "PREFECT_UI_STATIC_DIRECTORY": str(folder / "pages"),
        # privacy: neither other pages in the same browser nor other users of this machine may read
        # the runs or change them. By default Prefect's server answers them all.
        "PREFECT_SERVER_API_AUTH_STRING": secret,
        "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": url,
        "PREFECT_SERVER_CSRF_PROTECTION_ENABLED": "true",
    }
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    try:
        _wait(process, port)
        ready(url, secret)
        code = process.wait()
    except KeyboardInterrupt:
        return
    finally:
        end_server(process, _FAREWELL)
    if code not in (0, -signal.SIGTERM, 128 + signal.SIGTERM):
        raise StageFailed(f"Prefect's server ended with {code}; its output above says why.")


def _require_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise BadInput(
                f"Cannot listen on {HOST}:{port} ({error.strerror}); give another --port, or stop"
                " the program that uses it."
            ) from None


def _wait(process: subprocess.Popen[bytes], port: int) -> None:
    """Wait until the server answers.

    Raises:
        StageFailed: if it ends, or does not answer in time.
    """
    until = time.monotonic() + _LONGEST
    while time.monotonic() < until and process.poll() is None:
        connection = http.client.HTTPConnection(HOST, port, timeout=_LOOK * 10)
        try:
            connection.request("GET", "/api/health")
            if connection.getresponse().status == http.client.OK:
                return
        except OSError:
            time.sleep(_LOOK)
        finally:
            connection.close()
    if process.poll() is None:
        raise StageFailed("Prefect's server did not answer in time; this machine may be very busy.")
    raise StageFailed(f"Prefect's server ended with {process.returncode} before it answered.")
