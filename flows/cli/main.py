"""The `dp-release` command: parses, calls a flow or the ledger, prints.

Heavy packages are imported inside the commands that need them, so that `--help` and the ledger's
commands answer at once.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from dp_core.errors import BadInput, ReleaseError, StageFailed
from flows.cli import (
    approval_commands,
    automations_command,
    compare_command,
    infer_command,
    ledger_reports,
    metrics_command,
)
from flows.cli.actions import serving
from flows.cli.arguments import check_release
from flows.cli.command_parts import (
    Words,
    ledger_if_any,
    ledger_that_is,
    print_answer,
    this_home,
    with_json,
)
from flows.monitoring.log import FORMATS

INTERRUPTED = 130
SEARCH_EVERY = 20_000
"""Objects made between two searches for garbage; Python's own 700 are for programs that do not
import a million objects which stay: a tenth of the time of a short command."""


def making(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what every command takes that makes a release."""
    for option in (
        click.option("--log-format", type=click.Choice(FORMATS), help="Of the log: text or json."),
        click.option("--log-file", metavar="FILE", help="Append what happens to it, for staff."),
        click.option("--verbose", is_flag=True, help="Show Prefect's own log."),
        click.option("--show-values", is_flag=True, help="On failure show confidential detail."),
        click.option("--keep-confidential", is_flag=True, help="Keep codes and counts afterwards."),
        click.option("--dask", metavar="ADDRESS", help="A Dask scheduler; default: threads here."),
    ):
        command = option(command)
    return with_json(command)


@click.group(cls=Words, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="dp-release", prog_name="dp-release")
def cli() -> None:
    """Release differentially private synthetic microdata, against a ledger that gates every look.

    \b
    Try it:           dp-release demo
    Your own file:    dp-release schema draft FILE > schema.yaml      (then state levels and bounds)
                      dp-release ledger open ACCOUNT --epsilon 1 --delta 1e-8 --by NAME --reason WHY
                      dp-release plan release.yaml
                      dp-release run release.yaml --out DIR
    """  # noqa: D301 (click's sign for text that is not to be wrapped)


@cli.command()
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the bundle.")
@click.option("--verbose", is_flag=True, help="Show Prefect's own log.")
@with_json
def demo(out: Path | None, verbose: bool, as_json: bool) -> Mapping[str, object]:
    """Make a release of the built-in survey, with no set-up."""
    from flows.cli.actions.demo_job import prepare_demo
    from flows.cli.actions.making import make

    spec, place = prepare_demo(this_home(), out)
    os.environ["DP_RELEASE_HOME"] = str(place.home)
    os.environ.pop("DP_RELEASE_LEDGER", None)
    if not as_json:
        click.echo(f"A fresh home for this demo: {place.home}")
    try:
        answer = make(spec, place.out, verbose=verbose, as_json=as_json)
    except (KeyboardInterrupt, StageFailed):
        # Its home is not the one that the next command would look into.
        click.echo(f"This demo is known to: DP_RELEASE_HOME={place.home} dp-release", err=True)
        raise
    answer["utility"] = place.utility()
    if not as_json:
        print_answer("demo", answer)
    return answer


@cli.command()
@click.argument("spec", type=click.Path(path_type=Path))
@with_json
def plan(spec: Path, as_json: bool) -> Mapping[str, object]:
    """Show what a release costs and how exact it is; opens no data."""
    from dp_core.spec.plan import make_plan
    from dp_core.spec.reading.spec_file import load_spec
    from flows.answers.plan_answers import plan_facts

    made = make_plan(load_spec(spec))
    answer = plan_facts(made, ledger_if_any())
    if not as_json:
        print_answer("plan", answer)
    return answer


@cli.command()
@click.argument("spec", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="New folder.")
@making
def run(spec: Path, out: Path, as_json: bool, **options: Any) -> Mapping[str, object]:
    """Make a release and put its bundle in a new folder."""
    return _made(spec, out, as_json=as_json, **options)


@cli.command()
@click.argument("release")
@making
def resume(release: str, as_json: bool, **options: Any) -> Mapping[str, object]:
    """Go on from the stage that failed; nothing is paid twice."""
    from tasks.support.run_folder import RunFolder

    spec, out = RunFolder(this_home(), check_release(release)).remembered()
    return _made(spec, out, as_json=as_json, release=release, **options)


@cli.command()
@click.argument("release", required=False)
@with_json
def status(release: str | None, as_json: bool) -> Mapping[str, object]:
    """Show stages, spent and reserved, and who works on it."""
    from flows.answers.release_answers import all_statuses, status_facts

    name = check_release(release) if release is not None else None
    ledger = ledger_that_is()
    if name is not None:
        answer: Mapping[str, object] = status_facts(this_home(), ledger, name)
    else:
        from flows.cli.terminal.attention import attention_facts

        found = all_statuses(this_home(), ledger)
        answer = {"releases": found, **attention_facts(this_home(), found)}
    if not as_json:
        print_answer("status", answer)
    return answer


