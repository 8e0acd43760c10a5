"""Emits Prefect events about releases and the ledger; public values only.

In a flow run, events go to the run's server. A command sends them to the server that
`PREFECT_API_URL` names; without one it sends none. An event that cannot be sent is dropped, so that
a release or a decision does not fail because of it.
"""

from __future__ import annotations

import os
import ssl
import sys
import uuid
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Literal

PATIENCE_S = 5.0
"""Seconds that a command waits for the server to answer."""


def tell_release(
    what: str,
    release: str,
    account: str | None,
    *,
    sentence: str = "",
    code: int = 0,
    row: str | None = None,
) -> None:
    """Emit an event about a release.

    Args:
        what: Last part of the event's name, such as `published`, `held` or `resumed`.
        release: Name of the release.
        account: Account that pays; None if it is not known.
        sentence: Message for people: what happened, and what to do; empty by default.
        code: Exit code of the command; 0 by default.
        row: Runbook row that says what to do; None for none.
    """
    payload: dict[str, object] = {
        "release": release,
        "account": account,
        "outcome": what,
        "sentence": sentence,
        "exit_code": code,
        "runbook": row,
    }
    _tell(
        f"dp-release.release.{what}",
        _resource("release", release),
        account,
        payload,
    )


def tell_check(of: Literal["ledger", "bundles"], what: str, sentence: str, row: str | None) -> None:
    """Emit an event about a check of the ledger, or of all published bundles.

    Args:
        of: What was checked.
        what: Last part of the event's name: `verified` or `verification-failed`.
        sentence: Message for people.
        row: Runbook row that says what to do; None for none.
    """
    resource = {"prefect.resource.id": f"dp-release.{of}", "prefect.resource.name": of}
    payload: dict[str, object] = {"sentence": sentence, "runbook": row}
    _tell(f"dp-release.{of}.{what}", resource, None, payload)


def _resource(kind: str, name: str) -> dict[str, str]:
    return {"prefect.resource.id": f"dp-release.{kind}.{name}", "prefect.resource.name": name}


def _tell(
    event: str, resource: dict[str, str], account: str | None, payload: Mapping[str, object]
) -> None:
    related = (
        []
        if account is None
        else [_resource("account", account) | {"prefect.resource.role": "account"}]
    )
    # The event is dropped if it cannot be sent: nobody on duty could act on that error.
    with suppress(Exception):
        if _in_flow():
            from prefect.events import emit_event

            emit_event(event, resource=resource, related=related, payload=dict(payload))
        elif os.environ.get("PREFECT_API_URL"):
            _post(event, resource, related, payload)


def _in_flow() -> bool:
    if "prefect" not in sys.modules:
        return False  # importing Prefect to find out would take a second
    from prefect.context import FlowRunContext

    return FlowRunContext.get() is not None


def _post(
    event: str,
    resource: dict[str, str],
    related: list[dict[str, str]],
    payload: Mapping[str, object],
) -> None:
    """Send one event over HTTP, and wait for at most `PATIENCE_S` seconds.

    Prefect's client is not used: its import takes a second, and it retries many times if the server
    does not answer.
    """
    import httpx

    body = {
        "id": str(uuid.uuid4()),
        "occurred": datetime.now(UTC).isoformat(),
        "event": event,
        "resource": resource,
        "related": related,
        "payload": dict(payload),
    }
    trusted = os.environ.get("PREFECT_API_SSL_CERT_FILE")
    context = ssl.create_default_context(cafile=trusted)
    headers, auth = {}, None
    if os.environ.get("PREFECT_API_KEY"):
        headers["authorization"] = f"Bearer {os.environ['PREFECT_API_KEY']}"
    elif os.environ.get("PREFECT_API_AUTH_STRING"):
        user, _, password = os.environ["PREFECT_API_AUTH_STRING"].partition(":")
        auth = httpx.BasicAuth(user, password)
    address = os.environ["PREFECT_API_URL"].rstrip("/")
    with httpx.Client(verify=context, timeout=PATIENCE_S, headers=headers, auth=auth) as client:
        client.post(f"{address}/events", json=[body])
