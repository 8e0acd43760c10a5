"""`dp-release ui`: Prefect's pages of the runs in this home."""

from __future__ import annotations

import click

from flows.cli.command_parts import cli, this_home
from flows.cli.missing_packages import require_pipeline


@cli.command("ui")
@click.option("--port", type=click.IntRange(1, 65535), default=4200, help="Port; default: 4200.")
def ui(port: int) -> None:
    """Show the runs of this home in Prefect's pages, until stopped.

    It shows the runs that `run` and `resume` made without PREFECT_API_URL. The pages are for staff
    and are open on this machine only. They ask for the secret that is printed beside their URL.
    """
    require_pipeline()
    from flows.engine.pages import show_pages
    from flows.engine.settings import prepare, require_room

    require_room(this_home())
    prepare(this_home())

    def ready(url: str, secret: str) -> None:
        click.echo(f"Prefect's pages of {this_home()}: {url}", err=True)
        click.echo(
            f"The pages ask for a secret, which holds until they are stopped: {secret}", err=True
        )

    show_pages(port, ready)
