"""`dp-release serve`: releases of a template on a schedule, in one process."""

from __future__ import annotations

import os
from pathlib import Path

import click

from dp_core.errors import BadInput
from flows.cli.command_parts import PATH, cli, this_home
from flows.cli.missing_packages import require_pipeline


@cli.command("serve")
@click.argument("template", type=PATH)
@click.option("--cron", required=True, metavar="'M H D MON DOW'", help="Schedule of the releases.")
@click.option("--timezone", "zone", default="UTC", metavar="ZONE", help="Time zone; UTC.")
@click.option("--out-root", metavar="DIR", required=True, type=PATH, help="Folder for the bundles.")
@click.option("--dask", metavar="ADDRESS", help="Dask scheduler; default: see the spec.")
def serve(template: Path, cron: str, zone: str, out_root: Path, dask: str | None) -> None:
    """Make releases on a schedule, until stopped.

    It needs only a Prefect server (`prefect server start`, PREFECT_API_URL). It also continues
    unfinished releases, and verifies ledger and bundles every night.
    """
    require_pipeline()
    from flows.cli.actions.serving import check_schedule, run_until_stopped, served
    from flows.engine.configured_server import require_server
    from flows.engine.settings import prepare

    prepare(this_home())  # before Prefect is imported
    check_schedule(cron, zone)
    if not os.environ.get("PREFECT_API_URL"):
        raise BadInput(
            "PREFECT_API_URL is not set; run `prefect server start`, and set it, for example, to"
            " http://127.0.0.1:4200/api."
        )
    require_server()
    deployments = served(template, cron=cron, zone=zone, out_root=out_root, dask=dask)
    click.echo(f"Serving {', '.join(each.full_name for each in deployments)}; stop with Ctrl-C.")
    run_until_stopped(deployments)
    click.echo("Stopped. Interrupted releases continue when it starts again.")
