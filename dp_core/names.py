"""Names of releases and accounts: safe as folder names, and easy to type at night."""

from __future__ import annotations

import re

from dp_core.errors import BadInput

MAX_NAME = 100
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def check_name(text: str, *, what: str) -> str:
    """Return the name if it is one.

    Raises:
        BadInput: otherwise, saying what a name is.

    >>> check_name("rand-2026q4", what="release")
    'rand-2026q4'
    """
    if len(text) > MAX_NAME or not _NAME.fullmatch(text):
        article = "an" if what[0] in "aeiou" else "a"
        raise BadInput(
            f"{text[:40]!r} is not a name of {article} {what}: letters, digits, dots, _ and - only,"
            f" beginning with a letter or digit, at most {MAX_NAME} of them."
        )
    return text
