"""The schema of some columns of a file: the part of the whole schema that a question needs.

A rule that a row breaks either stops the release or sets one of the rule's columns to missing. A
rule that stops the release changes no value of a file that fits the schema, so it can be left out
if it names a column that is left out. A rule that sets a column to missing changes values, so all
its columns are kept whenever one of them is. No rule ever removes a row.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from dp_core.errors import BadInput, nearest
from dp_core.schema.definition import Schema
from dp_core.schema.reading.dependency_reader import PLACE
from dp_core.schema.reading.schema_file import parse_schema

_WHOLE_FILE = ("calibrate", "survey")
"""Keys about the weights and the sample design, which answers about the file do not use."""


def restricted_schema(schema: Schema, names: Collection[str]) -> Schema:
    """Return the schema of some columns; the others are ignored.

    Dependent columns keep their sources. Weights and columns of the sample design become ordinary
    columns. In every file that fits the whole schema, values of the kept columns are read as the
    whole schema reads them.

    Args:
        schema: Schema of the whole file, which is a single table.
        names: Released columns to keep, at least one.

    Raises:
        BadInput: if a name is not a column, or the schema has linked tables.
    """
    if schema.linked is not None:
        raise BadInput("The schema has linked tables, so no columns can be left out.")
    for name in names:
        if name not in schema.names:
            raise BadInput(f"There is no column {name!r}.{nearest(name, schema.names)}")
    kept, whole = kept_columns(schema, names), schema.document
    document: dict[str, Any] = {key: whole[key] for key in whole if key not in _WHOLE_FILE}
    columns: Any = whole["columns"]
    document["columns"] = [
        {name: _alone(definition, kept)}
        for column in columns
        for name, definition in column.items()
        if name in kept
    ]
    document["ignore"] = [*schema.ignore, *(each for each in schema.names if each not in kept)]
    document["impossible"] = [rule for rule in document["impossible"] if {*_names(rule)} <= {*kept}]
    named: dict[str, list[tuple[str, ...]]] = {
        "rules": [rule.columns for rule in schema.rules if rule.key == "rules"],
        "totals": [(each.column,) for each in schema.totals],
        "expectations": [each.columns for each in schema.expectations],
    }
    for key, columns_of in named.items():
        stated = zip(document.pop(key, ()), columns_of, strict=True)
        if items := [item for item, own in stated if {*own} <= {*kept}]:
            document[key] = items
    return parse_schema(document)


def kept_columns(schema: Schema, names: Collection[str]) -> tuple[str, ...]:
    """Return the columns that a restricted schema has, in the order of the schema.

    They are the named columns, the sources of dependent columns, the columns between two areas of a
    hierarchy, and the columns of each rule that can set one of its columns to missing.
    """
    kept = {*names}
    settled = {
        column.name
        for column in schema.released
        if column.missing == "level" and column.out_of_range == "missing"
    }
    impossible: Any = schema.document["impossible"]
    named = [rule.columns for rule in schema.rules if rule.key == "rules"]
    rules = [{*rule} for rule in (*map(_names, impossible), *named) if settled & {*rule}]
    while True:
        more = {each.source for each in schema.dependents if each.column.name in kept}
        for rule in rules:
            more |= rule if rule & kept else set()
        if schema.nested is not None:
            chain = schema.nested.columns
            places = [place for place, name in enumerate(chain) if name in kept | more]
            if places:
                more |= {*chain[places[0] : places[-1] + 1]}
        if more <= kept:
            return tuple(name for name in schema.names if name in kept)
        kept |= more


def _names(rule: list[Mapping[str, object]]) -> tuple[str, ...]:
    return tuple(name for part in rule for name in part)


def _alone(definition: Mapping[str, Any], kept: Collection[str]) -> dict[str, Any]:
    """Return the definition of a column without its role, and without an area that is left out."""
    found = {key: value for key, value in definition.items() if key != "role"}
    if "within" in found and found["within"] not in kept:
        found = {key: value for key, value in found.items() if key not in PLACE}
    return found
