"""The `dp-release` command: parses, calls a flow or the ledger, prints.

Heavy packages are imported inside the commands that need them, so that `--help` and the ledger's
commands answer at once.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dp_core.errors import BadInput, ReleaseError, StageFailed, nearest
from dp_core.names import check_name
from flows.arguments import (
    account_terms,
    check_release,
    exact_number,
    known_word,
    person_and_reason,
    relation,
)

if TYPE_CHECKING:
    from tasks.stores.accounts import Account
    from tasks.stores.ledger import Ledger

INTERRUPTED = 130


class Words(click.Group):
    """A group of commands that names the nearest one when a word is mistyped."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a command, or say which one was probably meant."""
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            raise BadInput(
                f"There is no command {args[0]!r}.{nearest(args[0], self.commands)}"
                f" `{ctx.command_path} --help` lists them."
            )
        return super().resolve_command(ctx, args)


def with_json(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--json`: the command returns plain values, which are printed for a machine."""

    @click.option("--json", "as_json", is_flag=True, help="Print a machine's answer.")
    @functools.wraps(command)
    def wrapped(*arguments: Any, as_json: bool, **options: Any) -> None:
        click.get_current_context().ensure_object(dict)["json"] = as_json
        answer = command(*arguments, as_json=as_json, **options)
        if as_json:
            click.echo(json.dumps(answer, indent=2, ensure_ascii=False, default=str))

    return wrapped


def making(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what every command takes that makes a release."""
    for option in (
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
    from flows.demo_job import prepare_demo
    from flows.making import make

    spec, place = prepare_demo(_home(), out)
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
        _print("demo", answer)
    return answer


@cli.command()
@click.argument("spec", type=click.Path(path_type=Path))
@with_json
def plan(spec: Path, as_json: bool) -> Mapping[str, object]:
    """Show what a release costs and how exact it is; opens no data."""
    from dp_core.plan import make_plan
    from dp_core.spec_file import load_spec
    from flows.answers import plan_facts

    made = make_plan(load_spec(spec))
    answer = plan_facts(made, _balance_of(made.spec.account))
    if not as_json:
        _print("plan", answer)
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
    from tasks.stores.artifacts import RunFolder

    spec, out = RunFolder(_home(), check_release(release)).remembered()
    return _made(spec, out, as_json=as_json, release=release, **options)


@cli.command()
@click.argument("release", required=False)
@with_json
def status(release: str | None, as_json: bool) -> Mapping[str, object]:
    """Show which stages are done, what is spent and what is reserved."""
    from flows.answers import all_statuses, status_facts

    if release is None:
        answer: Mapping[str, object] = {"releases": all_statuses(_home(), _ledger())}
    else:
        answer = status_facts(_home(), _ledger(), check_release(release))
    if not as_json:
        _print("status", answer)
    return answer


@cli.command()
@click.argument("release")
@with_json
def abandon(release: str, as_json: bool) -> Mapping[str, object]:
    """Give up a release; its charges stay spent, its name used."""
    from flows.abandonment import abandon as give_up
    from flows.answers import amount_facts

    settled = give_up(_home(), _ledger(), check_release(release))
    ledger = _ledger()
    account = ledger.account(settled.account)
    spent = next(used for used in ledger.uses(account.name)[::-1] if used.release == release)
    word = "epsilon" if account.terms.is_basic else "rho"
    answer = {
        "release": release,
        "outcome": settled.outcome,
        "account": account.name,
        "spent": amount_facts(account.terms, spent.amount),
        "left": amount_facts(account.terms, account.left),
    }
    if not as_json:
        click.echo(
            f"Release {release!r} is abandoned: {word} {float(spent.amount.main):.6g} stays spent,"
            f" and account {account.name!r} has {float(account.left.main):.6g} left."
            " Its confidential files are deleted."
        )
    return answer


@cli.command()
@click.argument("folder", type=click.Path(path_type=Path))
@with_json
def verify(folder: Path, as_json: bool) -> Mapping[str, object]:
    """Check a bundle: files, receipts, and its privacy arithmetic."""
    from dp_core.bundle.verification import verify as check

    found = check(folder)
    answer: dict[str, object] = {
        "folder": str(folder),
        "passed": all(item.passed for item in found.checks),
        "checks": [
            {"name": item.name, "passed": item.passed, "detail": item.sentence}
            for item in found.checks
        ],
    }
    if not as_json:
        _print("verify", answer)
    if not answer["passed"]:
        if as_json:
            click.echo(json.dumps(answer, indent=2))
        sys.exit(1)
    return answer


@cli.group(cls=Words)
def schema() -> None:
    """Describe a file: public knowledge only."""


@schema.command("draft")
@click.argument("file", type=click.Path(path_type=Path))
@with_json
def schema_draft(file: Path, as_json: bool) -> Mapping[str, object]:
    """Print a schema to complete: names and types only.

    Levels and bounds are for a person to state, from what is publicly known.
    """
    from dp_core.draft import draft_schema

    text = draft_schema(file)
    if not as_json:
        click.echo(text, nl=False)
    return {"schema": text}


@cli.group(cls=Words)
def ledger() -> None:
    """Accounts, and every epsilon that was spent."""


@ledger.command("open")
@click.argument("account")
@click.option("--epsilon", required=True, help="Total epsilon.")
@click.option("--delta", default="0", help="Total delta; 0 allows pure releases only.")
@click.option("--neighbours", default="add-remove", help="add-remove or replace-one.")
@click.option("--unit", default="row", help="Who is protected: row.")
@click.option("--composition", default="basic", help="How releases add up: basic.")
@click.option("--by", required=True, help="Who opens it.")
@click.option("--reason", required=True, help="Why.")
@with_json
def ledger_open(
    account: str,
    epsilon: str,
    delta: str,
    neighbours: str,
    unit: str,
    composition: str,
    by: str,
    reason: str,
    as_json: bool,
) -> Mapping[str, object]:
    """Open an account: its total, its neighbours, its composition."""
    from flows.answers import account_facts

    by, reason = person_and_reason(by, reason)
    opened = _ledger().open_account(
        check_name(account, what="account"),
        terms=account_terms(
            composition,
            epsilon=exact_number("--epsilon", epsilon, positive=True),
            delta=exact_number("--delta", delta, below_one=True),
        ),
        neighbours=relation(neighbours),
        unit=known_word("--unit", unit),
        by=by,
        reason=reason,
    )
    answer = account_facts(opened, ())
    if not as_json:
        _print("account", answer)
        if not opened.terms.delta:
            click.echo("With a total delta of 0 it takes releases of delta 0 only.")
    return answer


@ledger.command("show")
@click.argument("account", required=False)
@with_json
def ledger_show(account: str | None, as_json: bool) -> Mapping[str, object]:
    """Show total, reserved, spent and left."""
    from flows.answers import account_facts

    if account is not None:
        answer: dict[str, object] = account_facts(
            _ledger().account(account), _ledger().uses(account)
        )
    else:
        found = _ledger()
        answer = {
            "accounts": [account_facts(one, found.uses(one.name)) for one in found.accounts()]
        }
    if not as_json:
        _print("account" if account else "accounts", answer)
    return answer


@ledger.command("charges")
@click.argument("account")
@with_json
def ledger_charges(account: str, as_json: bool) -> list[Mapping[str, object]]:
    """List what was charged to an account, event by event."""
    from flows.answers import charge_facts

    answer = charge_facts(_ledger(), account)
    if not as_json:
        _print("charges", {"account": account, "charges": answer})
    return answer


@ledger.command("close")
@click.argument("account")
@click.option("--by", required=True, help="Who closes it.")
@click.option("--reason", required=True, help="Why.")
@with_json
def ledger_close(account: str, by: str, reason: str, as_json: bool) -> Mapping[str, object]:
    """Let no more releases be made from an account."""
    by, reason = person_and_reason(by, reason)
    _ledger().close_account(account, by=by, reason=reason)
    if not as_json:
        click.echo(f"Account {account!r} is closed.")
    return {"account": account, "closed": True}


@ledger.command("verify")
@with_json
def ledger_verify(as_json: bool) -> Mapping[str, object]:
    """Check the whole chain, and name the first row that is wrong."""
    from tasks.places import home_key

    opened = _ledger()
    found = opened.verify(home_key(_home(), opened))
    if not as_json:
        click.echo(
            f"The ledger verifies: {found.entries:,} entries, the last is {found.head[:16]}..."
        )
    return {"entries": found.entries, "head": found.head, "passed": True}


def main() -> None:
    """Run the command line; every failure is a sentence and an exit code."""
    context: dict[str, object] = {}
    try:
        cli.main(prog_name="dp-release", standalone_mode=False, obj=context)
        code, message = 0, ""
    except ReleaseError as error:
        code, message = error.exit_code, error.message
    except click.exceptions.Exit as error:
        code, message = error.exit_code, ""
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help(), err=True)
        code, message = 2, ""
    except click.ClickException as error:
        code, message = 2, _usage(error)
    except (KeyboardInterrupt, click.Abort):
        code = INTERRUPTED
        message = (
            "Interrupted. Nothing is lost: `dp-release status` shows where it stopped,"
            " `dp-release resume RELEASE` goes on."
        )
    except BrokenPipeError:
        # The reader (`head`, a pager) has what it wanted.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code, message = 0, ""
    if message:
        if "--json" in sys.argv[1:]:
            click.echo(json.dumps({"error": message, "exit_code": code}, ensure_ascii=False))
        else:
            click.echo(f"dp-release: {message}", err=True)
    sys.exit(code)


def _usage(error: click.ClickException) -> str:
    """Return what is wrong with a command line, and where its form is told."""
    text = error.format_message().rstrip(".")
    context = getattr(error, "ctx", None)
    if context is None or text.endswith("?"):
        return text if text.endswith("?") else f"{text}."
    return f"{text}; `{context.command_path} --help` shows the form."


def _made(spec: Path, out: Path, *, as_json: bool, **options: Any) -> Mapping[str, object]:
    from flows.making import make

    answer = make(spec, out, as_json=as_json, **options)
    if not as_json:
        _print("made", answer)
    return answer


def _print(what: str, answer: Mapping[str, object]) -> None:
    from flows.terminal import show

    show(what, answer)


def _home() -> Path:
    from tasks.places import home

    return home()


def _ledger() -> Ledger:
    from tasks.places import open_ledger

    return open_ledger()


def _balance_of(account: str) -> Account | None:
    from tasks.places import assert_not_lost, ledger_exists

    assert_not_lost()
    return _ledger().find_account(account) if ledger_exists() else None


if __name__ == "__main__":
    main()
