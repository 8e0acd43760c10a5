"""Reads `schema.yaml`: public knowledge about the file, checked, as immutable objects.

Policies that the file states once and a column may state for itself:

- `missing_values`: a column's own list replaces the global one;
- `out_of_range`: the global `clip` applies to integer, number and date columns; categories and
  ordinals keep `reject`. `missing` needs `missing: level`;
- `density`: applies to integer, number and date columns with public bins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from dp_core.errors import BadInput
from dp_core.kernel.document import A_ROW, MOST_ROWS, ProtectedUnit
from dp_core.schema.column_types.registry import column_type, words
from dp_core.schema.definition import Column, DependentColumn, Schema
from dp_core.schema.publication import UNSTATED, read_publication
from dp_core.schema.reading.calibration_reader import read_margins
from dp_core.schema.reading.column_reader import (
    COLUMN_EXAMPLE,
    DENSITIES,
    OUT_OF_RANGE,
    ROLES,
    UNREAD,
    Policies,
    read_column,
)
from dp_core.schema.reading.dependency_reader import (
    KEYS,
    PLACE,
    check_rule,
    in_order,
    read_dependent,
    read_nested,
)
from dp_core.schema.reading.expectation_reader import EXAMPLE as EXPECTATION_EXAMPLE
from dp_core.schema.reading.expectation_reader import read_expectation
from dp_core.schema.reading.linked_reader import read_tables
from dp_core.schema.reading.panel_reader import read_panel
from dp_core.schema.reading.schema_document import VERSION, schema_document
from dp_core.schema.reading.stated_rules.column_rule_reader import EXAMPLE as RULE_EXAMPLE
from dp_core.schema.reading.stated_rules.column_rule_reader import read_column_rule
from dp_core.schema.reading.stated_rules.rule_reader import place_of, read_rules
from dp_core.schema.reading.survey_reader import check_roles, read_survey
from dp_core.schema.reading.totals_reader import read_totals
from dp_core.schema.rules.column_rules import ColumnRule
from dp_core.schema.rules.excluded_boxes import with_excluded_boxes
from dp_core.schema.structure.structural_zeros import StructuralZeros
from dp_core.text.documents.faults import Faults, top_keys
from dp_core.text.documents.node import Node, from_plain, one_of
from dp_core.text.documents.strict_yaml import Document, load
from dp_core.text.documents.typed_text import quote

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
    "rules",
    "calibrate",
    "totals",
    "survey",
    "expectations",
)
_Item = TypeVar("_Item")
_Other = TypeVar("_Other")
_SPEC_KEYS = {"release", "privacy", "account", "schema", "method"}


def load_schema(path: Path) -> Schema:
    """Read a schema file.

    Raises:
        BadInput: for any fault, with its file, line and key, and what is expected there; see
            `parse_schema`.
    """
    return parse_schema(load(path))


def parse_schema(
    source: Document | Mapping[str, object], *, first_fault: bool | None = None
) -> Schema:
    """Return the schema of a loaded document, or of a plain mapping such as `Schema.document`.

    Args:
        source: The document or mapping.
        first_fault: Whether to report the first fault only. By default true for a mapping, which
            a program has usually written, and false for a document.

    Raises:
        BadInput: with all faults that do not follow from another one: at most one for each
            top-level key, column, rule and expectation.
    """
    typed = isinstance(source, Document)
    root = source.root if isinstance(source, Document) else from_plain(source, source="schema")
    folder = source.path.parent if isinstance(source, Document) else None
    faults = Faults(root.source, each=typed if first_fault is None else not first_fault)
    if any(map(root.has, _SPEC_KEYS)) or not (root.has("tables") or root.has("panel")):
        return _read_flat(root, folder, faults)
    if root.has("tables"):
        tables = read_tables(root, faults)
        return tables.widen(_read_flat(tables.flat, folder, faults), faults)
    stated = read_panel(root, faults)
    return stated.of(_read_flat(stated.flat, folder, faults, stated.definitions))


def _read_flat(
    root: Node,
    folder: Path | None,
    faults: Faults,
    of_file: Mapping[str, Node] | None = None,
) -> Schema:
    """Return the schema of a top value with the columns of one table.

    Args:
        root: The top value.
        folder: Folder of the schema file; None for a plain mapping.
        faults: Notes the faults; its bad columns are left out because their fault was noted.
        of_file: The columns as the file has them, which `ignore` is about; those of the top value
            by default. With others, its unit was checked before.
    """
    keys = _top_keys(root, faults)
    of = faults.of

    def read_or(key: str, otherwise: _Other, read: Callable[[Node], _Item]) -> _Item | _Other:
        return of(otherwise, read, keys[key]) if key in keys else otherwise

    policies = Policies(
        read_or("missing_values", ("",), lambda node: node.texts(example='["", "?"]')),
        of(OUT_OF_RANGE[0], one_of, keys.get("out_of_range"), OUT_OF_RANGE),
        of(DENSITIES[0], one_of, keys.get("density"), DENSITIES),
        folder,
    )
    title = read_or("title", "", Node.name)
    description = read_or("description", "", Node.text)
    published = read_or("publication", UNSTATED, read_publication)
    rows_about = of(None, keys["rows_about"].integer, minimum=1) if "rows_about" in keys else None
    definitions = of(None, keys["columns"].ordered_entries, example=f"age: {COLUMN_EXAMPLE}")
    if definitions is None or not definitions:
        faults.stop()
        raise keys["columns"].error(f"has no column; add one, such as age: {COLUMN_EXAMPLE}.")
    roles = {name: of(None, _unread, node) for name, node in definitions.items()}
    identifiers = tuple(name for name, role in roles.items() if role == "id")
    replicates = tuple(name for name, role in roles.items() if role == "replicate_weight")
    unit = A_ROW
    if "unit" in keys:
        ignored: tuple[str, ...] = ()
        if "ignore" in keys and of_file is None:
            ignored = of((), keys["ignore"].texts, example="[interview_id]")
        others = tuple(name for name in definitions if name not in identifiers)
        unit = of(unit, _read_unit, keys["unit"], policies.missing_values, others, ignored)
    following = {name: node for name, node in definitions.items() if node.has("follows")}
    read = {
        name: of(
            None, read_column, name, node.without(*PLACE) if node.has("within") else node, policies
        )
        for name, node in definitions.items()
        if roles[name] == "" and name not in following
    }
    columns = tuple(column for column in read.values() if column is not None)
    if not columns:
        faults.stop()
        raise keys["columns"].error(
            "has no column to release that does not follow another; add one, such as age:"
            f" {COLUMN_EXAMPLE}."
        )
    in_file = definitions if of_file is None else of_file
    ignore = (
        *read_or("ignore", (), partial(_read_ignore, columns=in_file)),
        *(name for name in identifiers if name != unit.column),
    )
    faults.bad |= {name for name, role in roles.items() if role is None}
    faults.bad |= {name for name, column in read.items() if column is None}
    dependents = _read_dependents(following, columns, policies, faults)
    if not faults.bad:
        of(None, check_roles, (*columns, *(one.column for one in dependents)), definitions)
    nested = read_nested(definitions, columns, folder, faults)
    left_out = {*identifiers, *replicates, *faults.bad}
    schema = Schema(
        title=title,
        description=description,
        publication=published,
        rows_about=rows_about,
        columns=columns,
        ignore=ignore,
        zeros=StructuralZeros(),
        document={},
        unit=unit,
        dependents=dependents,
        order=tuple(name for name in definitions if name not in left_out),
        nested=nested,
    )

    def read_rule(item: Node) -> ColumnRule:
        rule = read_column_rule(item, schema)
        check_rule(schema, rule.text, rule.columns, item)
        return rule

    def read_each(key: str, read: Callable[[Node], _Item], example: str) -> tuple[_Item, ...]:
        """Return what the items of a list state; skips items about bad columns."""
        items = read_or(key, (), lambda node: tuple(faults.items(node, example=example)))
        found = [of(None, read, item) for item in items]
        return tuple(one for one in found if one is not None)

    no_rules: tuple[StructuralZeros, tuple[ColumnRule, ...]] = (StructuralZeros(), ())
    zeros, between = read_or("impossible", no_rules, lambda node: read_rules(node, schema, faults))
    between += read_each("rules", read_rule, RULE_EXAMPLE)
    read_one = partial(read_expectation, schema=schema)
    expected = read_each("expectations", read_one, EXPECTATION_EXAMPLE)
    faults.stop()
    schema = replace(schema, zeros=zeros, rules=between)
    schema = replace(schema, zeros=with_excluded_boxes(schema, between)) if between else schema
    of(None, _check_weight, keys, schema)
    margins = read_or("calibrate", (), lambda node: read_margins(node, schema, folder))
    totals = read_or("totals", (), lambda node: read_totals(node, schema, folder, faults))
    survey = of(None, read_survey, keys.get("survey"), schema, definitions, replicates)
    faults.stop()
    assert survey is not None
    schema = replace(
        schema,
        calibration=margins,
        totals=totals,
        expectations=expected,
        survey=survey,
        ignore=(*ignore, *survey.replicate_weights),
    )
    return replace(schema, document=schema_document(schema, policies, definitions, keys))


def _top_keys(root: Node, faults: Faults) -> Mapping[str, Node]:
    """Return the keys of a schema; notes each unknown one, and each that is missing.

    Raises:
        BadInput: if the rest cannot be judged: it is another kind of document, or another version,
            or has no columns.
    """
    entries = root.entries(example="`version: 1`, `title: ...`, `columns: ...`")
    if "columns" not in entries and _SPEC_KEYS & set(entries):
        raise BadInput(
            f"{root.source}: is a release spec, not a schema; name the file with `columns`."
        )
    keys = top_keys(root, faults, _KEYS, required=("version", "title", "columns"))
    if "version" in keys:
        faults.of(None, check_version, keys["version"], VERSION)
        if str(keys["version"].content).isdecimal() and faults.found:
            check_version(keys["version"], VERSION)
    if "columns" not in keys:
        faults.stop()
    return keys


def _check_weight(keys: Mapping[str, Node], schema: Schema) -> None:
    """Refuse rules about a weight that is calibrated, because calibration changes its values."""
    weight = schema.weight
    if weight is None or "calibrate" not in keys:
        return
    for rule in schema.rules:
        if weight.name in rule.columns:
            raise place_of(rule, keys[rule.key]).error(
                f"`{rule.text}` names the weight {quote(weight.name)}, whose values `calibrate`"
                " changes after the rules were obeyed; remove the rule, or `calibrate`."
            )


def check_version(node: Node, version: int) -> None:
    """Refuse a file of another format version."""
    if node.text() != str(version):
        raise node.error(
            f"must be {version}; this program does not read version {quote(node.text())}."
        )


def _read_unit(
    node: Node, missing_values: tuple[str, ...], columns: Sequence[str], ignored: Sequence[str]
) -> ProtectedUnit:
    example = "{column: person_id, max_rows: 4}"
    if isinstance(node.content, str):
        if node.content != "row":
            raise node.error(
                f"{quote(node.content)} is not a unit; write row, or {example} for persons."
            )
        return A_ROW
    keys = node.fields(("column", "max_rows"), required=("column", "max_rows"), example=example)
    column = keys["column"].key_column()
    if column in columns:
        raise keys["column"].error(
            f"{quote(column)} identifies persons and is not released; remove it from `columns`."
        )
    if column in ignored:
        raise keys["column"].error(
            f"{quote(column)} identifies persons, so it is read; remove it from `ignore`."
        )
    most = keys["max_rows"].integer(minimum=1, maximum=MOST_ROWS)
    return ProtectedUnit("person", column, most, missing_values)


def _read_ignore(node: Node, columns: Mapping[str, Node]) -> tuple[str, ...]:
    names = node.texts(example="[interview_id]")
    for name in names:
        if name in columns:
            raise node.error(
                f"{quote(name)} is also under `columns`; keep it in one of the two places."
            )
    return names


def _unread(node: Node) -> str:
    """Return the role of a column that is neither read nor released; empty for other columns."""
    if not node.has("role"):
        return ""
    role = node.entries()["role"].choice(ROLES)
    if role not in UNREAD:
        return ""
    for key, place in node.entries().items():
        if key not in ("role", "type", "description"):
            raise place.error(
                f"a column with `role: {role}` is neither read nor released; remove this key."
            )
    return role


def _read_dependents(
    definitions: Mapping[str, Node], columns: Sequence[Column], policies: Policies, faults: Faults
) -> tuple[DependentColumn, ...]:
    """Return the dependent columns; those that are faulty, or follow a bad one, become bad too."""
    read, bad = {column.name: column for column in columns}, faults.bad
    found = []
    order = faults.of((), in_order, definitions, (*read, *bad))
    bad |= set(definitions) - set(order)
    for name in order:
        source = definitions[name].entries()["follows"].text()
        dependent = None
        if name not in bad and source not in bad:
            node = definitions[name]
            dependent = faults.of(None, _read_dependent, name, node, read[source], policies)
        if dependent is None:
            bad.add(name)
        else:
            read[name] = dependent.column
            found.append(dependent)
    return tuple(found)


def _read_dependent(name: str, node: Node, source: Column, policies: Policies) -> DependentColumn:
    keys = node.entries()
    if "type" in keys and not column_type(one_of(keys["type"], words())).levels:
        raise keys["type"].error("a column with `follows` must be a category or an ordinal.")
    # `out_of_range` has another meaning here, see `DependentColumn`.
    alone = node.without(*KEYS, "out_of_range")
    column = read_column(name, alone, replace(policies, out_of_range="reject"))
    own = keys.get("out_of_range")
    policy = one_of(own, OUT_OF_RANGE) if own is not None else policies.out_of_range
    return read_dependent(replace(column, out_of_range=policy), node, source, policies.folder)
