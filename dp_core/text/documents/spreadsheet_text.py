"""Text in CSV files for people: no spreadsheet takes it for a formula.

A spreadsheet runs a text that begins with `=`, `+`, `-` or `@` (CSV injection, CWE-1236). OWASP
recommends an apostrophe before such a text. Numbers need none.
"""

from __future__ import annotations

import re

_FORMULA = re.compile(r"'*\s*[=+\-@\uff1d\uff0b\uff0d\uff20]")
_LINE = re.compile(r"'*[\t\r\n]")
_NUMBER = re.compile(r"-[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?", re.ASCII)
_AFTER_SEPARATOR = re.compile(r"([,;\t]\s*)(?=[=+\-@\uff1d\uff0b\uff0d\uff20])")


def spreadsheet_text(text: str) -> str:
    r"""Return the text of a field, with an apostrophe before it if it would be run as a formula.

    Negative numbers such as `-9` stay as they are. Different texts have different results: if
    apostrophes alone stand before such a text, it gets one more.

    Args:
        text: A label, a name or a sentence; a number that the program computed needs no call.

    >>> [spreadsheet_text(text) for text in ("=1+1", "+1", "@x", "-x", "\tx")]
    ["'=1+1", "'+1", "'@x", "'-x", "'\tx"]
    >>> [spreadsheet_text(text) for text in ("-9", "-1.5e-3", "a=1", "'s-Hertogenbosch", "'=1")]
    ['-9', '-1.5e-3', 'a=1', "'s-Hertogenbosch", "''=1"]
    """
    runs = _FORMULA.match(text) or _LINE.match(text)
    return f"'{text}" if runs and not _NUMBER.fullmatch(text) else text


def spreadsheet_comment(text: str) -> str:
    """Return a comment line for above the header; no part of it is run as a formula.

    A spreadsheet divides the line at separators, so an apostrophe stands before each part that
    begins like a formula.

    Args:
        text: The comment without `#`; it is brought into one line.

    >>> spreadsheet_comment("Public by A: teaching, =1+1")
    "# Public by A: teaching, '=1+1"
    """
    return "# " + _AFTER_SEPARATOR.sub(r"\1'", " ".join(text.split()))
