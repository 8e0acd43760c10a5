"""`dp-release demo`, `plan`, `run`, `resume`, `status` and `abandon`."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dp_core.errors import StageFailed
from flows.cli.arguments import check_release
from flows.cli.command_parts import (
    answering,
    cli,
    existing_ledger,
    json_wanted,
    ledger_if_any,
    this_home,
)
from flows.monitoring.log import FORMATS

if TYPE_CHECKING:
    from rich.console import Console

    from flows.answers.plan_answers import PlanAnswer
    from flows.answers.release_answers import (
        AllStatuses,
        EndedRelease,
        PublishedRelease,
        ReleaseStatus,
    )


def run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of every command that makes a release."""
    for option in (
        click.option("--log-format", type=click.Choice(FORMATS), help="Format of the log."),
        click.option("--log-file", metavar="FILE", help="Append the log to FILE, for staff."),
        click.option("--verbose", is_flag=True, help="Show Prefect's own log."),
        click.option("--show-values", is_flag=True, help="Print confidential detail of a failure."),
        click.option("--keep-confidential", is_flag=True, help="Keep the codes and exact counts."),
        click.option("--dask", metavar="ADDRESS", help="Dask scheduler; default: local threads."),
    ):
        command = option(command)
    return command


@cli.command()
@click.option(
    "--out", metavar="DIR", type=click.Path(path_type=Path), help="New folder for the bundle."
)
@click.option("--verbose", is_flag=True, help="Show Prefect's own log.")
@answering("release_views.demo")
def demo(out: Path | None, verbose: bool) -> PublishedRelease:
    """Make a release of the built-in survey; needs no set-up."""
    from flows.cli.actions.demo_job import prepare_demo
    from flows.cli.actions.run_release import make

    spec, place = prepare_demo(this_home(), out)
    os.environ["DP_RELEASE_HOME"] = str(place.home)
    os.environ.pop("DP_RELEASE_LEDGER", None)
    if not json_wanted():
        click.echo(f"Home of this demo: {place.home}")
    try:
        answer = make(spec, place.out, verbose=verbose, as_json=json_wanted())
    except (KeyboardInterrupt, StageFailed):
        # The next command would look in the usual home.
        click.echo(f"For this demo, use: DP_RELEASE_HOME={place.home} dp-release", err=True)
        raise
    return replace(answer, utility=place.utility())


@cli.command()
@click.argument("spec", type=click.Path(path_type=Path))
@answering("release_views.plan")
def plan(spec: Path) -> PlanAnswer:
    """Show the cost and noise of a release; opens no data."""
    from dp_core.spec.plan import make_plan
    from dp_core.spec.reading.spec_file import load_spec
    from flows.answers.plan_answers import plan_answer

    return plan_answer(make_plan(load_spec(spec)), ledger_if_any())


@cli.command()
@click.argument("spec", type=click.Path(path_type=Path))
@click.option(
    "--out", metavar="DIR", type=click.Path(path_type=Path), required=True, help="New folder."
)
@run_options
@answering("release_views.published")
def run(spec: Path, out: Path, **options: Any) -> PublishedRelease:
    """Make a release and write its bundle to a new folder."""
    from flows.cli.actions.run_release import make

    return make(spec, out, as_json=json_wanted(), **options)


@cli.command()
@click.argument("release")
@run_options
@answering("release_views.published")
def resume(release: str, **options: Any) -> PublishedRelease:
    """Continue from the stage that failed; nothing is paid twice."""
    from flows.cli.actions.run_release import make
    from tasks.support.run_folder import RunFolder

    spec, out = RunFolder(this_home(), check_release(release)).remembered()
    return make(spec, out, as_json=json_wanted(), release=release, **options)


def _status(console: Console, answer: ReleaseStatus | AllStatuses) -> None:
    from flows.answers.release_answers import AllStatuses
    from flows.cli.terminal import release_views

    if isinstance(answer, AllStatuses):
        release_views.statuses(console, answer)
    else:
        release_views.status(console, answer)


@cli.command()
@click.argument("release", required=False)
@answering(_status)
def status(release: str | None) -> ReleaseStatus | AllStatuses:
    """Show stages, budget, and which process is at work."""
    from flows.answers.release_answers import all_statuses, release_status

    name = check_release(release) if release is not None else None
    ledger = existing_ledger()
    if name is None:
        return all_statuses(this_home(), ledger)
    return release_status(this_home(), ledger, name)


@cli.command()
@click.argument("release")
@answering("ledger_views.abandoned")
def abandon(release: str) -> EndedRelease:
    """Abandon a release; its charges and name stay used."""
    from flows.answers.release_answers import ended_release
    from flows.cli.actions.abandonment import abandon as give_up

    name = check_release(release)
    ledger = existing_ledger()
    over = give_up(this_home(), ledger, name)
    return ended_release(ledger, over.reservation, files=over.files)
