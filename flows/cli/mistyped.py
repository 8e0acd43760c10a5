"""What is wrong with a command line that cannot be read: the nearest option, or where help is."""

from __future__ import annotations

import click

from dp_core.errors import similar


def usage_fault(error: click.ClickException) -> str:
    """Return the fault of a command line, and how to get help."""
    context = getattr(error, "ctx", None)
    text, hint = error.format_message().rstrip("."), ""
    if isinstance(error, click.NoSuchOption) and context is not None:
        text = f"No such option {error.option_name}"
        known = {name.strip("-") for each in context.command.params for name in each.opts}
        # Without the dashes, which all options share.
        hint = similar(error.option_name.strip("-"), known).replace("mean '", "mean '--")
    if text.endswith("?"):
        return text
    help_page = "" if hint or context is None else f"; see `{context.command_path} --help`"
    return f"{text}{help_page}.{hint}"
