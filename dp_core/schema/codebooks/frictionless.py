"""Frictionless Data Packages and Table Schemas, versions 1 and 2, also those of bundles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Any

from dp_core.errors import BadInput
from dp_core.schema.codebooks.codebook import (
    Codebook,
    Role,
    Variable,
    date_format,
    description_of,
    levels_of,
)
from dp_core.schema.codebooks.json_text import mapping, mappings, word, words
from dp_core.schema.column_types import registry
from dp_core.schema.column_types.registry import Kind, column_type

_KINDS: Mapping[str, Kind] = {
    "year": "integer",
    "boolean": "category",
    "datetime": "date",
} | {each.field_type: each.word for each in map(column_type, registry.words()) if not each.levels}


def is_frictionless(document: Any) -> bool:
    """Return whether a JSON document is a Table Schema or a Data Package."""
    found = mapping(document)
    return bool(mappings(found.get("fields")) or mappings(found.get("resources")))


def read_frictionless(document: Any, name: str, data: str, load: Callable[[str], Any]) -> Codebook:
    """Return the codebook of a Table Schema, or of one resource of a Data Package.

    Args:
        document: The JSON document.
        name: Name of its file.
        data: Name of the data file, by which the resource is chosen; empty for the first one.
        load: Loads a JSON document beside it, for a resource that names its schema by a path.

    Raises:
        BadInput: if no resource has fields.
    """
    package = mapping(document)
    resource: Mapping[str, Any] = {}
    schema = package
    form = "Frictionless Table Schema"
    if "fields" not in package:
        form = "Frictionless Data Package"
        resource = _resource(package, name, data)
        found = resource.get("schema")
        schema = mapping(load(found) if isinstance(found, str) else found)
    fields = mappings(schema.get("fields"))
    if not fields:
        raise BadInput(f"{name} has no `fields`. Give a Table Schema or a Data Package.")
    missing = _missing_words(schema.get("missingValues", [""]))
    keys = set(words(schema.get("primaryKey")))
    key = keys.pop() if len(keys) == 1 else None
    return Codebook(
        name=name,
        form=form,
        title=word(package.get("title")) or word(resource.get("title")),
        description=word(package.get("description")) or word(resource.get("description")),
        missing_values=missing,
        variables=tuple(_variable(field, missing, key) for field in fields),
    )


def _resource(package: Mapping[str, Any], name: str, data: str) -> Mapping[str, Any]:
    described = [one for one in mappings(package.get("resources")) if one.get("schema")]
    if not described:
        raise BadInput(f"{name}: no resource has a `schema`. Give a package that describes fields.")
    for one in described:
        if data and any(PurePosixPath(path).name == data for path in words(one.get("path"))):
            return one
    return described[0]


def _missing_words(value: Any) -> tuple[str, ...]:
    """Return missing values, which version 2 also writes as values with labels."""
    listed = value if isinstance(value, list) else [value]
    return tuple(
        dict.fromkeys(word(one["value"] if "value" in mapping(one) else one) for one in listed)
    )


def _variable(field: Mapping[str, Any], missing: tuple[str, ...], primary: str | None) -> Variable:
    name = word(field.get("name"))
    limits = mapping(field.get("constraints"))
    own = _missing_words(field["missingValues"]) if "missingValues" in field else None
    absent = missing if own is None else own
    stated = word(field.get("type"))
    kind = _KINDS.get(stated)
    pairs = _levels(field, limits, stated)
    remarks = []
    if pairs:
        kind = "ordinal" if _is_ordered(field) else "category"
    form = ""
    if kind == "date":
        pattern = word(field.get("format"))
        form = date_format(pattern)
        if pattern not in ("", "default", "any") and not form:
            remarks.append(f"the codebook's format {pattern!r} cannot be read; state `format`")
        if form == "%Y-%m-%d":
            form = ""
    is_key = name == primary or (word(limits.get("unique")) == "true" and not pairs)
    role: Role = "id" if is_key else "weight" if word(field.get("role")) == "weight" else ""
    low, high = word(limits.get("minimum")), word(limits.get("maximum"))
    edges = tuple(word(one.get("from")) for one in mappings(field.get("bins")))
    if edges:
        edges = (*edges, word(mappings(field.get("bins"))[-1].get("below")))
    if kind == "date":
        low, high = low[:10], high[:10]
    return Variable(
        name=name,
        kind=kind,
        levels=levels_of(pairs, absent),
        minimum=low or None,
        maximum=high or None,
        edges=edges,
        format=form,
        missing_values=own,
        missing=word(limits.get("required")) != "true",
        role=role,
        description=description_of(
            word(field.get("title")), word(field.get("description")), _unit(field)
        ),
        text=stated == "string" and not pairs,
        remarks=tuple(remarks),
    )


def _unit(field: Mapping[str, Any]) -> str:
    unit = word(field.get("unit")) or word(field.get("units"))
    return f"Unit: {unit}" if unit else ""


def _is_ordered(field: Mapping[str, Any]) -> bool:
    return "true" in (word(field.get("ordered")), word(field.get("categoriesOrdered")))


def _levels(
    field: Mapping[str, Any], limits: Mapping[str, Any], stated: str
) -> list[tuple[str, str]]:
    if own := mappings(field.get("levels")):  # of this program's bundles
        return [(word(one.get("source")), word(one.get("label"))) for one in own]
    if categories := field.get("categories"):  # version 2
        return [
            (word(mapping(one)["value"]), word(mapping(one).get("label")))
            if "value" in mapping(one)
            else (word(one), "")
            for one in (categories if isinstance(categories, list) else [categories])
        ]
    if limits.get("enum"):
        return [(text, "") for text in words(limits["enum"])]
    if stated == "boolean":
        true = words(field.get("trueValues", ["true"]))[0]
        false = words(field.get("falseValues", ["false"]))[0]
        return [(false, ""), (true, "")]
    return []
