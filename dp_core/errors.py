"""The errors of the program, and the words with which messages point to what was meant."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from dp_core.kernel.errors import (
    BadInput,
    BudgetRefused,
    DataRefused,
    LedgerCorrupt,
    ReleaseError,
    SchemaViolation,
    StageFailed,
)

__all__ = [
    "MOST_KNOWN",
    "SYNONYMS",
    "AwaitsApproval",
    "BadInput",
    "BudgetRefused",
    "DataRefused",
    "Fault",
    "Held",
    "LedgerCorrupt",
    "ReleaseError",
    "SchemaViolation",
    "StageFailed",
    "Unpublished",
    "appearance",
    "looks_alike",
    "nearest",
    "similar",
    "without_detail",
]


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a spec or schema.

    Attributes:
        file: Name of the file.
        line: Line in the file, from 1; 0 if it has none.
        key: Dotted path, `columns.age.type`; empty for the whole file.
        text: What is wrong and what to do.
    """

    file: str
    line: int
    key: str
    text: str


def without_detail(error: ReleaseError) -> ReleaseError:
    """Return a new error with the same sentence, row and file, and nothing else.

    An error that was raised holds its causes and its traceback, which an orchestrator stores.
    """
    new = type(error)(error.message, row=error.row)
    new.message_file = error.message_file
    return new


class AwaitsApproval(BudgetRefused):
    """The account runs approved plans only, and this one waits for a person; nothing was spent."""


class Held(ReleaseError):
    """All is made, and the release waits for a person to publish or withdraw it: no failure."""

    exit_code = 6


class Unpublished(ReleaseError):
    """The release ended without a bundle, by the thresholds of its own spec: no failure."""

    exit_code = 7


MOST_KNOWN = 1000
"""Known words among which a message suggests one."""
SYNONYMS = {
    **dict.fromkeys(("values", "categories", "enum", "choices", "labels", "codelist"), "levels"),
    **dict.fromkeys(("minimum", "range", "between", "limits", "bounds"), "min"),
    **dict.fromkeys(("breaks", "cuts", "breakpoints"), "edges"),
    **dict.fromkeys(("optional", "required", "nullable"), "missing"),
    **dict.fromkeys(("na_values", "na", "null", "nulls"), "missing_values"),
    **dict.fromkeys(("label", "question", "unit", "units"), "description"),
    **dict.fromkeys(("variables", "fields", "attributes"), "columns"),
    **dict.fromkeys(("rows", "n", "records"), "rows_about"),
    **dict.fromkeys(("constraints", "zeros"), "impossible"),
    **dict.fromkeys(("keep", "top"), "private"),
    **dict.fromkeys(("string", "str", "text", "varchar", "object", "factor"), "category"),
    **dict.fromkeys(("nominal", "bool", "boolean", "logical", "binary", "dummy"), "category"),
    **dict.fromkeys(("ordered", "likert", "rank"), "ordinal"),
    **dict.fromkeys(("int", "int64", "long", "count", "discrete", "year"), "integer"),
    **dict.fromkeys(("float", "float64", "double", "real", "decimal", "continuous"), "number"),
    **dict.fromkeys(("datetime", "timestamp", "day"), "date"),
    "precision": "decimals",
    "dataset": "title",
    "maximum": "max",
}
"""Words of other programs for keys and types of a schema."""
_LATIN = str.maketrans(
    "\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0425\u0406"
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456"
    "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03bf"
    "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u2018\u2019\u201c\u201d",
    "ABEKMHOPCTXIaeopcyxiABEZHIKMNOPTYXo-------''\"\"",
)
"""Cyrillic and Greek letters, dashes and quotation marks that look like ASCII."""


def similar(word: str, known: Iterable[str]) -> str:
    r"""Return ` Did you mean 'x'?` for the known word nearest to `word`; empty if none is near.

    Capital and small letters count as the same.

    >>> similar("epsilom", ["epsilon", "delta"]), similar("zzz", ["b", "a"])
    (" Did you mean 'epsilon'?", '')
    >>> similar("e\u0301", ["\u00e9"])
    " It looks like '\\xe9', but is 'e\\u0301'; write it in the same characters."
    """
    words = sorted(known)
    for each in words:
        if looks_alike(each, word):
            return f" It looks like {each!a}, but is {word!a}; write it in the same characters."
    folded = {each.casefold(): each for each in words}
    meant = SYNONYMS.get(word.casefold(), "")
    close = [meant] if meant in folded else difflib.get_close_matches(word.casefold(), folded, n=1)
    return f" Did you mean {folded[close[0]]!r}?" if close else ""


def appearance(text: str) -> str:
    r"""Return a text in which letters, dashes and spaces that look the same are the same.

    >>> appearance("Cafe\u0301") == appearance("Caf\u00e9"), appearance("New\u00a0York")
    (True, 'New York')
    >>> appearance("\u0421afe"), appearance("18\u201329")
    ('Cafe', '18-29')
    """
    plain = unicodedata.normalize("NFKC", text).translate(_LATIN)
    seen = (letter for letter in plain if unicodedata.category(letter) != "Cf")
    return " ".join("".join(seen).split())


def looks_alike(one: str, other: str) -> bool:
    r"""Return whether two texts look the same, but are written in different characters.

    Texts that differ only in the number of plain spaces do not look alike.

    >>> looks_alike("a b", "a\u00a0b"), looks_alike("a b", "a  b"), looks_alike("a", "a")
    (True, False, False)
    """
    if one.isascii() and other.isascii():
        return False
    plain = (re.sub(" +", " ", text.strip(" ")) for text in (one, other))
    return len({*plain}) > 1 and appearance(one) == appearance(other)


def nearest(word: str, known: Iterable[str]) -> str:
    """Return ` Did you mean 'x'?` for the known word nearest to `word`, or the list of them.

    Of more than `MOST_KNOWN` words it returns nothing: neither the search nor the list would help.
    Capital and small letters count as the same.

    >>> nearest("epsilom", ["epsilon", "delta"])
    " Did you mean 'epsilon'?"
    >>> nearest("AIM", ["aim", "mst"])
    " Did you mean 'aim'?"
    >>> nearest("zzz", ["b", "a"])
    ' Known: a, b.'
    """
    words = sorted(known)
    if len(words) > MOST_KNOWN:
        return ""
    if close := similar(word, words):
        return close
    return f" Known: {', '.join(words)}." if words else ""
