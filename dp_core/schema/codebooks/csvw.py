"""CSV on the Web: the metadata document of a table (W3C, 2015)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from dp_core.errors import BadInput
from dp_core.schema.codebooks.codebook import (
    Codebook,
    Variable,
    description_of,
    mapping,
    mappings,
    texts_of,
    word,
)
from dp_core.schema.codebooks.codebook_table import variable_of

_SIGNS = ("nonNegative", "positive", "nonPositive", "negative")
_INTEGERS = (
    *("integer", "int", "long", "short", "byte", "gYear"),
    *(f"{sign}Integer" for sign in _SIGNS),
    *(f"unsigned{size}" for size in ("Int", "Long", "Short", "Byte")),
)
_TYPES: Mapping[str, str] = {
    **dict.fromkeys(_INTEGERS, "integer"),
    **dict.fromkeys(("number", "decimal", "double", "float"), "number"),
    **dict.fromkeys(("date", "datetime", "dateTime"), "date"),
    "boolean": "category",
}


def is_csvw(document: Any) -> bool:
    """Return whether a JSON document is CSVW metadata."""
    found = mapping(document)
    return "tableSchema" in found or any(
        "tableSchema" in one for one in mappings(found.get("tables"))
    )


def read_csvw(document: Any, name: str, data: str) -> Codebook:
    """Return the codebook of a table.

    Args:
        document: The JSON document.
        name: Name of its file.
        data: Name of the data file, by which the table is chosen; empty for the first one.

    Raises:
        BadInput: if no table has columns.
    """
    group = mapping(document)
    tables = mappings(group.get("tables")) or (group,)
    fitting = [one for one in tables if data and PurePosixPath(word(one.get("url"))).name == data]
    table = (fitting or tables)[0]
    schema = mapping(table.get("tableSchema")) or mapping(group.get("tableSchema"))
    columns = [one for one in mappings(schema.get("columns")) if word(one.get("virtual")) != "true"]
    if not columns:
        raise BadInput(f"{name}: its `tableSchema` has no `columns`. Give one that lists them.")
    inherited = {**group, **table, **schema}
    default = texts_of(inherited.get("null", ""))
    keys = set(texts_of(schema.get("primaryKey")))
    key = keys.pop() if len(keys) == 1 else None
    return Codebook(
        name=name,
        form="CSVW metadata",
        title=_first_property(table, "title") or _first_property(group, "title"),
        description=_first_property(table, "description") or _first_property(group, "description"),
        missing_values=default,
        variables=tuple(_variable(column, default, key) for column in columns),
    )


def _first_property(of: Mapping[str, Any], what: str) -> str:
    return _first(of, *(f"{name}:{what}" for name in ("dc", "dcterms", "schema", "rdfs")), what)


def _variable(column: Mapping[str, Any], default: tuple[str, ...], primary: str | None) -> Variable:
    # The header of the CSV file has the titles; `name` is for programs.
    titles = column.get("titles")
    titles = texts_of(next(iter(mapping(titles).values()), titles))
    name = titles[0] if titles else word(column.get("name"))
    stated = column.get("datatype", "string")
    datatype = mapping(stated) or {"base": word(stated)}
    base = word(datatype.get("base", "string"))
    own = texts_of(column["null"]) if "null" in column else None
    pattern = word(mapping(datatype.get("format")).get("pattern")) or word(datatype.get("format"))
    pairs = _levels(base, pattern)
    least = {"nonNegativeInteger": "0", "positiveInteger": "1"}.get(base, "")
    unit = ("dc:unitMeasure", "schema:unitText", "unitMeasure", "unitText", "qudt:unit")
    cells = {
        "type": "category" if pairs else _TYPES.get(base, base),
        "min": _first(datatype, "minimumInclusive", "minimum", "minInclusive") or least,
        "max": _first(datatype, "maximumInclusive", "maximum", "maxInclusive"),
        "format": "" if pairs else pattern,
        "role": "id" if primary in (name, word(column.get("name"))) else "",
        "unit": _first(column, *unit),
        "label": description_of(
            *titles[1:2], _first_property(column, "title"), _first_property(column, "description")
        ),
    }
    return replace(
        variable_of(name, cells, pairs, default if own is None else own),
        missing_values=own,
        missing=word(column.get("required")) != "true",
    )


def _first(of: Mapping[str, Any], *keys: str) -> str:
    return next((text for key in keys if (text := word(of.get(key)))), "")


def _levels(base: str, pattern: str) -> list[tuple[str, str]]:
    """Return the levels that a boolean's format, or a pattern of alternatives, states."""
    if base == "boolean":
        true, _, false = (pattern or "true|false").partition("|")
        return [(false, ""), (true, "")]
    alternatives = re.fullmatch(r"\^?\(?(?:\?:)?([^()\[\]{}*+?.\\^$]+)\)?\$?", pattern)
    if base == "string" and alternatives and "|" in alternatives[1]:
        return [(text, "") for text in alternatives[1].split("|")]
    return []
