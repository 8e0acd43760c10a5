"""The commands of a release: from `demo`, `plan` and `run` to `publish` and `withdraw`."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from dp_core.errors import StageFailed
from dp_core.text.pages.answer import CommandAnswer
from dp_core.text.pages.page import Fact
from flows.cli import arguments
from flows.cli.command_parts import (
    PATH,
    CommandGroup,
    answering,
    cli,
    decision_options,
    existing_ledger,
    json_wanted,
    ledger_if_any,
    this_home,
)
from flows.cli.completion import RELEASE, STAGE
from flows.cli.missing_packages import require_pipeline
from flows.monitoring.log import FORMATS


def run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of every command that makes a release."""
    for option in (
        click.option("--log-format", type=click.Choice(FORMATS), help="Format of the log."),
        click.option("--log-file", metavar="FILE", help="Append the log to FILE, for staff."),
        click.option("--verbose", is_flag=True, help="Show Prefect's own log."),
        click.option("--show-values", is_flag=True, help="Print confidential detail of a failure."),
        click.option("--keep-confidential", is_flag=True, help="Keep the codes and copied rows."),
        click.option("--dask", metavar="ADDRESS", help="Dask scheduler; default: see the spec."),
    ):
        command = option(command)
    return command


@cli.command()
@click.option("--out", metavar="DIR", type=PATH, help="New folder for the bundle.")
@click.option(
    "--households", is_flag=True, help="Release generated households and persons instead."
)
@click.option("--verbose", is_flag=True, help="Show Prefect's own log.")
@answering
def demo(out: Path | None, households: bool, verbose: bool) -> CommandAnswer:
    """Make a release of the built-in survey; needs no set-up.

    With --households, it releases two linked tables: 2,000 generated households, and the
    persons in them.
    """
    from flows.cli.actions.demo_job import HOUSEHOLDS, SURVEY, prepare_demo
    from flows.cli.actions.run_release import make

    demo = HOUSEHOLDS if households else SURVEY
    home, spec = prepare_demo(this_home(), demo)
    os.environ["DP_RELEASE_HOME"] = str(home)
    os.environ.pop("DP_RELEASE_LEDGER", None)
    if not json_wanted():
        click.echo(f"Home of this demo: {home}")
    bundle = (out or home / "bundle").absolute()
    try:
        answer = make(spec, bundle, verbose=verbose, as_json=json_wanted())
    except (KeyboardInterrupt, StageFailed):
        # The next command would look in the usual home.
        click.echo(f"For this demo, use: DP_RELEASE_HOME={home} dp-release", err=True)
        raise
    # Confidential, were the data not public.
    utility = json.loads((answer["internal"] / "utility.json").read_bytes())["mean"]
    linked = "persons" in answer.values
    data, are = ("files", "are generated") if linked else ("survey", "is public")
    means = ", ".join(f"{name} {value:.4f}" for name, value in utility.items() if value)
    truth = Fact(
        "Truth",
        f"average TVD between the sets and the {data}: {means}. (Computed from the data, and"
        f" printed only because the demo's {data} {are}.)",
    )
    tries = (
        Fact("Try", f'dp-release {command} {answer["out"]} "{asked}"', whole=True)
        for command, asked in demo.questions
    )
    return CommandAnswer(answer.values | {"utility": utility}, (*answer.blocks, truth, *tries))


@cli.command()
@click.argument("spec", type=PATH)
@answering
def plan(spec: Path) -> CommandAnswer:
    """Show the cost and noise of a release; opens no data.

    The exit code is 3 if the ledger would refuse the release.
    """
    from flows.answers.forecast_answers import plan_answer
    from tasks.run.earlier_releases import preview_plan
    from tasks.run.home_notes import machine_of
    from tasks.support.named_cluster import check_cluster

    planned = preview_plan(spec)
    if planned.spec.dask is not None:
        check_cluster(planned.spec.dask)
    return plan_answer(planned, ledger_if_any(), machine_of(this_home()))


