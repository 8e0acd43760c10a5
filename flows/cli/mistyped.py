"""What a person probably meant by a command line that cannot be read."""

from __future__ import annotations

import click

from dp_core.errors import similar

_SPEC_KEYS = {
    "epsilon": "privacy",
    "delta": "privacy",
    "neighbours": "privacy",
    "sets": "synthesize",
    "seed": "synthesize",
    "rows": "synthesize",
    "method": "",
    "account": "",
    "schema": "",
    "data": "",
}
"""Keys of a spec that other programs have as options, and the section of each."""
_DASHES = ("\u2013", "\u2014", "\u2212")
"""Characters that word processors write in place of two hyphens."""


def usage_fault(error: click.ClickException) -> str:
    """Return the fault of a command line, and how to get help."""
    context = getattr(error, "ctx", None)
    if isinstance(error, click.NoSuchOption):
        return _no_option(error)
    text = error.format_message().rstrip(".")
    typed = text.partition("(")[2].partition(")")[0].partition(" ")[0]
    if typed.startswith(_DASHES):
        return f"{typed} begins with a long dash; write two hyphens: --{typed[1:]}."
    if context is None or text.endswith("?"):
        return text if text.endswith("?") else f"{text}."
    return f"{text}; see `{context.command_path} --help`."


def _no_option(error: click.NoSuchOption) -> str:
    """Return the fault of an option that a command does not have."""
    typed, context = error.option_name, error.ctx
    if context is None:
        return f"No such option {typed}."
    command = context.command
    options = [name for each in command.params for name in each.opts if name.startswith("--")]
    options.append("--help")
    word = typed.lstrip("-")
    takes_spec = any(each.human_readable_name == "SPEC" for each in command.params)
    if takes_spec and word in _SPEC_KEYS:
        section = f"under `{_SPEC_KEYS[word]}`" if _SPEC_KEYS[word] else f"as `{word}: ...`"
        return f"No such option {typed}; state it in the spec, {section}."
    begun = [name for name in options if word and name.startswith(f"--{word}")]
    hint = f" Did you mean {begun[0]!r}?" if len(begun) == 1 else similar(typed, options)
    if len(word) == 1 and not typed.startswith("--"):
        hint = " Options of several letters begin with two hyphens, as in --json."
    return f"No such option {typed}.{hint or f' See `{context.command_path} --help`.'}"
