"""Serves Prefect's pages of the runs in a home, on this machine only."""

from __future__ import annotations

import os
import secrets
import signal
import socket
from collections.abc import Callable
from pathlib import Path

from dp_core.errors import BadInput, StageFailed
from flows.engine.configured_server import shown_url
from flows.engine.own_server import end_server, require_health, start_whole_server
from flows.engine.prefect_tables import lay_tables

HOST = "127.0.0.1"
_URL = "PREFECT_API_URL"
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
    folder = Path(os.environ["PREFECT_HOME"]).expanduser()
    lay_tables(folder)
    url, secret = f"http://{HOST}:{port}", f"{USER}:{secrets.token_urlsafe(24)}"
    environment = {
        **os.environ,
        "PREFECT__SERVER_WEBSERVER_ONLY": "1",  # no schedulers
        "PREFECT_UI_API_URL": f"{url}/api",
        # Prefect copies its pages there; its own folder may be read-only.
        "PREFECT_UI_STATIC_DIRECTORY": str(folder / "pages"),
        # privacy: neither other pages in the same browser nor other users of this machine may read
        # the runs or change them. By default Prefect's server answers them all.
        "PREFECT_SERVER_API_AUTH_STRING": secret,
        "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": url,
        "PREFECT_SERVER_CSRF_PROTECTION_ENABLED": "true",
    }
    with _listener(port) as listener:
        process = start_whole_server(listener, environment)
    signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    try:
        require_health(process, port, _LONGEST)
        ready(url, secret)
        code = process.wait()
    except RuntimeError:
        raise StageFailed("Prefect's server did not start; its output above says why.") from None
    except KeyboardInterrupt:
        return
    finally:
        end_server(process, _FAREWELL)
    if code not in (0, -signal.SIGTERM, 128 + signal.SIGTERM):
        raise StageFailed(f"Prefect's server ended with {code}; its output above says why.")


def _listener(port: int) -> socket.socket:
    """Return a socket that listens.

    Raises:
        BadInput: if the port is taken.
    """
    try:
        return socket.create_server((HOST, port))
    except OSError as error:
        raise BadInput(
            f"Cannot listen on {HOST}:{port} ({error.strerror}); give another --port, or stop the"
            " program that uses it."
        ) from None
