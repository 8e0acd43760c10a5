"""CSV on the Web: the metadata document of a table (W3C, 2015)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from dp_core.errors import BadInput
from dp_core.schema.codebooks.codebook import (
    Codebook,
    Variable,
    date_format,
    description_of,
    levels_of,
)
from dp_core.schema.codebooks.json_text import mapping, mappings, word, words
from dp_core.schema.column_types.registry import Kind

_SIGNS = ("nonNegative", "positive", "nonPositive", "negative")
_INTEGERS = (
    *("integer", "int", "long", "short", "byte", "gYear"),
    *(f"{sign}Integer" for sign in _SIGNS),
    *(f"unsigned{size}" for size in ("Int", "Long", "Short", "Byte")),
)
_KINDS: Mapping[str, Kind] = {
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
    default = words(inherited.get("null", ""))
    keys = set(words(schema.get("primaryKey")))
    key = keys.pop() if len(keys) == 1 else None
    return Codebook(
        name=name,
        form="CSVW metadata",
        title=_said(table, "title") or _said(group, "title"),
        description=_said(table, "description") or _said(group, "description"),
        missing_values=default,
        variables=tuple(_variable(column, default, key) for column in columns),
    )


def _said(of: Mapping[str, Any], what: str) -> str:
    for key in (f"dc:{what}", f"dcterms:{what}", f"schema:{what}", f"rdfs:{what}", what):
        if text := word(of.get(key)):
            return text
    return ""


def _variable(column: Mapping[str, Any], default: tuple[str, ...], primary: str | None) -> Variable:
    # The header of the CSV file has the titles; `name` is for programs.
    titles = (
        words(next(iter(mapping(column.get("titles")).values())))
        if mapping(column.get("titles"))
        else words(column.get("titles"))
    )
    name = titles[0] if titles else word(column.get("name"))
    stated = column.get("datatype", "string")
    datatype = mapping(stated) or {"base": word(stated)}
    base = word(datatype.get("base", "string"))
    kind = _KINDS.get(base)
    own = words(column["null"]) if "null" in column else None
    pattern = word(mapping(datatype.get("format")).get("pattern")) or word(datatype.get("format"))
    pairs = _levels(base, pattern)
    if pairs:
        kind = "category"
    limit = {
        end: word(datatype.get(f"{end}Inclusive") or datatype.get(end))
        for end in ("minimum", "maximum")
    }
    limit["minimum"] = limit["minimum"] or word(datatype.get("minInclusive"))
    limit["maximum"] = limit["maximum"] or word(datatype.get("maxInclusive"))
    if not limit["minimum"] and base in ("nonNegativeInteger", "positiveInteger"):
        limit["minimum"] = "0" if base == "nonNegativeInteger" else "1"
    form = date_format(pattern) if kind == "date" else ""
    keyed = primary is not None and primary in (name, word(column.get("name")))
    return Variable(
        name=name,
        kind=kind,
        levels=levels_of(pairs, default if own is None else own),
        minimum=limit["minimum"][: 10 if kind == "date" else None] or None,
        maximum=limit["maximum"][: 10 if kind == "date" else None] or None,
        format="" if form == "%Y-%m-%d" else form,
        missing_values=own,
        missing=word(column.get("required")) != "true",
        role="id" if keyed else "",
        description=description_of(
            *(titles[1:2]), _said(column, "title"), _said(column, "description"), _unit(column)
        ),
        text=kind is None and base == "string",
        remarks=(f"the codebook's format {pattern!r} cannot be read; state `format`",)
        if kind == "date" and pattern and not form
        else (),
    )


def _unit(column: Mapping[str, Any]) -> str:
    unit = (
        _said(column, "unitMeasure") or _said(column, "unitText") or word(column.get("qudt:unit"))
    )
    return f"Unit: {unit}" if unit else ""


def _levels(base: str, pattern: str) -> list[tuple[str, str]]:
    """Return the levels that a boolean's format, or a pattern of alternatives, states."""
    if base == "boolean":
        true, _, false = (pattern or "true|false").partition("|")
        return [(false, ""), (true, "")]
    alternatives = re.fullmatch(r"\^?\(?(?:\?:)?([^()\[\]{}*+?.\\^$]+)\)?\$?", pattern)
    if base == "string" and alternatives and "|" in alternatives[1]:
        return [(text, "") for text in alternatives[1].split("|")]
    return []
