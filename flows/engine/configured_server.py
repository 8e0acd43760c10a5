"""Asks whether the server that PREFECT_API_URL names answers, before Prefect is imported.

Prefect itself would try for a quarter of a minute, and then report no cause.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import socket
import ssl
import urllib.error
import urllib.request
from urllib.parse import unquote, urlsplit

from dp_core.errors import BadInput, StageFailed
from flows.engine.site_settings import place_of_setting

PATIENCE_S = 10.0
"""Seconds to wait for a connection."""

_NAME = "PREFECT_API_URL"
_CERTIFICATE = "PREFECT_API_SSL_CERT_FILE"
_UNVERIFIED = "PREFECT_API_TLS_INSECURE_SKIP_VERIFY"
_KEY = "PREFECT_API_KEY"
_AUTH = "PREFECT_API_AUTH_STRING"
_HEADERS = "PREFECT_CLIENT_CUSTOM_HEADERS"

_UNREACHABLE = (ConnectionRefusedError, TimeoutError, socket.gaierror)
_CAUSES = (
    (
        ssl.SSLCertVerificationError,
        "has a certificate that this machine does not trust",
        f"set {_CERTIFICATE} to the certificate of its authority",
    ),
    (
        ssl.SSLError,
        "does not use TLS in the way that the URL asks for",
        "correct http or https in {place}",
    ),
    (
        (http.client.HTTPException, ConnectionResetError),
        "does not speak HTTP",
        "correct http or https, and the port, in {place}",
    ),
    (
        ConnectionRefusedError,
        "refuses the connection, because nothing listens there",
        "start it, correct {place}, or remove it to use a temporary server",
    ),
    (TimeoutError, "cannot be reached", "check the network, its firewall and {place}"),
    (socket.gaierror, "is on a host that is not found", "correct the host in {place}"),
    (OSError, "cannot be reached", "check the network and {place}"),
)
"""Errors, what they say of a server, and what to do; the first that applies counts."""


def require_server(url: str | None = None) -> None:
    """Raise unless Prefect's server answers; do nothing if none is named.

    Args:
        url: URL of its API; by default what PREFECT_API_URL holds, if anything.

    Raises:
        BadInput: if it is no URL.
        StageFailed: if the server cannot be reached, refuses the credentials, or is not Prefect's.
    """
    url = url or os.environ.get(_NAME)
    if url and shown_url(url) is None:
        # privacy: any part of an invalid URL may be a password.
        raise BadInput(
            f"{place_of_setting(_NAME)} does not hold the URL of a Prefect server; write one such"
            " as http://127.0.0.1:4200/api, or remove it to use a temporary server.",
            row="server-unreachable",
        )
    fault = server_fault(url)
    if fault is not None:
        raise StageFailed(
            f"{fault} This command spent nothing; then run or resume again.",
            row="server-unreachable",
        )


def server_fault(url: str | None = None) -> str | None:
    """Return why Prefect's server cannot be used, and what to do, as a sentence.

    Args:
        url: URL of its API; by default what PREFECT_API_URL holds, if anything.

    Returns:
        The sentence, which has the URL without user, password and query; None if the server
        answers, answers slowly, or none is named.
    """
    url = (url or os.environ.get(_NAME, "")).rstrip("/")
    where = shown_url(url)
    found = None if where is None else _cause(url)
    if found is None:
        return None
    says, remedy = found
    return f"Prefect's server at {where} {says}: {remedy}."


def shown_url(url: str) -> str | None:
    """Return a URL of HTTP without user, password, query and fragment; None if it is not one.

    >>> shown_url("https://ada:secret@prefect.example:4200/api?key=1")
    'https://prefect.example:4200/api'
    >>> shown_url("127.0.0.1:4200/api") is None
    True
    """
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return None
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}{port}{parts.path}"


def _cause(url: str) -> tuple[str, str] | None:
    """Return what is wrong with the server at a URL and what to do; None if nothing is."""
    place = place_of_setting(_NAME)
    try:
        status, body = _version_reply(url)
    except (http.client.HTTPException, OSError) as error:
        if isinstance(error, _UNREACHABLE) and _goes_through_proxy(url):
            return (
                "cannot be reached through the proxy that this environment sets",
                "correct the proxy, or add the host to NO_PROXY",
            )
        says, remedy = next(row[1:] for row in _CAUSES if isinstance(error, row[0]))
        return says, remedy.format(place=place)
    if status is None:
        return None  # it is slow; Prefect waits longer
    if status >= 500:
        return f"is not ready (HTTP {status})", "look at its log, and wait until it has started"
    # What Prefect's cloud, or a gate that wants headers of its own, answers here is not known.
    if os.environ.get(_KEY) or os.environ.get(_HEADERS):
        return None
    if status in (401, 403):
        remedy = f"correct {place_of_setting(_AUTH)} (user:password)"
        return "refuses the user or the password", remedy
    if status != http.client.OK or not _is_version(body):
        return "answers, but not as Prefect's API", f"correct {place}, which usually ends in /api"
    return None


def _goes_through_proxy(url: str) -> bool:
    """Return whether requests to a URL go through a proxy that the environment sets."""
    parts = urlsplit(url)
    return parts.scheme in urllib.request.getproxies() and not urllib.request.proxy_bypass(
        parts.hostname or ""
    )


def _version_reply(url: str) -> tuple[int | None, bytes]:
    """Return status and body of the server's version page; the status is None if it is slow.

    Raises:
        OSError: if no connection can be made.
        http.client.HTTPException: if the answer is not HTTP.
    """
    context = ssl.create_default_context(cafile=os.environ.get(_CERTIFICATE) or None)
    if os.environ.get(_UNVERIFIED, "").lower() in ("1", "true", "yes", "on"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    request = urllib.request.Request(f"{shown_url(url)}/version")
    parts = urlsplit(url)
    of_url = f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username else ""
    if os.environ.get(_KEY):
        request.add_header("Authorization", f"Bearer {os.environ[_KEY]}")
    elif auth := os.environ.get(_AUTH) or of_url:
        text = base64.b64encode(auth.encode()).decode("ascii")
        request.add_header("Authorization", f"Basic {text}")
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S, context=context) as answer:
            return answer.status, answer.read(1024)
    except urllib.error.HTTPError as error:
        return error.code, b""
    except urllib.error.URLError as error:
        # It wraps what happened before the request was sent.
        raise (error.reason if isinstance(error.reason, OSError) else error) from None
    except TimeoutError:
        return None, b""


def _is_version(body: bytes) -> bool:
    try:
        return isinstance(json.loads(body), str)
    except ValueError:
        return False
