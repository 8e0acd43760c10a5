"""Alerts as Prefect automations: reads them from a file, and puts them on a Prefect server."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dp_core.errors import BadInput, StageFailed
from dp_core.text.pages.answer import CommandAnswer
from dp_core.text.pages.page import Block, Fact, Sentence
from flows.engine.configured_server import require_server, shown_url

WEBHOOK = "DP_RELEASE_ALERT_WEBHOOK"
"""Environment variable: URL that alerts are posted to. An option would show in process lists."""

BLOCK = "DP_RELEASE_ALERT_BLOCK"
"""Environment variable: a notification block of the server, such as `slack-webhook/night`."""

BLOCK_NAME = "dp-release-alerts"

_SENTENCE = "{{ event.payload.get('sentence', '') if event else '' }}"
_RESOURCE = "{{ event.resource.get('prefect.resource.id', '') if event else '' }}"
_ROW = "{{ event.payload.get('runbook', '') or '' if event else '' }}"


def read_automations(path: Path) -> list[dict[str, Any]]:
    """Return the automations in a file, each checked by Prefect's own model.

    Args:
        path: Path of a YAML file that holds a list of automations.

    Raises:
        BadInput: if the file cannot be read or is not a list of valid automations.
    """
    import yaml
    from prefect.events.schemas.automations import AutomationCore

    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"The file {path} cannot be read ({error.strerror}).") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise BadInput(
            f"The file {path} is not valid YAML; see deployments/automations.yaml for an example."
        ) from None
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise BadInput(f"The file {path} is not a list of automations.")
    for number, one in enumerate(found, start=1):
        try:
            AutomationCore.model_validate(one)
        except (ValueError, TypeError) as error:
            first = str(error).splitlines()[1:3]
            raise BadInput(
                f"Automation {number} of {path} ({one.get('name', 'without a name')!s:.60}) is not"
                f" valid: {' '.join(map(str.strip, first))}."
            ) from None
    names = [one["name"] for one in found]
    if len({*names}) < len(names):
        raise BadInput(f"Two automations of {path} have the same name; give each a different one.")
    return found


def apply(path: Path) -> CommandAnswer:
    """Create or update the automations of a file on the server that `PREFECT_API_URL` names.

    Args:
        path: Path of a YAML file that holds a list of automations.

    Raises:
        BadInput: if the file or the block is invalid, or `PREFECT_API_URL` is not set.
        StageFailed: if the server cannot be reached, or does not accept the automations.
    """
    if not os.environ.get("PREFECT_API_URL"):
        raise BadInput(
            "No Prefect server is named; set PREFECT_API_URL, such as http://127.0.0.1:4200/api."
        )
    wanted = read_automations(path)
    require_server()
    import httpx
    from prefect.events.schemas.automations import AutomationCore
    from prefect.exceptions import ObjectNotFound

    made, changed = [], []
    try:
        action = _action()
        from prefect.client.orchestration import get_client

        with get_client(sync_client=True) as client:
            for one in wanted:
                core = AutomationCore.model_validate({**one, "actions": [action(one)]})
                known = client.read_automations_by_name(core.name)
                if known:
                    client.update_automation(known[0].id, core)
                    changed.append(core.name)
                else:
                    client.create_automation(core)
                    made.append(core.name)
    except ObjectNotFound:
        raise BadInput(
            f"{BLOCK} does not name a block of the server; `prefect block ls` lists them."
        ) from None
    except (httpx.HTTPError, OSError, RuntimeError) as error:
        raise StageFailed(
            f"The Prefect server at {shown_url(os.environ['PREFECT_API_URL'])} did not take the"
            f" automations ({type(error).__name__}). Check that it runs, then apply them again."
        ) from None
    told = WEBHOOK if os.environ.get(WEBHOOK) else BLOCK if os.environ.get(BLOCK) else None
    page: list[Block] = [Fact("made", name) for name in made]
    page += [Fact("changed", name) for name in changed]
    if told is None:
        page.append(
            Sentence(
                "No recipient is set: alerts appear only in Prefect's event feed. Set"
                f" {WEBHOOK} or {BLOCK} to send them."
            )
        )
    # `told_by` is the environment variable that names the recipient.
    return CommandAnswer({"made": made, "changed": changed, "told_by": told}, tuple(page))


def _action() -> Any:
    """Return a function that gives an automation's action, as the environment variables ask."""
    from prefect.blocks.webhook import Webhook
    from prefect.client.orchestration import get_client
    from pydantic import SecretStr

    url, named = os.environ.get(WEBHOOK), os.environ.get(BLOCK)
    if url:
        headers: Any = {"content-type": "application/json"}
        block = Webhook(url=SecretStr(url), headers=headers).save(BLOCK_NAME, overwrite=True)
        return lambda _one: {
            "type": "call-webhook",
            "block_document_id": str(block),
            "payload": _payload(),
        }
    if named:
        kind, _, name = named.partition("/")
        with get_client(sync_client=True) as client:
            block = client.read_block_document_by_name(name, block_type_slug=kind).id
        return lambda one: {
            "type": "send-notification",
            "block_document_id": str(block),
            "subject": str(one["name"]),
            "body": f"{one['description']}\n\n{_RESOURCE}\n{_SENTENCE}\nRunbook: {_ROW}",
        }
    return lambda _one: {"type": "do-nothing"}


def _payload() -> str:
    fields: Mapping[str, str] = {
        "alert": "{{ automation.name | tojson }}",
        "means": "{{ automation.description | tojson }}",
        "about": "{{ (event.resource.get('prefect.resource.id', '') if event else '') | tojson }}",
        "sentence": "{{ (event.payload.get('sentence', '') if event else '') | tojson }}",
        "runbook": "{{ (event.payload.get('runbook') if event else None) | tojson }}",
    }
    return "{" + ", ".join(f'"{name}": {value}' for name, value in fields.items()) + "}"
