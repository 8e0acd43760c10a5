"""Names of releases and accounts, safe as folder names."""

from __future__ import annotations

import re

from dp_core.errors import BadInput

MAX_NAME = 100
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def is_name(text: str) -> bool:
    """Return whether a text is safe as the name of a folder or file."""
    return len(text) <= MAX_NAME and _NAME.fullmatch(text) is not None


def check_name(text: str, *, what: str) -> str:
    """Return the name if it is valid.

    Args:
        text: The name.
        what: What it names, for the message.

    Raises:
        BadInput: if it is not valid; the message says which names are.

    >>> check_name("rand-2026q4", what="release")
    'rand-2026q4'
    """
    if not is_name(text):
        article = "an" if what[0] in "aeiou" else "a"
        raise BadInput(
            f"{text[:40]!r} is not a valid name of {article} {what}; use at most {MAX_NAME}"
            " letters a to z or A to Z, digits, dots, _ and -, and begin with a letter or digit."
        )
    return text
