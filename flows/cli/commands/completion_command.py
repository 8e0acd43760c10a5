"""`dp-release completion`: the script by which a shell completes commands, options and names."""

from __future__ import annotations

import click

from flows.cli.command_parts import cli
from flows.cli.completion import SHELLS, VARIABLE


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