@cli.command()
@click.argument("spec", type=PATH)
@click.option("--out", metavar="DIR", type=PATH, required=True, help="New folder.")
@run_options
@answering
def run(spec: Path, out: Path, **options: Any) -> CommandAnswer:
    """Make a release and write its bundle to a new folder."""
    from flows.cli.actions.run_release import make

    return make(spec, out, as_json=json_wanted(), **options)


@cli.command()
@click.argument("release", type=RELEASE)
@click.option(
    "--from", "stage", type=STAGE, metavar="STAGE", help="Make a finished stage again from here."
)
@run_options
@answering
def resume(release: str, stage: str | None, **options: Any) -> CommandAnswer:
    """Continue from the stage that failed; nothing is paid twice."""
    from flows.cli.actions.run_release import resume as carry_on

    return carry_on(release, stage, as_json=json_wanted(), **options)


@cli.command()
@click.argument("release", type=RELEASE, required=False)
@answering
def status(release: str | None) -> CommandAnswer:
    """Show stages, budget, and which process is at work."""
    from flows.answers.release_answers import all_statuses, release_status

    home, ledger = this_home(), existing_ledger()
    # privacy: the person at a terminal may see the file; JSON and output that is kept may not.
    show_message = not json_wanted() and arguments.on_terminal(sys.stdout)
    if release is None:
        return all_statuses(home, ledger, show_message=show_message)
    return release_status(home, ledger, release, show_message=show_message)


@cli.command()
@click.argument("release", type=RELEASE)
@answering
def abandon(release: str) -> CommandAnswer:
    """Abandon a release; its charges and name stay used."""
    from flows.cli.actions.publication_decisions import abandon as give_up

    return give_up(this_home(), existing_ledger(), release)


@cli.group("release", cls=CommandGroup)
def release_group() -> None:
    """Look at a release inside, and decide on its publication."""


@release_group.command()
@click.argument("release", type=RELEASE)
@decision_options
@answering
def look(release: str, by: str, reason: str) -> CommandAnswer:
    """Record a look at a release, and show its internal report."""
    from flows.cli.actions.publication_decisions import look as record

    return record(this_home(), existing_ledger(), release, by=by, reason=reason)


@release_group.command("data-docs")
@click.argument("release", type=RELEASE)
@answering
def data_docs(release: str) -> CommandAnswer:
    """Make Great Expectations' pages of a validation, for staff."""
    from tasks.support.run_folder import RunFolder
    from tasks.validation.data_docs import write_data_docs

    require_pipeline()
    folder = RunFolder(this_home(), release)
    folder.recorded_paths()  # refuses an unknown release
    page = write_data_docs(folder.internal)
    where = Fact("Data Docs", f"{page} (confidential, for staff)", whole=True)
    return CommandAnswer({"release": release, "page": page}, (where,))


@release_group.command()
@click.argument("release", type=RELEASE)
@click.option("--out", metavar="DIR", type=PATH, help="New folder; default: that of `run`.")
@decision_options
@answering
def publish(release: str, out: Path | None, by: str, reason: str) -> CommandAnswer:
    """Publish a release that waits for approval, unchanged."""
    from flows.answers.release_answers import published_release
    from flows.cli.actions.publication_decisions import publish as decide

    started, ledger = time.monotonic(), existing_ledger()
    plan, where = decide(this_home(), ledger, release, out=out, by=by, reason=reason)
    seconds = time.monotonic() - started
    return published_release(this_home(), ledger, plan, where, seconds=seconds)


@release_group.command()
@click.argument("release", type=RELEASE)
@decision_options
@answering
def withdraw(release: str, by: str, reason: str) -> CommandAnswer:
    """End a release that waits for approval, without a bundle."""
    from flows.answers.release_answers import ended_release
    from flows.cli.actions.publication_decisions import withdraw as decide

    ledger = existing_ledger()
    over = decide(this_home(), ledger, release, by=by, reason=reason)
    return ended_release(ledger, over, by=by)
