"""Texts that look the same but differ in how their letters or spaces are encoded."""

from __future__ import annotations

import unicodedata
from typing import Literal

_FORMS: tuple[Literal["NFC", "NFD"], ...] = ("NFC", "NFD")


def visible(text: str) -> str:
    r"""Return a text without what cannot be seen: the encoding of its letters, kinds of spaces.

    >>> visible("Cafe\u0301") == visible("Caf\u00e9"), visible("New\u00a0York")
    (True, 'New York')
    """
    plain = unicodedata.normalize("NFKC", text)
    seen = (letter for letter in plain if unicodedata.category(letter) != "Cf")
    return " ".join("".join(seen).split())


def how_to_encode(own: str, text: str) -> str:
    r"""Return how to give a text of a file the code points of the text that the schema has.

    Args:
        own: The text in the schema.
        text: The text in the file, which looks the same.

    >>> how_to_encode("a b", "a\u00a0b")
    "Replace 'a\\xa0b' by 'a b' in the file; they look alike."
    """
    for form in _FORMS:
        if unicodedata.normalize(form, text) == own:
            return (
                f"The schema writes {own!a}, which is Unicode {form}. Normalise the file:"
                f" `uconv -x any-{form.lower()} FILE > NEW.csv`, in Python"
                f' `unicodedata.normalize("{form}", text)`, in R'
                f" `stringi::stri_trans_{form.lower()}(text)`."
            )
    return f"Replace {text!a} by {own!a} in the file; they look alike."
