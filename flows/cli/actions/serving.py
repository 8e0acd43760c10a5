"""Serving a template: one process makes its releases on a schedule, without a work pool."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from dp_core.errors import BadInput

NIGHTLY = "30 4 * * *"
UPKEEP = "*/5 * * * *"


def served(template: Path, *, cron: str, zone: str, out_root: Path, dask: str | None) -> list[Any]:
    """Return the deployments of a small site: releases of one template, and their upkeep.

    Raises:
        BadInput: if the template is invalid.
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
    parameters = {
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
            parameters=parameters,
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
    """Take the runs of some deployments until SIGTERM or Ctrl-C; then end the current runs.

    No release is lost: when this starts again, interrupted releases continue, and releases that
    fell due meanwhile are made.
    """
    import asyncio

    from prefect.runner import Runner

    class UntilStopped(Runner):
        end: Callable[[], object]

        def handle_sigterm(self, *_args: Any, **_options: Any) -> None:
            # Prefect's own handler calls `sys.exit` without awaiting its tasks, and each of them
            # then logs an error. Cancelled tasks end cleanly.
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
    """Check a schedule as Prefect would.

    Raises:
        BadInput: if the time zone or the cron expression is invalid.
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
            f"--cron {cron!r:.60} is not a schedule; write minute, hour, day, month and weekday,"
            " such as '0 2 1 * *' for the first of each month at 02:00."
        ) from None
