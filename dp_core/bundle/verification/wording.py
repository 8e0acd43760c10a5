"""Comparison of a statement of an earlier format, whose sentences this program words otherwise.

Facts (numbers, names, days and keys) are compared in every format that `verify` reads. A sentence
is compared only in the current format, because nothing says how an earlier program worded it. The
check is then undecided: no fault was found, but it never counts as passed, because a forged
statement can name an earlier format.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dp_core.bundle.statement.release_json import FORMAT_VERSION, STATEMENT
from dp_core.bundle.verification.unknown_methods import Undecided
from dp_core.text.canonical import canonical_json

_NAMES = frozenset({"title", "column", "name", "account"})
"""Keys of texts that are no sentences, although they may contain spaces."""


def agrees(document: Mapping[str, Any], stated: object, made: object) -> bool:
    """Return whether a part of a statement is what plan and receipts imply.

    In a statement of an earlier format, texts with several words may differ.

    Args:
        document: The statement.
        stated: The part as stated; its form is not trusted.
        made: The part as this program makes it.
    """
    if is_current(document):
        return canonical_json(stated) == canonical_json(made)
    return canonical_json(facts(stated)) == canonical_json(facts(made))


def is_current(document: Mapping[str, Any]) -> bool:
    """Return whether a statement has the format of this program, and so its sentences."""
    return bool(document["format"]["version"] == FORMAT_VERSION)


def facts(value: object, key: str = "") -> object:
    """Return plain values without their sentences; a list of sentences becomes one.

    >>> facts({"epsilon": {"exact": "1/2"}, "in_words": "At most twice.", "days": ["2026-01-01"]})
    {'epsilon': {'exact': '1/2'}, 'in_words': 'a sentence', 'days': ['2026-01-01']}
    """
    if isinstance(value, str):
        return "a sentence" if " " in value and key not in _NAMES else value
    if isinstance(value, Mapping):
        return {name: facts(item, str(name)) for name, item in value.items()}
    if isinstance(value, list | tuple):
        found = [facts(item, key) for item in value]
        return ["a sentence"] if found and set(map(str, found)) == {"a sentence"} else found
    return value


def undecided_by_format(document: Mapping[str, Any], program: str, what: str) -> Undecided:
    """Return the finding that sentences cannot be compared, and what to install.

    Args:
        document: The statement.
        program: Program that made the release, with its version.
        what: Subject of the sentence: what cannot be compared.
    """
    version = document["format"]["version"]
    return Undecided(
        f"{STATEMENT} has format version {version}, and this program knows the sentences of version"
        f" {FORMAT_VERSION}, so {what} cannot be compared. Install {program}, which made the"
        " release, and run `dp-release verify` with it."
    )
