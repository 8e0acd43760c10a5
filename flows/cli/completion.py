"""What a shell completes, and `dp-release completion`, which prints a script for the shell.

A shell asks on every press of Tab, so nothing heavy is imported. A home or ledger that cannot be
read completes nothing; the command itself reports it.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from flows.cli.arguments import Completed, check_release
from flows.cli.command_parts import cli

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_DP_RELEASE_COMPLETE"
"""Environment variable by which the shell's script asks."""
PATIENCE = 0.1
"""Seconds to wait for a ledger that is being written."""


class ReleaseName(Completed):
    """The name of a release."""

    def convert(self, value: Any, _param: Any, _ctx: Any) -> Any:
        """Return the name; refuse a path, and what is no name."""
        return check_release(value)


def releases() -> list[str]:
    """Return the names of the releases that have a folder in the home."""
    from tasks.run.home_folder import home

    return sorted(path.name for path in (home() / "runs").iterdir() if path.is_dir())


def accounts() -> list[str]:
    """Return the names of the accounts in the home's ledger; none if it is on a server."""
    from tasks.run.home_folder import home

    named = os.environ.get("DP_RELEASE_LEDGER", "")
    if named and not named.startswith("sqlite:///"):
        return []
    file = Path(named.removeprefix("sqlite:///")) if named else home() / "ledger.db"
    address = f"{file.absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(address, uri=True, timeout=PATIENCE)) as ledger:
        rows = ledger.execute("SELECT DISTINCT account FROM entries WHERE kind = 'open'")
        return sorted(name for (name,) in rows)


def methods() -> list[str]:
    """Return the names of the presets."""
    from dp_core.plan.presets import PRESETS

    return list(PRESETS)


def stages() -> list[str]:
    """Return the stages that `resume --from` repeats."""
    from tasks.run.stage_table import REPEATABLE

    return [*REPEATABLE]


RELEASE, ACCOUNT = ReleaseName(releases), Completed(accounts)
METHOD, STAGE = Completed(methods), Completed(stages)


@cli.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print a script that makes a shell complete dp-release.

    \b
    bash  dp-release completion bash > ~/.local/share/bash-completion/completions/dp-release
    zsh   dp-release completion zsh > ~/.zfunc/_dp-release     (a folder of fpath, before compinit)
    fish  dp-release completion fish > ~/.config/fish/completions/dp-release.fish

    It completes commands, options, files, methods, and the releases and accounts of your home.
    """  # noqa: D301 (click's sign for text that is not to be wrapped)
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    # Not `source()`, which for bash also runs bash to warn of an old version.
    made = kind(cli, {}, "dp-release", VARIABLE)
    click.echo(made.source_template % made.source_vars())
