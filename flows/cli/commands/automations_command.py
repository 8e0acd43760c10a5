"""`dp-release automations`: alerts on a Prefect server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from flows.cli.command_parts import PATH, CommandGroup, answering, cli, this_home
from flows.cli.missing_packages import require_pipeline

if TYPE_CHECKING:
    from rich.console import Console

    from flows.monitoring.automations import AppliedAutomations


@cli.group(cls=CommandGroup)
def automations() -> None:
    """Manage alerts on a Prefect server."""


def _print(_console: Console, answer: AppliedAutomations) -> None:
    from flows.monitoring.automations import BLOCK, WEBHOOK

    for verb, names in (("made", answer.made), ("changed", answer.changed)):
        for name in names:
            click.echo(f"{verb:<9}{name}")
    if answer.told_by is None:
        click.echo(
            f"No recipient is set: alerts appear only in Prefect's event feed. Set {WEBHOOK} or"
            f" {BLOCK} to send them."
        )


@automations.command("apply")
@click.argument("file", type=PATH)
@answering(_print)
def apply_file(file: Path) -> AppliedAutomations:
    """Create or update the alerts that a file describes.

    PREFECT_API_URL names the server. DP_RELEASE_ALERT_WEBHOOK (a URL) or DP_RELEASE_ALERT_BLOCK (a
    notification block of the server, such as slack-webhook/night) names the recipient.
    """
    require_pipeline()
    from flows.engine.settings import prepare

    prepare(this_home())
    from flows.monitoring.automations import apply

    return apply(file)
