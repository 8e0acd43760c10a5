"""What is wrong with a text that is not valid YAML: its line, and what to do about it."""

from __future__ import annotations

import yaml

from dp_core.errors import BadInput, Fault

_TEXT = (
    "put quotes around a text with a colon, and around one that starts with > | % @ ` * & ! #; no"
    " item may be empty"
)
_INDENT = "check the indentation, the quotes, and the space after every colon, here and just above"
_HINTS = (
    ("mapping values are not allowed", _INDENT),
    ("could not find expected ':'", _INDENT),
    ("did not find expected key", _INDENT),
    ("expected <block end>", _INDENT),
    ("expected ',' or ']'", "a list [...] is not closed, or a comma is missing"),
    ("expected ',' or '}'", "a mapping {...} is not closed, or a comma is missing"),
    ("unexpected end of stream", "a quote is opened and never closed"),
    ("expected '-' indicator", "check the indentation, and begin each item with `- `"),
    ("unknown escape character", "write a text with a backslash in single quotes"),
)
"""Parts of the messages of libyaml, and what to do about each; `_TEXT` is for all others."""


def translated(error: yaml.MarkedYAMLError, text: str, source: str) -> BadInput:
    """Return the error for a text that libyaml cannot parse.

    Args:
        error: What libyaml says.
        text: The text.
        source: Name of the file.
    """
    problem = error.problem or "cannot be parsed"
    mark = error.problem_mark or error.context_mark
    if "could not find expected ':'" in problem and error.context_mark:
        mark = error.context_mark  # the key; the problem is noticed on a later line
    line = mark.line + 1 if mark else 1
    hint = next((hint for part, hint in _HINTS if part in problem), _TEXT)
    if "flow" in (error.context or "") and error.context_mark:
        hint = f"{hint} (the bracket opens on line {error.context_mark.line + 1})"
    if "\t" in "".join(text.splitlines()[line - 1 : line]):
        hint = "the line has a tab character; use spaces"
    message = f"is not valid YAML ({problem}); {hint}."
    fault = BadInput(f"{source}, line {line}: {message}")
    fault.faults = (Fault(source, line, "", message),)
    return fault
