"""Codebooks in plain JSON: a list of columns, or a mapping of names to columns.

The keys are those of a codebook that is a table; levels are a list, or a mapping of codes to
labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dp_core.schema.codebooks.codebook import (
    Codebook,
    Variable,
    mapping,
    mappings,
    texts_of,
    word,
)
from dp_core.schema.codebooks.codebook_table import variable_of

_LISTS = ("columns", "variables", "attributes")
_LEVELS = ("levels", "values", "categories", "codes", "choices", "enum")
_SAME = {
    "label": ("label", "description", "title", "question"),
    "min": ("min", "minimum"),
    "max": ("max", "maximum"),
    "type": ("type", "kind", "datatype"),
    "unit": ("unit", "units"),
    "format": ("format",),
    "decimals": ("decimals",),
    "role": ("role",),
    "required": ("required",),
}


def is_plain_json(document: Any) -> bool:
    """Return whether a JSON document lists columns with their names."""
    return bool(_columns(document))


def read_plain_json(document: Any, name: str) -> Codebook:
    """Return the codebook of a JSON document that lists columns.

    Args:
        document: The JSON document.
        name: Name of its file.
    """
    root, columns = mapping(document), _columns(document)
    known = {"name", "missing", *_LEVELS, *(each for names in _SAME.values() for each in names)}
    return Codebook(
        name=name,
        form="JSON list of columns",
        title=word(root.get("title")),
        description=word(root.get("description")),
        variables=tuple(_variable(one) for one in columns),
        unread=tuple(dict.fromkeys(each for one in columns for each in one if each not in known)),
    )


def _columns(document: Any) -> list[Mapping[str, Any]]:
    """Return the columns of a document, each with its name; none if it lists no columns."""
    if isinstance(document, list):
        return [one for one in mappings(document) if word(one.get("name"))]
    for key in _LISTS:
        listed = mapping(document).get(key)
        if isinstance(listed, Mapping):
            return [{**mapping(one), "name": name} for name, one in listed.items()]
        if found := [one for one in mappings(listed) if word(one.get("name"))]:
            return found
    return []


def _variable(column: Mapping[str, Any]) -> Variable:
    cells = {
        key: next((text for one in names if (text := word(column.get(one)))), "")
        for key, names in _SAME.items()
    }
    pairs: list[tuple[str, str]] = []
    for key in _LEVELS:
        stated = column.get(key)
        if isinstance(stated, Mapping):
            pairs = [(code, word(label)) for code, label in stated.items()]
        elif isinstance(stated, list):
            pairs = [
                (word(mapping(one).get("value")), word(mapping(one).get("label")))
                if mapping(one)
                else (word(one), "")
                for one in stated
            ]
        if pairs:
            break
    absent = [text for text in texts_of(column.get("missing")) if text not in ("true", "false")]
    return variable_of(word(column.get("name")), cells, pairs, absent)
