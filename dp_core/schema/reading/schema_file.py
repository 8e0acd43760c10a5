"""Reads `schema.yaml`: public knowledge about the file, checked, as immutable objects.

Policies that the file states once and a column may state for itself:

- `missing_values`: a column's own list replaces the global one;
- `out_of_range`: the global `clip` applies to integer, number and date columns; categories and
  ordinals keep `reject`. `missing` needs `missing: level`;
- `density`: applies to integer, number and date columns with public bins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from dp_core.documents.node import Node, from_plain, one_of
from dp_core.documents.strict_yaml import Document, load
from dp_core.documents.typed_text import shown
from dp_core.errors import BadInput
from dp_core.schema.definition import Column, DependentColumn, OutOfRange, Schema, Unit
from dp_core.schema.privacy import MOST_ROWS
from dp_core.schema.publication import UNSTATED, read_publication
from dp_core.schema.reading.calibration_reader import read_margins
from dp_core.schema.reading.column_reader import (
    COLUMN_EXAMPLE,
    DENSITIES,
    KINDS,
    OUT_OF_RANGE,
    ROLES,
    UNREAD,
    read_column,
)
from dp_core.schema.reading.dependency_reader import follows, in_order, read_dependent, without_rule
from dp_core.schema.reading.expectation_reader import read_expectations
from dp_core.schema.reading.rule_reader import read_rules
from dp_core.schema.reading.schema_document import VERSION, schema_document
from dp_core.schema.reading.survey_reader import check_roles, read_survey
from dp_core.tables.structural_zeros import StructuralZeros

_KEYS = (
    "version",
    "title",
    "description",
    "publication",
    "unit",
    "rows_about",
    "missing_values",
    "out_of_range",
    "density",
    "columns",
    "ignore",
    "impossible",
    "calibrate",
    "survey",
    "expectations",
)
_OTHER_KEYS = {
    **dict.fromkeys(("name", "survey", "dataset"), "write it in `title`"),
    **dict.fromkeys(("variables", "fields", "attributes"), "write `columns`"),
    **dict.fromkeys(
        ("rows", "n", "records"), "if it is public, write about how many: `rows_about`"
    ),
    **dict.fromkeys(("constraints", "zeros"), "write `impossible`"),
}
"""Names that other programs have for a key, and what to write instead."""
_SPEC_KEYS = {"release", "privacy", "account", "schema", "method"}


def load_schema(path: Path) -> Schema:
    """Read a schema file.

    Raises:
        BadInput: naming file, line, key and what is expected there.
    """
    return parse_schema(load(path))


def parse_schema(source: Document | Mapping[str, object]) -> Schema:
    """Return the schema of a loaded document, or of a plain mapping such as `Schema.document`."""
    root = source.root if isinstance(source, Document) else from_plain(source, source="schema")
    entries = root.entries(example="`version: 1`, `title: ...`, `columns: ...`")
    if "columns" not in entries and _SPEC_KEYS & set(entries):
        raise BadInput(
            f"{root.source}: is a release spec, not a schema; name the file with `columns`."
        )
    keys = root.fields(
        _KEYS,
        required=("version", "title", "columns"),
        lists=("missing_values", "ignore"),
        others=_OTHER_KEYS,
    )
    check_version(keys["version"], VERSION)
    title = keys["title"].name()
    missing_values = (
        keys["missing_values"].texts(example='["", "?"]') if ("missing_values" in keys) else ("",)
    )
    out_of_range = one_of(keys.get("out_of_range"), OUT_OF_RANGE)
    density = one_of(keys.get("density"), DENSITIES)
    definitions = keys["columns"].ordered_entries(example=f"age: {COLUMN_EXAMPLE}")
    if not definitions:
        raise keys["columns"].error(f"has no column; add one, such as age: {COLUMN_EXAMPLE}.")
    folder = source.path.parent if isinstance(source, Document) else None
    identifiers = tuple(name for name, node in definitions.items() if _unread(node) == "id")
    replicates = tuple(
        name for name, node in definitions.items() if _unread(node) not in ("", "id")
    )
    unit = Unit()
    if "unit" in keys:
        ignored = keys["ignore"].texts() if "ignore" in keys else ()
        others = tuple(name for name in definitions if name not in identifiers)
        unit = _read_unit(keys["unit"], missing_values, others, ignored)
    following = {name: node for name, node in definitions.items() if follows(node)}
    columns = tuple(
        read_column(name, node, missing_values, out_of_range, folder, density)
        for name, node in definitions.items()
        if name not in (*identifiers, *replicates, *following)
    )
    if not columns:
        raise keys["columns"].error(
            "has no column to release that does not follow another; add one, such as age:"
            f" {COLUMN_EXAMPLE}."
        )
    ignore = (
        *_read_ignore(keys.get("ignore"), definitions),
        *(name for name in identifiers if name != unit.column),
    )
    dependents = _read_dependents(following, columns, missing_values, out_of_range, folder)
    check_roles((*columns, *(one.column for one in dependents)), definitions)
    rules = keys.get("impossible")
    published = read_publication(keys["publication"]) if "publication" in keys else UNSTATED
    schema = Schema(
        title=title,
        description=keys["description"].text() if "description" in keys else "",
        publication=published,
        rows_about=keys["rows_about"].integer(minimum=1) if "rows_about" in keys else None,
        columns=columns,
        ignore=ignore,
        zeros=StructuralZeros(),
        document={},
        unit=unit,
        dependents=dependents,
        order=tuple(name for name in definitions if name not in (*identifiers, *replicates)),
    )
    zeros = read_rules(rules, schema) if rules is not None else StructuralZeros()
    schema = replace(schema, zeros=zeros)
    margins = read_margins(keys["calibrate"], schema, folder) if "calibrate" in keys else ()
    survey = read_survey(keys.get("survey"), schema, definitions, replicates)
    own = keys.get("expectations")
    expected = () if own is None else read_expectations(own, schema)
    schema = replace(
        schema,
        calibration=margins,
        expectations=expected,
        survey=survey,
        ignore=(*ignore, *survey.replicate_weights),
    )
    return replace(
        schema,
        document=schema_document(
            schema,
            missing_values=missing_values,
            out_of_range=out_of_range,
            columns=definitions,
            rules=() if rules is None else rules.items(),
            expectations=() if own is None else own.items(),
        ),
    )


def check_version(node: Node, version: int) -> None:
    """Refuse a file of another format version."""
    if node.integer() != version:
        raise node.error(
            f"must be {version}; this program does not read version {shown(node.text())}."
        )


def _read_unit(
    node: Node, missing_values: tuple[str, ...], columns: Sequence[str], ignored: Sequence[str]
) -> Unit:
    example = "{column: person_id, max_rows: 4}"
    if isinstance(node.content, str):
        if node.content != "row":
            raise node.error(
                f"{shown(node.content)} is not a unit; write row, or {example} for persons."
            )
        return Unit()
    keys = node.fields(("column", "max_rows"), required=("column", "max_rows"), example=example)
    column = keys["column"].name()
    if column in columns:
        raise keys["column"].error(
            f"{shown(column)} identifies persons and is not released; remove it from `columns`."
        )
    if column in ignored:
        raise keys["column"].error(
            f"{shown(column)} identifies persons, so it is read; remove it from `ignore`."
        )
    most = keys["max_rows"].integer(minimum=1, maximum=MOST_ROWS)
    return Unit(column, most, missing_values)


def _read_ignore(node: Node | None, columns: Mapping[str, Node]) -> tuple[str, ...]:
    if node is None:
        return ()
    names = node.texts(example="[interview_id]")
    for name in names:
        if name in columns:
            raise node.error(
                f"{shown(name)} is also under `columns`; keep it in one of the two places."
            )
    return names


def _unread(node: Node) -> str:
    """Return the role of a column that is neither read nor released; empty for other columns."""
    if not isinstance(node.content, Mapping) or "role" not in node.content:
        return ""
    role = node.content["role"].choice(ROLES)
    if role not in UNREAD:
        return ""
    for key, place in node.content.items():
        if key not in ("role", "type", "description"):
            raise place.error(
                f"a column with `role: {role}` is neither read nor released; remove this key."
            )
    return role


def _read_dependents(
    definitions: Mapping[str, Node],
    columns: Sequence[Column],
    missing_values: tuple[str, ...],
    out_of_range: OutOfRange,
    folder: Path | None,
) -> tuple[DependentColumn, ...]:
    read = {column.name: column for column in columns}
    found = []
    for name in in_order(definitions, tuple(read)):
        node = definitions[name]
        keys = node.entries()
        if "type" in keys and one_of(keys["type"], KINDS) not in ("category", "ordinal"):
            raise keys["type"].error("a column with `follows` must be a category or an ordinal.")
        column = read_column(name, without_rule(node), missing_values, "reject", folder)
        own = keys.get("out_of_range")
        policy = one_of(own, OUT_OF_RANGE) if own is not None else out_of_range
        source = read[keys["follows"].text()]
        dependent = read_dependent(replace(column, out_of_range=policy), node, source, folder)
        read[name] = dependent.column
        found.append(dependent)
    return tuple(found)
