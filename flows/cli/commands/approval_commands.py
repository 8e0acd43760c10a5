"""`dp-release look`, `publish` and `withdraw`, for releases that wait for approval."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flows.cli.arguments import check_release
from flows.cli.command_parts import answering, cli, decided, existing_ledger, this_home

if TYPE_CHECKING:
    from flows.answers.release_answers import EndedRelease, PublishedRelease, RecordedLook


@cli.command()
@click.argument("release")
@decided
@answering("approval_views.looked")
def look(release: str, by: str, reason: str) -> RecordedLook:
    """Record a look at a release, and show its internal report."""
    from flows.answers.release_answers import RecordedLook
    from flows.cli.actions.publication_decisions import look as record

    name = check_release(release)
    found = record(this_home(), existing_ledger(), name, by=by, reason=reason)
    return RecordedLook(
        release=name,
        by=by,
        day=found.gate.looks[-1],
        looks=list(found.gate.looks),
        held=found.gate.held,
        outcome=found.outcome,
        internal=str(found.internal),
    )


@cli.command()
@click.argument("release")
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="New folder; default: that of `run`.",
)
@decided
@answering("release_views.published")
def publish(release: str, out: Path | None, by: str, reason: str) -> PublishedRelease:
    """Publish a release that waits for approval, unchanged."""
    from flows.answers.release_answers import published_release
    from flows.cli.actions.publication_decisions import publish as decide

    started, name, ledger = time.monotonic(), check_release(release), existing_ledger()
    plan, where = decide(this_home(), ledger, name, out=out, by=by, reason=reason)
    seconds = time.monotonic() - started
    return published_release(this_home(), ledger, plan, where, seconds=seconds)


@cli.command()
@click.argument("release")
@decided
@answering("approval_views.withdrawn")
def withdraw(release: str, by: str, reason: str) -> EndedRelease:
    """End a release that waits for approval, without a bundle."""
    from flows.answers.release_answers import ended_release
    from flows.cli.actions.publication_decisions import withdraw as decide

    name, ledger = check_release(release), existing_ledger()
    over = decide(this_home(), ledger, name, by=by, reason=reason)
    return ended_release(ledger, over, by=by)
