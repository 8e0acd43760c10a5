"""What happened to releases and ledger, as events of Prefect: public values only.

A run of the release flow tells its server; a command tells the one that `PREFECT_API_URL` names,
and without one nobody. Whoever listens is told as far as it can be reached: a release or a decision
does not fail by it.
"""

from __future__ import annotations

import os
import ssl
import sys
import uuid
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime

PATIENCE_S = 5.0
"""How long a command waits for a server that does not answer."""

LEDGER = "dp-release.ledger"
BUNDLES = "dp-release.bundles"


def tell_release(
    what: str,
    release: str,
    account: str | None,
    *,
    sentence: str = "",
    code: int = 0,
    row: str | None = None,
) -> None:
    """Tell what happened to a release.

    Args:
        what: The last part of the event's name: `published`, `held`, `resumed`, ...
        release: Its name.
        account: That pays for it, None where it is not known.
        sentence: What people are told: what happened, and what to do.
        code: Exit code of the command that ran it.
        row: Heading of the runbook that says what to do; None for none.
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
        f"{LEDGER.partition('.')[0]}.release.{what}",
        _resource("release", release),
        account,
        payload,
    )


def tell_ledger(what: str, sentence: str, *, row: str | None = None) -> None:
    """Tell what a check of the ledger found.

    Args:
        what: `verified` or `verification-failed`.
        sentence: What people are told.
        row: Heading of the runbook that says what to do; None for none.
    """
    _tell_of(LEDGER, what, sentence, row)


def tell_bundles(what: str, sentence: str, *, row: str | None = None) -> None:
    """Tell what a check of all published bundles found.

    Args:
        what: `verification-failed`.
        sentence: What people are told.
        row: Heading of the runbook that says what to do; None for none.
    """
    _tell_of(BUNDLES, what, sentence, row)


def _tell_of(whole: str, what: str, sentence: str, row: str | None) -> None:
    resource = {"prefect.resource.id": whole, "prefect.resource.name": whole.rpartition(".")[2]}
    payload: dict[str, object] = {"sentence": sentence, "runbook": row}
    _tell(f"{whole}.{what}", resource, None, payload)


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
    # What went wrong with telling is nothing that a person at night could use.
    with suppress(Exception):
        if _in_flow():
            from prefect.events import emit_event

            emit_event(event, resource=resource, related=related, payload=dict(payload))
        elif os.environ.get("PREFECT_API_URL"):
            _post(event, resource, related, payload)


def _in_flow() -> bool:
    if "prefect" not in sys.modules:
        return False  # to ask would take a second, and the answer is known
    from prefect.context import FlowRunContext

    return FlowRunContext.get() is not None


def _post(
    event: str,
    resource: dict[str, str],
    related: list[dict[str, str]],
    payload: Mapping[str, object],
) -> None:
    """Send one event, and wait for no more than `PATIENCE_S`.

    By hand: to import Prefect takes a second, and its client asks a server that does not answer
    again and again.
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
