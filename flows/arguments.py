"""What is typed on the command line, as exact values; every mistake is one sentence."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

from dp_core.accounting.composition import Terms
from dp_core.errors import BadInput, nearest
from dp_core.names import check_name
from dp_core.privacy import Neighbours


def exact_number(
    option: str, text: str, *, positive: bool = False, below_one: bool = False
) -> Fraction:
    """Return the exact value of a number.

    Raises:
        BadInput: if it is none, or outside what the option takes.
    """
    from dp_core.yaml_text import parse_fraction

    try:
        value = parse_fraction(text)
    except ValueError as error:
        raise BadInput(f"{option}: {error}") from None
    if value < 0 or (positive and value == 0):
        raise BadInput(f"{option} must be {'above 0' if positive else '0 or more'}, not {text}.")
    if below_one and value >= 1:
        raise BadInput(f"{option} must be below 1, not {text}; usual values are 1e-6 or less.")
    return value


def person_and_reason(by: str, reason: str) -> tuple[str, str]:
    """Return who decides and why, both stated."""
    for option, text in (("--by", by), ("--reason", reason)):
        if not text.strip():
            raise BadInput(f"{option} is empty; the ledger records a person and a reason.")
    return by.strip(), reason.strip()


_WORDS = {
    "--neighbours": ("add-remove", "replace-one"),
    "--unit": ("row",),
    "--composition": ("basic", "zcdp"),
}


def known_word(option: str, text: str) -> str:
    """Return one of the words an option takes.

    Raises:
        BadInput: if it is another, naming the nearest.
    """
    if text not in _WORDS[option]:
        raise BadInput(f"{option} {text!r} is not known.{nearest(text, _WORDS[option])}")
    return text


def account_terms(
    composition: str, *, epsilon: Fraction, delta: Fraction, own_delta: Fraction = Fraction(0)
) -> Terms:
    """Return the terms of an account.

    Raises:
        BadInput: if there can be no such account.
    """
    known_word("--composition", composition)
    try:
        return Terms("zcdp" if composition == "zcdp" else "basic", epsilon, delta, own_delta)
    except ValueError as error:
        raise BadInput(f"There can be no such account: {error}") from None


def relation(text: str) -> Neighbours:
    """Return a neighbouring relation."""
    return "add-remove" if known_word("--neighbours", text) == "add-remove" else "replace-one"


def check_release(text: str) -> str:
    """Return the name of a release, where people also type the path of its spec.

    Raises:
        BadInput: if it is a path, or no name.
    """
    if "/" in text or Path(text).is_file():
        raise BadInput(
            f"{text!r} is a path; name the release, as its spec does under `release`:"
            " `dp-release status` lists them."
        )
    return check_name(text, what="release")