@cli.command()
@click.argument("release")
@with_json
def abandon(release: str, as_json: bool) -> Mapping[str, object]:
    """Give up a release; its charges stay spent, its name used."""
    from flows.answers.release_answers import ending_facts
    from flows.cli.actions.abandonment import abandon as give_up

    name = check_release(release)
    ledger = ledger_that_is()
    over = give_up(this_home(), ledger, name)
    answer = ending_facts(ledger, over.reservation) | {"files": over.files}
    if not as_json:
        print_answer("abandoned", answer)
    return answer


@cli.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--public-key",
    "keys",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Key of the ledger that must have signed; repeat for several.",
)
@with_json
def verify(folder: Path, keys: tuple[Path, ...], as_json: bool) -> Mapping[str, object]:
    """Check a bundle: files, receipts, and its privacy arithmetic."""
    from dp_core.bundle.verification.verify import verify as check
    from dp_core.wall.ledger.signatures import read_public

    found = check(folder, trusted=[read_public(key) for key in keys])
    answer: dict[str, object] = {
        "folder": str(folder),
        "passed": all(item.passed for item in found.checks),
        "checks": [
            {
                "name": item.name,
                "passed": item.passed,
                "decided": item.decided,
                "detail": item.sentence,
            }
            for item in found.checks
        ],
    }
    if not as_json:
        print_answer("verify", answer)
    if not answer["passed"]:
        if as_json:
            click.echo(json.dumps(answer, indent=2))
        # No fault was found where this program only cannot tell: another one has to be asked.
        sys.exit(BadInput.exit_code if found.undecided else 1)
    return answer


@cli.group(cls=Words)
def schema() -> None:
    """Describe a file: public knowledge only."""


@schema.command("draft")
@click.argument("file", metavar="FILE|TABLE")
@click.option("--database", metavar="VARIABLE", help="Environment variable with a database's URL.")
@with_json
def schema_draft(file: str, database: str | None, as_json: bool) -> Mapping[str, object]:
    """Print a schema to complete: names and types only.

    With --database of a table. Levels and bounds are for a person to state, from what is publicly
    known.
    """
    from flows.cli.actions.drafting import draft

    text = draft(file, database)
    if not as_json:
        click.echo(text, nl=False)
    return {"schema": text}


cli.add_command(ledger_reports.ledger)
cli.add_command(compare_command.compare)
cli.add_command(infer_command.infer)
cli.add_command(serving.serve)
for command in (approval_commands.look, approval_commands.publish, approval_commands.withdraw):
    cli.add_command(command)
cli.add_command(metrics_command.metrics)
cli.add_command(automations_command.automations)


def main() -> None:
    """Run the command line; every failure is a sentence and an exit code."""
    gc.set_threshold(SEARCH_EVERY)
    # Python searches all there is for garbage twice before it ends: half a second after a release.
    atexit.register(gc.freeze)
    context: dict[str, object] = {}
    row: str | None = None
    try:
        cli.main(prog_name="dp-release", standalone_mode=False, obj=context)
        code, message = 0, ""
    except ReleaseError as error:
        code, message, row = error.exit_code, error.message, error.row
    except click.exceptions.Exit as error:
        code, message = error.exit_code, ""
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help(), err=True)
        code, message = 2, ""
    except click.ClickException as error:
        code, message = 2, _usage(error)
    except (KeyboardInterrupt, click.Abort) as error:
        code, row = INTERRUPTED, "interrupted"
        # click makes its own of Ctrl-C; what a command said about it is the cause.
        message = getattr(error.__cause__, "message", "") or (
            "Interrupted. Nothing is lost: `dp-release status` shows where it stopped,"
            " `dp-release resume RELEASE` goes on."
        )
    except BrokenPipeError:
        # The reader (`head`, a pager) has what it wanted.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code, message = 0, ""
    if message:
        if "--json" in sys.argv[1:]:
            named = {"runbook": row} if row else {}
            answer = {"error": message, "exit_code": code, **named}
            click.echo(json.dumps(answer, ensure_ascii=False))
        else:
            click.echo(f"dp-release: {message}{f' (runbook: {row})' if row else ''}", err=True)
    sys.exit(code)


def _usage(error: click.ClickException) -> str:
    """Return what is wrong with a command line, and where its form is told."""
    text = error.format_message().rstrip(".")
    context = getattr(error, "ctx", None)
    if context is None or text.endswith("?"):
        return text if text.endswith("?") else f"{text}."
    return f"{text}; `{context.command_path} --help` shows the form."


def _made(spec: Path, out: Path, *, as_json: bool, **options: Any) -> Mapping[str, object]:
    from flows.cli.actions.making import make

    answer = make(spec, out, as_json=as_json, **options)
    if not as_json:
        print_answer("made", answer)
    return answer


if __name__ == "__main__":
    main()
