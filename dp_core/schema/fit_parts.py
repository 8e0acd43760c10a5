"""The parts of a schema that can decide whether data fit it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dp_core.schema.definition import Schema
from dp_core.text.canonical import digest

_WORDS = ("version", "title", "description", "publication", "rows_about", "ignore")
"""Keys that change no verdict. (`ignore`: a file with other columns cannot be read at all.)"""
_IN_BINS = ("bins", "edges", "density", "description")
"""Keys of a column that decide only how values that fit are binned and drawn."""
_LINKS = ("role", "within", "map")
"""Keys of a column that a schema with some of the columns leaves out."""
_LISTS = ("impossible", "rules", "totals", "expectations")
_DIGITS = 32


def fit_parts(schema: Schema) -> frozenset[str]:
    """Return the hash of each part of a schema that can decide whether data fit it.

    Each column, rule, total and expectation is a part, so a schema with some of the columns has no
    other parts. Titles, descriptions, labels of levels and bins belong to no part.
    """
    return frozenset(digest(part)[:_DIGITS] for part in _parts(schema.document))


def _parts(document: Mapping[str, Any]) -> Iterator[list[object]]:
    for key, value in document.items():
        if key in _WORDS:
            continue
        if key == "columns":
            for column in value:
                for name, definition in column.items():
                    yield from _column_parts(name, definition)
        elif key == "tables":
            for table, inside in value.items():
                for part in _parts(inside):
                    yield [key, table, *part]
        elif key in _LISTS:
            for item in value:
                yield [key, item]
        else:
            yield [key, value]


def _column_parts(name: str, definition: Mapping[str, Any]) -> Iterator[list[object]]:
    kept = {key: definition[key] for key in definition if key not in (*_IN_BINS, *_LINKS)}
    if isinstance(kept.get("levels"), list):
        kept["levels"] = [
            next(iter(level)) if isinstance(level, Mapping) else level for level in kept["levels"]
        ]
    yield ["columns", name, kept]
    for key in _LINKS:
        if key in definition:
            yield ["columns", name, key, definition[key]]
