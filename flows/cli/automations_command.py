"""`dp-release automations`: alerts on a Prefect server."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from flows.cli.command_parts import Words, this_home, with_json


@click.group(cls=Words)
def automations() -> None:
    """Alerts, as automations of a Prefect server."""


@automations.command("apply")
@click.argument("file", type=click.Path(path_type=Path))
@with_json
def apply_file(file: Path, as_json: bool) -> Mapping[str, object]:
    """Make the alerts of a file, or change those of the same name.

    The server is PREFECT_API_URL; whom to tell is DP_RELEASE_ALERT_WEBHOOK (a URL) or
    DP_RELEASE_ALERT_BLOCK (a notification block of the server, as slack-webhook/night).
    """
    from flows.engine.settings import prepare

    prepare(this_home())
    from flows.monitoring.automations import BLOCK, WEBHOOK, apply

    answer = apply(file)
    if not as_json:
        for verb in ("made", "changed"):
            names = answer[verb]
            assert isinstance(names, list)
            for name in names:
                click.echo(f"{verb:<9}{name}")
        if answer["told_by"] is None:
            click.echo(
                f"Nobody is told: without {WEBHOOK} or {BLOCK} alerts show in Prefect's event feed"
                " only."
            )
    return answer
