"""`dp-release server`: releases on a schedule, and what watches and checks a home over time."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dp_core.errors import BadInput
from dp_core.text.pages.answer import CommandAnswer
from dp_core.text.pages.page import Verbatim
from flows.cli.command_parts import PATH, CommandGroup, answering, cli, json_wanted, this_home
from flows.cli.missing_packages import require_pipeline

if TYPE_CHECKING:
    from flows.monitoring.metrics import HomeMetrics

LOOPBACK = "127.0.0.1"
NIGHTLY = "30 4 * * *"
UPKEEP = "*/5 * * * *"


@cli.group("server", cls=CommandGroup)
def server() -> None:
    """Make releases on a schedule, and watch and check a home."""


def _prepare() -> None:
    """Read Prefect's settings, which must happen before it is imported."""
    require_pipeline()
    from flows.engine.settings import prepare

    prepare(this_home())


def _require_server(how: str) -> None:
    from flows.engine.configured_server import require_server

    if not os.environ.get("PREFECT_API_URL"):
        raise BadInput(f"PREFECT_API_URL is not set; {how}")
    require_server()


@server.command("schedule")
@click.argument("template", type=PATH)
@click.option("--cron", required=True, metavar="'M H D MON DOW'", help="Schedule of the releases.")
@click.option("--timezone", "zone", default="UTC", metavar="ZONE", help="Time zone; UTC.")
@click.option("--out-root", metavar="DIR", required=True, type=PATH, help="Folder for the bundles.")
@click.option("--dask", metavar="ADDRESS", help="Dask scheduler; default: see the spec.")
def schedule(template: Path, cron: str, zone: str, out_root: Path, dask: str | None) -> None:
    """Make releases on a schedule, until stopped.

    It needs only a Prefect server (`prefect server start`, PREFECT_API_URL). It also continues
    unfinished releases, and verifies ledger and bundles every night.
    """
    _prepare()
    check_schedule(cron, zone)
    _require_server(
        "run `prefect server start`, and set it, for example, to http://127.0.0.1:4200/api."
    )
    deployments = served_deployments(template, cron=cron, zone=zone, out_root=out_root, dask=dask)
    click.echo(f"Serving {', '.join(each.full_name for each in deployments)}; stop with Ctrl-C.")
    run_until_stopped(deployments)
    click.echo("Stopped. Interrupted releases continue when it starts again.")


def served_deployments(
    template: Path, *, cron: str, zone: str, out_root: Path, dask: str | None
) -> list[Any]:
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
    from tasks.support.scheduler_address import check_address

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


@server.command("nightly")
def nightly() -> None:
    """Check the ledger and every bundle once, for a timer.

    It checks every entry of the ledger, and every bundle where it was written. Without a Prefect
    server, only the caller sees the result.
    """
    _prepare()
    from flows.engine.configured_server import server_fault
    from flows.nightly import check_all, verify_ledger

    named = bool(os.environ.get("PREFECT_API_URL"))
    fault = server_fault() if named else None
    if named and fault is None:
        _run(verify_ledger)
        return
    # An unreachable Prefect must not hide a damaged ledger.
    if fault is not None:
        click.echo(f"dp-release: {fault} The check continues without it.", err=True)
    click.echo(check_all(this_home(), []).sentence)


@server.command("sweep")
def sweep() -> None:
    """Return killed and failed runs to their worker once, for a timer."""
    _prepare()
    _require_server("set it to the URL of the Prefect server whose runs the sweep resumes.")
    from flows.sweep import resume_unfinished

    _run(resume_unfinished)


def _run(flow: Any) -> None:
    """Run a flow of Prefect, and print what it says; raise what stopped it."""
    state = flow(return_state=True)
    if not state.is_completed():
        state.result()
    click.echo(state.message)


@server.command("alerts")
@click.argument("file", type=PATH)
@answering
def alerts(file: Path) -> CommandAnswer:
    """Create or update the alerts that a file describes.

    PREFECT_API_URL names the server. DP_RELEASE_ALERT_WEBHOOK (a URL) or DP_RELEASE_ALERT_BLOCK (a
    notification block of the server, such as slack-webhook/night) names the recipient.
    """
    _prepare()
    from flows.monitoring.automations import apply

    return apply(file)


@server.command("metrics")
@click.option(
    "--listen", metavar="ADDRESS:PORT", help="Serve them over HTTP; default address: 127.0.0.1."
)
@answering
def metrics(listen: str | None) -> CommandAnswer:
    """Print Prometheus metrics of the ledger and its releases."""
    from flows.monitoring.metrics import read_metrics

    if listen is not None:
        serve_metrics(*listening(listen))
        return CommandAnswer({}, ())
    read = read_metrics()
    if read.fault and not json_wanted():
        click.echo(f"dp-release: {read.fault}", err=True)
    samples = [sample for family in read.families for sample in family.samples]
    found = [{"name": each.name, "labels": each.labels, "value": each.value} for each in samples]
    values = {"fault": read.fault or None, "metrics": found}
    return CommandAnswer(values, (Verbatim(read.text),))


def listening(text: str) -> tuple[str, int]:
    """Return an address and a port; the address defaults to the loopback interface.

    Raises:
        BadInput: if the text is not an address and a port.
    """
    address, _, port = text.rpartition(":")
    address = address.strip("[]") or LOOPBACK
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise BadInput(
            f"--listen {text!r} is not an address and port; write, for example, {LOOPBACK}:9181."
        )
    return address, int(port)


def serve_metrics(address: str, port: int) -> None:
    """Serve the metrics until the process ends.

    Raises:
        BadInput: if the address or port cannot be used.
    """
    from prometheus_client import start_http_server

    from flows.monitoring.metrics import read_metrics, registry_of

    last_fault = ""

    def read() -> HomeMetrics:
        nonlocal last_fault
        found = read_metrics()
        if found.fault != last_fault:
            last_fault = found.fault
            click.echo(f"dp-release: {last_fault or 'The ledger can be used again.'}", err=True)
        return found

    try:
        service, thread = start_http_server(port, addr=address, registry=registry_of(read))
    except OSError as error:
        raise BadInput(
            f"Cannot listen on {address}:{port} ({error.strerror or 'no such address'}); give"
            " another address or port, or stop the program that uses it."
        ) from None
    click.echo(f"Metrics of {this_home()} on http://{address}:{port}/metrics", err=True)
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    try:
        ended.wait()
    except KeyboardInterrupt:
        pass
    finally:
        service.shutdown()
        service.server_close()
        thread.join()


@server.command("ui")
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
