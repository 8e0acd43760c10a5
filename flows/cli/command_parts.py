"""What all commands share: the command line itself, `--json`, `--by` and `--reason`, the ledger."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dp_core.errors import BadInput, nearest
from dp_core.text.documents.typed_text import plain_text
from dp_core.text.pages.answer import Answer, CommandAnswer, plain
from dp_core.text.pages.page import Fact
from flows.cli.arguments import person_and_reason
from flows.cli.missing_packages import is_needed_by_pipeline, require_pipeline

if TYPE_CHECKING:
    from tasks.ledger.ledger import Ledger

MOST_ROWS = 1000
"""Most rows of a table that a terminal shows; a file, a pipe and `--json` get all."""

PATH = click.Path(path_type=Path)
"""Type of an option or argument that names a file or folder, which need not exist."""


class CommandGroup(click.Group):
    """A group of commands that suggests the nearest one when a name is mistyped."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a command, or suggest the one that was probably meant."""
        typed = args and not ctx.resilient_parsing  # not while a shell completes a line
        if typed and args[0] not in self.commands and not args[0].startswith("-"):
            raise BadInput(
                f"There is no command {args[0]!r}.{self._nearest_command(args[0], ctx)}"
                f" `{ctx.command_path} --help` lists the commands."
            )
        return super().resolve_command(ctx, args)

    def _nearest_command(self, word: str, ctx: click.Context) -> str:
        """Return the command that a word probably means."""
        if word == "version":
            return f" Did you mean `{ctx.command_path} --version`?"
        if word == "help":
            return ""
        for name, group in self.commands.items():
            if isinstance(group, click.Group) and word in group.commands:
                return f" Did you mean `{ctx.command_path} {name} {word}`?"
        return nearest(word, self.commands)

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        """Read the command line, which may print a help page."""
        with pipe_may_close():
            return super().make_context(*arguments, **options)
        raise click.exceptions.Exit(0)

    def invoke(self, ctx: click.Context) -> Any:
        """Carry out a command; click would end with exit code 1 if its output is not read."""
        with pipe_may_close():
            return super().invoke(ctx)


SECTIONS = {
    "Make a release": ("demo", "schema", "plan", "run", "resume", "status", "abandon"),
    "Use a release": ("verify", "query", "infer", "export"),
    "Manage releases and their budget": ("ledger", "release", "desk", "server"),
    "Choose and check methods": ("compare", "audit"),
    "Set up the shell": ("completion",),
}
"""Headings of `dp-release --help`, and the commands under each."""


class SectionedGroup(CommandGroup):
    """The top group, whose help lists the commands under headings."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each heading with its commands, and the others last."""
        listed = {name for names in SECTIONS.values() for name in names}
        others = tuple(name for name in self.list_commands(ctx) if name not in listed)
        for heading, names in (SECTIONS | ({"Other commands": others} if others else {})).items():
            with formatter.section(heading):
                formatter.write_dl(
                    [
                        (name, command.get_short_help_str(70))
                        for name in names
                        if (command := self.get_command(ctx, name)) is not None
                    ],
                    col_max=12,
                )


@click.group(cls=SectionedGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="dp-release", prog_name="dp-release")
def cli() -> None:
    """Release differentially private synthetic microdata, accounted for in a ledger.

    \b
    Try it:           dp-release demo
    Your own file:    dp-release schema draft FILE --codebook CODEBOOK > schema.yaml   (complete it)
                      dp-release schema check schema.yaml FILE
                      dp-release ledger open ACCOUNT --epsilon 1 --delta 1e-8 --by NAME --reason WHY
                      dp-release plan release.yaml
                      dp-release run release.yaml --out DIR
    """  # noqa: D301 (click's sign for text that is not to be wrapped)


