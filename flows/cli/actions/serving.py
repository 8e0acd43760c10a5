"""A small site: one process that makes a template's releases on a schedule, without a work pool."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from dp_core.errors import BadInput

NIGHTLY = "30 4 * * *"
UPKEEP = "*/5 * * * *"


@click.command("serve")
@click.argument("template", type=click.Path(path_type=Path))
@click.option("--cron", required=True, metavar="'M H D MON DOW'", help="When releases are made.")
@click.option("--timezone", "zone", default="UTC", metavar="ZONE", help="Of all times; UTC.")
@click.option("--out-root", required=True, type=click.Path(path_type=Path), help="Of the bundles.")
@click.option("--dask", metavar="ADDRESS", help="A Dask scheduler; default: threads here.")
def serve(template: Path, cron: str, zone: str, out_root: Path, dask: str | None) -> None:
    """Make a release of each scheduled date, until it is stopped.

    It needs Prefect's server (`prefect server start`, PREFECT_API_URL) and nothing else: it also
    goes on with what was left unfinished, and checks ledger and bundles every night.
    """
    from flows.engine.settings import prepare
    from tasks.run.home import home

    prepare(home())  # before Prefect is imported
    check_schedule(cron, zone)
    if not os.environ.get("PREFECT_API_URL"):
        raise BadInput(
            "PREFECT_API_URL is not set: start `prefect server start`, and name it, as in"
            " PREFECT_API_URL=http://127.0.0.1:4200/api."
        )
    deployments = served(template, cron=cron, zone=zone, out_root=out_root, dask=dask)
    click.echo(f"Serving {', '.join(each.full_name for each in deployments)}; stop with Ctrl-C.")
    run_until_stopped(deployments)
    click.echo("Stopped. What was under way goes on when it is started again.")


def served(template: Path, *, cron: str, zone: str, out_root: Path, dask: str | None) -> list[Any]:
    """Return the deployments that a small site serves: releases of one template, and their upkeep.

    Raises:
        BadInput: if the template will not do.
    """
    from prefect.client.schemas.objects import ConcurrencyLimitConfig, ConcurrencyLimitStrategy
    from prefect.schedules import Cron

    from flows.nightly import verify_ledger
    from flows.releases.template import read_template
    from flows.scheduled import scheduled_release
    from flows.sweep import resume_unfinished
    from tasks.support.dask_cluster import check_address

    check_address(dask)
    read = read_template(template)
    name = read.path.name.split(".")[0]
    parameters: Mapping[str, Any] = {
        "template": str(read.path),
        "out_root": str(out_root.absolute()),
        "dask": dask,
    }
    one = ConcurrencyLimitConfig(limit=1, collision_strategy=ConcurrencyLimitStrategy.ENQUEUE)
    other = ConcurrencyLimitConfig(limit=1, collision_strategy=ConcurrencyLimitStrategy.CANCEL_NEW)
    return [
        scheduled_release.to_deployment(
            name,
            schedule=Cron(cron, timezone=zone),
            parameters=dict(parameters),
            concurrency_limit=one,
            tags=["dp-release", "release"],
        ),
        resume_unfinished.to_deployment(
            name, schedule=Cron(UPKEEP, timezone=zone), tags=["dp-release", "upkeep"]
        ),
        verify_ledger.to_deployment(
            name,
            schedule=Cron(NIGHTLY, timezone=zone),
            concurrency_limit=other,
            tags=["dp-release", "verification"],
        ),
    ]


def run_until_stopped(deployments: Sequence[Any]) -> None:
    """Take the runs of some deployments, until SIGTERM or Ctrl-C; then end what is under way.

    A release that was under way is no loss: it is given back when this is started again, and so is
    what fell due meanwhile.
    """
    import asyncio

    from prefect.runner import Runner

    class UntilStopped(Runner):
        end: Callable[[], object]

        def handle_sigterm(self, *_args: Any, **_options: Any) -> None:
            # Prefect's own leaves the loop by `sys.exit` and waits for none of its parts, each of
            # which then says so at length. Cancelled, they end in order.
            self.end()

    async def run() -> None:
        work = asyncio.current_task()
        assert work is not None
        runner.end = partial(asyncio.get_running_loop().call_soon_threadsafe, work.cancel)
        await runner.start()

    runner = UntilStopped(pause_on_shutdown=False, limit=4)
    for each in deployments:
        runner.add_deployment(each)
    with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
        asyncio.run(run())


def check_schedule(cron: str, zone: str) -> None:
    """Refuse a schedule that Prefect would not take.

    Raises:
        BadInput: saying what to write.
    """
    from zoneinfo import ZoneInfo

    from prefect.client.schemas.schedules import CronSchedule

    try:
        ZoneInfo(zone)
    except (ValueError, OSError, KeyError):
        raise BadInput(
            f"--timezone {zone!r:.60} is not known; write one such as Europe/Berlin or UTC."
        ) from None
    try:
        CronSchedule(cron=cron, timezone=zone)
    except ValueError:
        raise BadInput(
            f"--cron {cron!r:.60} is no schedule; write minute, hour, day, month and weekday, such"
            " as '0 2 1 * *' for the first of each month at 02:00."
        ) from None
