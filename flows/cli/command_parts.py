"""What all commands share: groups that know their words, `--json`, who decides, home and ledger."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dp_core.documents.typed_text import plain_text
from dp_core.errors import BadInput, nearest
from flows.cli.arguments import person_and_reason

if TYPE_CHECKING:
    from tasks.ledger.ledger import Ledger


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
        for parameter in click.get_current_context().command.params:
            given = options.get(parameter.name or "")
            if isinstance(given, str):
                option = isinstance(parameter, click.Option)
                plain_text(parameter.opts[0] if option else parameter.human_readable_name, given)
        answer = command(*arguments, as_json=as_json, **options)
        if as_json:
            click.echo(json.dumps(answer, indent=2, ensure_ascii=False, default=str))

    return wrapped


def decided(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--by` and `--reason`, both required: a person decides, and says why."""

    @click.option("--by", required=True, metavar="NAME", help="Who decides.")
    @click.option("--reason", required=True, metavar="TEXT", help="Why.")
    @functools.wraps(command)
    def wrapped(*arguments: Any, by: str, reason: str, **options: Any) -> Any:
        by, reason = person_and_reason(by, reason)
        return command(*arguments, by=by, reason=reason, **options)

    return wrapped


def print_answer(what: str, answer: Mapping[str, object]) -> None:
    """Print an answer for a person."""
    from flows.cli.terminal.release_views import show

    show(what, answer)


def this_home() -> Path:
    """Return the folder of the ledger and of all runs."""
    from tasks.run.home import home

    return home()


def the_ledger() -> Ledger:
    """Return the ledger, making it where there is none yet."""
    from tasks.run.home import open_ledger

    return open_ledger()


def ledger_if_any() -> Ledger | None:
    """Return the ledger, None where there is none yet; looking does not make one."""
    from tasks.run.home import assert_not_lost, ledger_exists

    assert_not_lost()
    # A home that is a file can hold no ledger, which opening one says best.
    return the_ledger() if ledger_exists() or this_home().is_file() else None


def ledger_that_is() -> Ledger:
    """Return the ledger.

    Raises:
        BadInput: if there is none yet.
    """
    found = ledger_if_any()
    if found is None:
        raise BadInput(
            f"There is no ledger in {this_home()} yet: `dp-release ledger open` makes it with the"
            " first account. If it is elsewhere, set DP_RELEASE_HOME or DP_RELEASE_LEDGER.",
            row="no-ledger",
        )
    return found
