"""What is wrong with a text that is not valid YAML: its line, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Sequence

import yaml

from dp_core.errors import BadInput, Fault

# Messages of libyaml, and what to do about each.
_HINTS = (
    (
        "mapping values are not allowed",
        "check the indentation, the space after every colon, and quotes around a text with ': '",
    ),
    ("cannot start any token", "a text that starts with one of > % @ ` | needs quotes"),
    ("expected a comment or a line break", "a text that starts with > or | needs quotes"),
    ("did not find expected comment or line break", "a text that starts with > needs quotes"),
    ("expected ',' or ']'", "a list [...] is not closed, or a comma is missing"),
    ("expected ',' or '}'", "a mapping {...} is not closed, or a comma is missing"),
    ("could not find expected ':'", "a key needs a colon and a space after it"),
    ("found unexpected ':'", "a key has no value here, or a text with a colon needs quotes"),
    ("chomping or indentation indicators", "a text that starts with > or | needs quotes"),
    ("expected <block end>", "check the indentation and the quotes here and just above"),
    ("unexpected end of stream", "a quote is opened and never closed"),
    ("did not find expected key", "check the indentation and the quotes here and just above"),
    ("did not find expected '-' indicator", "check the indentation, and begin each item with `- `"),
    ("did not find expected tag", "a text that starts with ! needs quotes"),
    ("unknown escape character", "write a text with a backslash in single quotes"),
)


_CURLED = re.compile("[“”„‟‘’‚«»](.*)[“”„‟‘’«»]", re.DOTALL)


def straight(text: str) -> str:
    """Return a text in straight quotes if typographic ones enclose it; the empty text otherwise.

    >>> straight("“male”"), straight("„männlich“"), straight("male")
    ('"male"', '"männlich"', '')
    """
    found = _CURLED.fullmatch(text)
    return f'"{found[1]}"' if found else ""


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
    lines = text.splitlines()
    here = lines[line - 1] if line <= len(lines) else ""
    hint = next((hint for part, hint in _HINTS if part in problem), "check quotes and brackets")
    begun = error.context_mark.line + 1 if error.context_mark else line
    if "\t" in here:
        hint = "the line has a tab character; use spaces"
    elif re.search("[\uff1a\uff0c]", here):
        hint = "the line has a full-width colon or comma; write : or ,"
    elif re.search(r"[}\]]\s*,\s*$", here) and "key" in problem:
        hint = "remove the comma at the end of the line"
    elif re.search(r":\s*'[^']*'\w", here):
        hint = "a text with an apostrophe needs double quotes"
    elif re.search(r"[:,\[{]\s*[*&]", here):
        hint = "a text that starts with * or & needs quotes"
    elif re.search(r"[{\[][^}\]]*;", here):
        hint = "separate keys and values by commas, not by semicolons"
    elif "flow" in (error.context or "") or "flow" in problem or "node content" in problem:
        first = min(begun, line - 1)
        cut = re.compile(r"[\[{][^\]}]*\s#")
        comments = [
            at for at, each in enumerate(lines[first - 1 : line], first) if cut.search(each)
        ]
        if comments:
            line, hint = comments[0], "a text that starts with # needs quotes"
        elif begun < line:
            hint = f"a bracket that opens on line {begun} is not closed, or a comma is missing"
    elif "could not find expected ':'" in problem:
        hint = _without_colon(here) or hint
    elif "did not find expected key" in problem or "mapping values" in problem:
        hint = _indented(lines, line) or hint
    message = f"is not valid YAML ({problem}); {hint}."
    fault = BadInput(f"{source}, line {line}: {message}")
    fault.faults = (Fault(source, line, "", message),)
    return fault


def _without_colon(line: str) -> str:
    """Return what to write instead of a line without a key and a colon; empty if not known."""
    typed = line.strip()
    if typed.startswith(("//", "--", "/*", "%")):
        return "a comment begins with #"
    if found := re.fullmatch(r"(\w+)\s*:?=\s*(.+)", typed):
        return f"write `{found[1]}: {found[2]}`"
    if found := re.fullmatch(r"(\w+):(\S.*)", typed):
        return f"write a space after the colon: `{found[1]}: {found[2]}`"
    if re.fullmatch(r"\w+", typed):
        return f"write a colon after the key: `{typed}:`"
    if found := re.fullmatch(r"(\w+) +(\S+)", typed):
        return f"a key needs a colon and a space after it: `{found[1]}: {found[2]}`"
    return ""


def _indented(lines: Sequence[str], line: int) -> str:
    """Return how far a line and the one above it are indented; the empty text if equally far."""
    above = [
        (number, each)
        for number, each in enumerate(lines[: line - 1], start=1)
        if each.strip() and not each.lstrip().startswith("#")
    ]
    if not above or line > len(lines):
        return ""
    number, before = above[-1]
    own, other = (len(each) - len(each.lstrip(" ")) for each in (lines[line - 1], before))
    if own == other:
        return ""
    return (
        f"check the indentation: line {line} begins after {_spaces(own)} and line {number} after"
        f" {_spaces(other)}"
    )


def _spaces(count: int) -> str:
    return "1 space" if count == 1 else f"{count} spaces"
