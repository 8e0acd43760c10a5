"""Frictionless Data Packages and Table Schemas, versions 1 and 2.

This program's bundles have the same form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
from dp_core.schema.column_types.registry import column_type, words

_FIELD_TYPES = {each.field_type: each.word for each in map(column_type, words()) if not each.levels}
"""Words of the types by those of a Table Schema."""


def read_frictionless(
    document: Any, name: str, data: str, load: Callable[[str], Any]
) -> Codebook | None:
    """Return the codebook of a Table Schema, or of one resource of a Data Package; None of others.

    Args:
        document: The JSON document.
        name: Name of its file.
        data: Name of the data file, by which the resource is chosen; empty for the first one.
        load: Loads a JSON document beside it, for a resource that names its schema by a path.

    Raises:
        BadInput: if no resource has fields.
    """
    package = mapping(document)
    if not (mappings(package.get("fields")) or mappings(package.get("resources"))):
        return None
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
    keys = {*texts_of(schema.get("primaryKey"))}
    key = keys.pop() if len(keys) == 1 else None  # a key of several columns identifies no person
    return Codebook(
        name=name,
        form=form,
        title=word(package.get("title")) or word(resource.get("title")),
        description=word(package.get("description")) or word(resource.get("description")),
        missing_values=missing,
        variables=tuple(_of_field(field, missing, key) for field in fields),
    )


def _resource(package: Mapping[str, Any], name: str, data: str) -> Mapping[str, Any]:
    described = [one for one in mappings(package.get("resources")) if one.get("schema")]
    if not described:
        raise BadInput(f"{name}: no resource has a `schema`. Give a package that describes fields.")
    for one in described:
        if data and any(PurePosixPath(path).name == data for path in texts_of(one.get("path"))):
            return one
    return described[0]


def _missing_words(value: Any) -> tuple[str, ...]:
    """Return missing values, which version 2 also writes as values with labels."""
    listed = value if isinstance(value, list) else [value]
    return tuple(
        dict.fromkeys(word(one["value"] if "value" in mapping(one) else one) for one in listed)
    )


def _of_field(field: Mapping[str, Any], missing: tuple[str, ...], primary: str | None) -> Variable:
    name = word(field.get("name"))
    limits = mapping(field.get("constraints"))
    own = _missing_words(field["missingValues"]) if "missingValues" in field else None
    stated, pattern = word(field.get("type")), word(field.get("format"))
    pairs = _field_levels(field, limits, stated)
    ordered = word(field.get("ordered")), word(field.get("categoriesOrdered"))
    if pairs:
        stated = "ordinal" if "true" in ordered else "category"
    is_key = name == primary or (word(limits.get("unique")) == "true" and not pairs)
    bins = mappings(field.get("bins"))
    cells = {
        "type": _FIELD_TYPES.get(stated, stated),
        "min": word(limits.get("minimum")),
        "max": word(limits.get("maximum")),
        "format": "" if pattern in ("default", "any") else pattern,
        "role": "id" if is_key else word(field.get("role")),
        "unit": word(field.get("unit")) or word(field.get("units")),
        "label": description_of(word(field.get("title")), word(field.get("description"))),
    }
    return replace(
        variable_of(name, cells, pairs, missing if own is None else own),
        edges=tuple(word(one.get("from")) for one in bins)
        + tuple(word(one.get("below")) for one in bins[-1:]),
        missing_values=own,
        missing=word(limits.get("required")) != "true",
    )


def _field_levels(
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
        return [(text, "") for text in texts_of(limits["enum"])]
    if stated == "boolean":
        true = texts_of(field.get("trueValues", ["true"]))[0]
        false = texts_of(field.get("falseValues", ["false"]))[0]
        return [(false, ""), (true, "")]
    return []