def answering(command: Callable[..., Any]) -> Callable[..., None]:
    """Add `--json` to a command, and print the answer that it returns."""

    @click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
    @functools.wraps(command)
    def call(*arguments: Any, as_json: bool, **options: Any) -> None:
        context = click.get_current_context()
        context.ensure_object(dict)["json"] = as_json
        for parameter in context.command.params:
            given = options.get(parameter.name or "")
            if isinstance(given, str):
                option = isinstance(parameter, click.Option)
                name = parameter.opts[0] if option else parameter.human_readable_name
                plain_text(name, given)
        answer: Answer = command(*arguments, **options)
        with pipe_may_close():
            if as_json:
                click.echo(json.dumps(plain(answer), indent=2, ensure_ascii=False))
            elif answer.fault is not None:
                click.echo(f"dp-release: {answer.fault}", err=True)
            else:
                _print(answer)
        if answer.exit_code:
            sys.exit(answer.exit_code)

    return call


def _print(answer: Answer) -> None:
    """Print an answer as wide as the terminal, or 200 columns wide without a terminal."""
    from rich.console import Console

    from dp_core.text.pages.page_text import print_page

    class OutputConsole(Console):
        def on_broken_pipe(self) -> None:
            raise  # the error that is handled; rich would end the process with exit code 1

    opened = OutputConsole(highlight=False)
    if not opened.is_terminal:
        opened.width = 200
    print_page(opened, answer.page(), most=MOST_ROWS if opened.is_terminal else None)


@contextlib.contextmanager
def pipe_may_close() -> Iterator[None]:
    """Ignore that the reader of the output, such as `head` or a pager, has closed the pipe.

    The command has done its work by then, and its exit code still tells how it ended.
    """
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # Python would complain when it flushes the rest at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def internal_result(release: str, file: Path, **more: str) -> CommandAnswer:
    """Return where a confidential result about a release is; `more` are further keys of JSON."""
    where = Fact("Result:", f"{file} (confidential, for staff)", whole=True)
    return CommandAnswer({"release": release, **more, "internal": file}, (where,))


def json_wanted() -> bool:
    """Return whether the command was given `--json`, so that it prints nothing else."""
    return bool(click.get_current_context().ensure_object(dict).get("json"))


def decision_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--by` and `--reason`, both required: the ledger records who acts, and why."""

    @click.option("--by", required=True, metavar="NAME", help="Your name, for the ledger.")
    @click.option("--reason", required=True, metavar="TEXT", help="Your reason, for the ledger.")
    @functools.wraps(command)
    def call(*arguments: Any, by: str, reason: str, **options: Any) -> Any:
        by, reason = person_and_reason(by, reason)
        return command(*arguments, by=by, reason=reason, **options)

    return call


def this_home() -> Path:
    """Return the folder of the ledger and of all runs."""
    from tasks.run.home_folder import home

    return home()


def the_ledger() -> Ledger:
    """Return the ledger; make one if there is none."""
    from tasks.run.home import open_ledger

    return open_ledger()


def ledger_if_any() -> Ledger | None:
    """Return the ledger, None if there is none; makes none.

    Raises:
        ModuleNotFoundError: if there may be one, and the packages that read it are not installed.
    """
    try:
        from tasks.run.home import assert_not_lost, ledger_exists
    except ModuleNotFoundError as error:
        from tasks.run.home_folder import is_used

        if is_needed_by_pipeline(error) and not is_used(this_home()):
            return None
        raise

    assert_not_lost()
    # A home that is a file can hold no ledger; opening one gives the clearest error.
    return the_ledger() if ledger_exists() or this_home().is_file() else None


def existing_ledger() -> Ledger:
    """Return the ledger.

    Raises:
        BadInput: if there is none.
        ModuleNotFoundError: if the packages that make one are not installed.
    """
    found = ledger_if_any()
    if found is None:
        require_pipeline()
        raise BadInput(
            f"There is no ledger in {this_home()}. `dp-release ledger open` makes one with its"
            " first account; if it is elsewhere, set DP_RELEASE_HOME or DP_RELEASE_LEDGER.",
            row="no-ledger",
        )
    return found
