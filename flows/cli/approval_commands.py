"""`dp-release look`, `publish` and `withdraw`: what a person does with a release that is made."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import click

from flows.cli.arguments import check_release
from flows.cli.command_parts import decided, ledger_that_is, print_answer, this_home, with_json


@click.command()
@click.argument("release")
@decided
@with_json
def look(release: str, by: str, reason: str, as_json: bool) -> Mapping[str, object]:
    """Record a look at a held release; show its internal report."""
    from flows.cli.actions.deciding import look as record

    name = check_release(release)
    found = record(this_home(), ledger_that_is(), name, by=by, reason=reason)
    answer = {
        "release": name,
        "by": by,
        "day": found.gate.looks[-1],
        "looks": list(found.gate.looks),
        "held": found.gate.held,
        "outcome": found.outcome,
        "internal": str(found.internal),
    }
    if not as_json:
        print_answer("looked", answer)
    return answer


@click.command()
@click.argument("release")
@click.option("--out", type=click.Path(path_type=Path), help="New folder; default: that of `run`.")
@decided
@with_json
def publish(
    release: str, out: Path | None, by: str, reason: str, as_json: bool
) -> Mapping[str, object]:
    """Publish a held release as it is; nothing is made again."""
    from flows.answers.release_answers import made_facts
    from flows.cli.actions.deciding import publish as decide

    started, name, ledger = time.monotonic(), check_release(release), ledger_that_is()
    plan, where = decide(this_home(), ledger, name, out=out, by=by, reason=reason)
    seconds = time.monotonic() - started
    answer = made_facts(this_home(), ledger, plan, where, seconds=seconds)
    if not as_json:
        print_answer("made", answer)
    return answer


@click.command()
@click.argument("release")
@decided
@with_json
def withdraw(release: str, by: str, reason: str, as_json: bool) -> Mapping[str, object]:
    """End a held release without a bundle; spent stays spent."""
    from flows.answers.release_answers import ending_facts
    from flows.cli.actions.deciding import withdraw as decide

    name, ledger = check_release(release), ledger_that_is()
    held = decide(this_home(), ledger, name, by=by, reason=reason)
    answer = ending_facts(ledger, held) | {"by": by}
    if not as_json:
        print_answer("withdrawn", answer)
    return answer
