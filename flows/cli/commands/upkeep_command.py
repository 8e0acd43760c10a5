"""`dp-release upkeep`: the nightly check or the sweep, once, for a timer of the system."""

from __future__ import annotations

import os
from typing import Any

import click

from dp_core.errors import BadInput
from flows.cli.command_parts import cli, this_home
from flows.cli.missing_packages import require_pipeline


@cli.command("upkeep")
@click.argument("task", type=click.Choice(("nightly", "sweep")))
def upkeep(task: str) -> None:
    """Run the nightly check or the sweep once, for a timer.

    \b
    nightly  Check every entry of the ledger, and every bundle where it was written.
             Without a Prefect server, only the caller sees the result.
    sweep    Return killed and failed runs to their worker.
    """  # noqa: D301 (click's sign for text that is not to be wrapped)
    require_pipeline()
    from flows.engine.configured_server import require_server, server_fault
    from flows.engine.settings import prepare

    prepare(this_home())  # before Prefect is imported
    named = bool(os.environ.get("PREFECT_API_URL"))
    if task == "sweep":
        if not named:
            raise BadInput(
                "PREFECT_API_URL is not set; set it to the URL of the Prefect server whose runs the"
                " sweep resumes."
            )
        require_server()
        from flows.sweep import resume_unfinished

        _run(resume_unfinished)
        return
    from flows.nightly import check_all, verify_ledger

    fault = server_fault() if named else None
    if named and fault is None:
        _run(verify_ledger)
        return
    # An unreachable Prefect must not hide a damaged ledger.
    if fault is not None:
        click.echo(f"dp-release: {fault} The check continues without it.", err=True)
    click.echo(check_all(this_home(), []).sentence)


def _run(flow: Any) -> None:
    """Run a flow of Prefect, and print what it says; raise what stopped it."""
    state = flow(return_state=True)
    if not state.is_completed():
        state.result()
    click.echo(state.message)
