"""Reads `schema.yaml`: public knowledge about the file, checked, as immutable objects.

Policies that the file states once and a column may state for itself:

- `missing_values`: a column's own list replaces the global one;
- `out_of_range`: the global `clip` speaks of columns with an order of values (integer, number,
  date), categories and ordinals stay with `reject`; `missing` needs `missing: level`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from dp_core.bin_edges import (
    MAX_CODES,
    Scale,
    empty_bin,
    exact_text,
    read_bins,
    value_text,
)
from dp_core.canonical import digest
from dp_core.code_list_file import (
    code_list_document,
    levels_of_codes,
    read_code_list,
    read_grouping,
)
from dp_core.errors import BadInput
from dp_core.node import Node, from_plain, one_of
from dp_core.privacy import MOST_ROWS
from dp_core.private_domain.reading import document as private_document
from dp_core.private_domain.reading import (
    groups_of_codes,
    is_private,
    levels_by_group,
    with_private_bins,
    with_private_levels,
)
from dp_core.publication import UNSTATED, read_publication
from dp_core.schema import (
    MISSING_LABEL,
    Column,
    Follower,
    Kind,
    Level,
    Missing,
    OutOfRange,
    Schema,
    Unit,
)
from dp_core.schema_calibrate import check_one_weight, check_weight, margins_document, read_margins
from dp_core.schema_follows import (
    follower_document,
    follows,
    in_order,
    read_follower,
    without_rule,
)
from dp_core.schema_rules import read_rules
from dp_core.structural_zeros import StructuralZeros
from dp_core.typed_text import shown
from dp_core.yaml_text import Document, load

VERSION = 1
KINDS: tuple[Kind, ...] = ("category", "ordinal", "integer", "number", "date")
_MISSING: tuple[Missing, ...] = ("reject", "level")
_OUT_OF_RANGE: tuple[OutOfRange, ...] = ("reject", "clip", "missing")
_ROLES = ("id", "weight")

_KEYS = (
    "version",
    "title",
    "description",
    "publication",
    "unit",
    "rows_about",
    "missing_values",
    "out_of_range",
    "columns",
    "ignore",
    "impossible",
    "calibrate",
)
_COMMON = ("type", "description", "role", "missing", "missing_values", "out_of_range")
_LEVELLED = ("levels", "groups", "codes", "group", "follows", "map")
_BINNED = ("min", "max", "bins", "edges")
_SPEC_KEYS = {"release", "privacy", "account", "schema", "method"}
_COLUMN_EXAMPLE = "{type: integer, min: 0, max: 80}"


def load_schema(path: Path) -> Schema:
    """Read a schema file.

    Raises:
        BadInput: for any mistake, naming file, line, key and what is expected there.
    """
    return parse_schema(load(path))


def parse_schema(source: Document | Mapping[str, object]) -> Schema:
    """Return the schema of a loaded document, or of a plain mapping such as `Schema.document`."""
    root = source.root if isinstance(source, Document) else from_plain(source, source="schema")
    entries = root.entries(example="`version: 1`, `title: ...`, `columns: ...`")
    if "columns" not in entries and _SPEC_KEYS & set(entries):
        raise BadInput(
            f"{root.source}: is a release spec, not a schema; name the file that has `columns`."
        )
    keys = root.fields(_KEYS, required=("version", "title", "columns"))
    check_version(keys["version"], VERSION)
    title = keys["title"].name()
    missing_values = (
        keys["missing_values"].texts(example='["", "?"]') if ("missing_values" in keys) else ("",)
    )
    out_of_range = one_of(keys.get("out_of_range"), _OUT_OF_RANGE)
    definitions = keys["columns"].ordered_entries(example=f"age: {_COLUMN_EXAMPLE}")
    if not definitions:
        raise keys["columns"].error(f"has no column; add one, such as age: {_COLUMN_EXAMPLE}.")
    folder = source.path.parent if isinstance(source, Document) else None
    identifiers = tuple(name for name, node in definitions.items() if _is_identifier(node))
    unit = Unit()
    if "unit" in keys:
        ignored = keys["ignore"].texts() if "ignore" in keys else ()
        others = tuple(name for name in definitions if name not in identifiers)
        unit = _read_unit(keys["unit"], missing_values, others, ignored)
    following = {name: node for name, node in definitions.items() if follows(node)}
    columns = tuple(
        _read_column(name, node, missing_values, out_of_range, folder)
        for name, node in definitions.items()
        if name not in identifiers and name not in following
    )
    if not columns:
        raise keys["columns"].error(
            "has no column with values of its own; add one to release, such as age:"
            f" {_COLUMN_EXAMPLE}."
        )
    ignore = (
        *_read_ignore(keys.get("ignore"), definitions),
        *(name for name in identifiers if name != unit.column),
    )
    check_one_weight(columns, definitions)
    followers = _read_followers(following, columns, missing_values, out_of_range, folder)
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
        followers=followers,
        order=tuple(name for name in definitions if name not in identifiers),
    )
    zeros = read_rules(rules, schema) if rules is not None else StructuralZeros()
    schema = replace(schema, zeros=zeros)
    margins = read_margins(keys["calibrate"], schema, folder) if "calibrate" in keys else ()
    return replace(
        schema,
        calibration=margins,
        document={
            "version": str(VERSION),
            "title": schema.title,
            "description": schema.description,
            **({"publication": published.document()} if published.document() else {}),
            "unit": "row"
            if unit.column is None
            else {"column": unit.column, "max_rows": str(unit.max_rows)},
            **({} if schema.rows_about is None else {"rows_about": str(schema.rows_about)}),
            "missing_values": list(missing_values),
            "out_of_range": out_of_range,
            "columns": [
                {
                    column.name: _column_document(column, definitions[column.name].entries())
                    | _following(schema, column.name)
                }
                for column in schema.released
            ],
            "ignore": list(ignore),
            "impossible": [] if rules is None else [_rule_document(rule) for rule in rules.items()],
            **({"calibrate": margins_document(margins, schema)} if margins else {}),
        },
    )


def schema_hash(schema: Schema) -> str:
    """Return the SHA-256, in hex, of the schema's canonical JSON (sorted keys, no spaces).

    What has an order (columns, levels) is a list there, so any JSON tool keeps the hash.
    """
    return digest(schema.document)


def check_version(node: Node, version: int) -> None:
    """Refuse a file of another format version."""
    if node.integer() != version:
        raise node.error(f"this program reads version {version}, not {shown(node.text())}.")


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
            f"{shown(column)} tells persons apart and is not synthesised; remove it from `columns`."
        )
    if column in ignored:
        raise keys["column"].error(
            f"{shown(column)} tells persons apart and is read; remove it from `ignore`."
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
                f"{shown(name)} is a column of the schema too; keep it in one of the two."
            )
    return names


def _is_identifier(node: Node) -> bool:
    """Return whether a column is declared as one that is neither read nor released."""
    if not isinstance(node.content, Mapping) or "role" not in node.content:
        return False
    if node.content["role"].choice(_ROLES) != "id":
        return False
    for key, place in node.content.items():
        if key not in ("role", "type", "description"):
            raise place.error("a column of role id is neither read nor released; remove this key.")
    return True


def _read_column(
    name: str,
    node: Node,
    missing_values: tuple[str, ...],
    out_of_range: OutOfRange,
    folder: Path | None,
) -> Column:
    if not name.strip():
        raise node.error("a column's name must not be blank.")
    all_keys = (*_COMMON, *_LEVELLED, *_BINNED, "decimals", "format")
    keys = node.fields(all_keys, required=("type",), example=_COLUMN_EXAMPLE)
    kind = one_of(keys["type"], KINDS)
    for key in keys:
        if key not in _allowed(kind):
            owners = [other for other in KINDS if key in _allowed(other)]
            raise keys[key].error(
                f"belongs to the type {' or '.join(owners)}, not to {kind};"
                " change the type or remove the key."
            )
    if "map" in keys:
        raise keys["map"].error("needs `follows`, the column whose levels are mapped.")
    missing = one_of(keys.get("missing"), _MISSING)
    if "missing_values" in keys:
        missing_values = keys["missing_values"].texts(example='["", "?"]')
    column = Column(
        name=name,
        kind=kind,
        missing=missing,
        missing_values=missing_values,
        out_of_range=_column_out_of_range(node, keys, kind, missing, out_of_range),
        description=keys["description"].text() if "description" in keys else "",
    )
    if kind == "category" or kind == "ordinal":
        column = _with_levels(column, node, keys, folder)
    else:
        column = _with_bins(column, node, keys, kind)
    if "role" in keys:
        keys["role"].choice(_ROLES)
        column = replace(column, role="weight")
        check_weight(column, keys["role"])
    if max(column.size, column.stored.size) > MAX_CODES:
        size = max(column.size, column.stored.size)
        raise node.error(f"has {size} codes; a column has at most {MAX_CODES}.")
    return column


def _allowed(kind: Kind) -> tuple[str, ...]:
    if kind in ("category", "ordinal"):
        return _COMMON + _LEVELLED
    own = {"number": ("decimals",), "date": ("format",)}.get(kind, ())
    return (*_COMMON, *_BINNED, *own)


def _column_out_of_range(
    node: Node, keys: Mapping[str, Node], kind: Kind, missing: Missing, default: OutOfRange
) -> OutOfRange:
    levelled = kind in ("category", "ordinal")
    own = keys.get("out_of_range")
    policy = one_of(own, _OUT_OF_RANGE) if own is not None else default
    if policy == "missing" and missing != "level":
        raise node.error(
            "out_of_range: missing needs `missing: level`; add it to this column, or give the"
            " column `out_of_range: reject`."
        )
    if policy == "clip" and levelled:
        if own is not None:
            raise own.error(f"a {kind} has no nearest level to clip to; write reject or missing.")
        return "reject"
    return policy


def _read_followers(
    definitions: Mapping[str, Node],
    columns: Sequence[Column],
    missing_values: tuple[str, ...],
    out_of_range: OutOfRange,
    folder: Path | None,
) -> tuple[Follower, ...]:
    read = {column.name: column for column in columns}
    found = []
    for name in in_order(definitions, tuple(read)):
        node = definitions[name]
        keys = node.entries()
        if "type" in keys and one_of(keys["type"], KINDS) not in ("category", "ordinal"):
            raise keys["type"].error("a column that follows another is a category or an ordinal.")
        column = _read_column(name, without_rule(node), missing_values, "reject", folder)
        own = keys.get("out_of_range")
        policy = one_of(own, _OUT_OF_RANGE) if own is not None else out_of_range
        source = read[keys["follows"].text()]
        follower = read_follower(replace(column, out_of_range=policy), node, source, folder)
        read[name] = follower.column
        found.append(follower)
    return tuple(found)


def _following(schema: Schema, name: str) -> dict[str, object]:
    for follower in schema.followers:
        if follower.column.name == name:
            return follower_document(follower, schema.column(follower.source))
    return {}


def _with_levels(
    column: Column, node: Node, keys: Mapping[str, Node], folder: Path | None
) -> Column:
    private = is_private(keys.get("levels"))
    if private and column.kind == "ordinal":
        raise keys["levels"].error(
            "the levels of an ordinal cannot be chosen privately, because the rest of a group has"
            " no place in their order; make it a category, or list the levels."
        )
    if "groups" in keys and ("codes" in keys or not private):
        raise keys["groups"].error(
            "groups are for listed levels that are chosen privately; write levels: {private: 20}"
            " and no codes beside them, or remove them."
        )
    if "codes" not in keys:
        if "group" in keys:
            raise keys["group"].error("speaks of a code list; give the column `codes: FILE.csv`.")
        if not private:
            return replace(column, levels=_read_levels(node, keys, column.missing_values))
        merged, groups = levels_by_group(keys)
        levels = _read_levels(node, {"levels": merged}, column.missing_values)
        return with_private_levels(replace(column, levels=levels), keys, groups)
    if "levels" in keys and not private:
        raise keys["levels"].error("give levels or codes, not both.")
    codes = read_code_list(keys["codes"], folder)
    grouping = read_grouping(keys["group"], codes) if "group" in keys else None
    levels, members = levels_of_codes(keys["codes"], codes, grouping, column.missing_values)
    column = replace(column, levels=levels, stands_for=members, codes=codes, grouping=grouping)
    return with_private_levels(column, keys, groups_of_codes(column, keys)) if private else column


def _read_levels(
    column: Node, keys: Mapping[str, Node], missing_values: tuple[str, ...]
) -> tuple[Level, ...]:
    example = "[low, high] or {1: low, 2: high}"
    if "levels" not in keys:
        raise column.error(
            f"the key 'levels' is missing; list the file's texts, such as {example}, or name a"
            " code list with `codes: FILE.csv`."
        )
    node = keys["levels"]
    if not isinstance(node.content, Mapping | tuple):
        node.items(example=example)  # says what is expected
    entries = node.ordered_entries(example=example, bare=True)
    pairs = [(text, place, place.text()) for text, place in entries.items()]
    if not pairs:
        raise node.error(
            f"no level is listed; list the texts the file may hold, such as {example}."
        )
    labels: dict[str, str] = {}
    for text, place, label in pairs:
        for word in dict.fromkeys((text, label)):
            if word in missing_values:
                raise place.error(
                    f"{shown(word)} is a level and a missing value; remove the level, or give the"
                    " column its own `missing_values`."
                )
        if not label.strip():
            raise place.error(f'level {shown(text)} needs a label, as in {{"{text}": none}}.')
        if label in labels:
            raise place.error(f"{shown(text)} and {shown(labels[label])} have the same label.")
        if label == MISSING_LABEL:
            raise place.error(
                f"{shown(label)} is what missing values are called; choose another label."
            )
        labels[label] = text
    return tuple(Level(text, label) for text, _, label in pairs)


def _with_bins(column: Column, node: Node, keys: Mapping[str, Node], scale: Scale) -> Column:
    decimals = None
    if "decimals" in keys:
        decimals = keys["decimals"].integer(minimum=0, maximum=15)
    if "edges" not in keys and "bins" in keys and isinstance(keys["bins"].content, Mapping):
        return with_private_bins(replace(column, decimals=decimals), node, keys, scale)
    bins = read_bins(node, keys, scale)
    if decimals is not None and (empty := empty_bin(bins.edges, decimals)):
        raise keys["decimals"].error(
            f"no number of {decimals} decimals lies in the bin from {exact_text(empty[0])}"
            f" to {exact_text(empty[1])}; allow more decimals or make fewer bins."
        )
    return replace(
        column,
        format=_read_format(keys["format"]) if "format" in keys else "",
        edges=bins.edges,
        minimum=bins.minimum,
        maximum=bins.maximum,
        decimals=decimals,
    )


def _read_format(node: Node) -> str:
    text = node.name()
    if "%y" in text:
        raise node.error("a year of two digits says no century; the file needs %Y.")
    if sorted(re.findall("%.?", text)) != ["%Y", "%d", "%m"]:
        raise node.error(
            f"{shown(text)} is no format of a date; write %d, %m and %Y once each, as in %d.%m.%Y."
        )
    return text


def _column_document(column: Column, keys: Mapping[str, Node]) -> dict[str, object]:
    """Return the column as a schema would state it, defaults filled in and numbers canonical."""
    document: dict[str, object] = {"type": column.kind}
    if column.codes is not None:
        document["codes"] = code_list_document(column.codes)
        if column.grouping is not None:
            document["group"] = {
                "depth": str(column.grouping.depth),
                "keep": list(column.grouping.keep),
            }
        if column.choice is not None:
            document |= private_document(column)
    elif column.choice is not None and column.levels:
        document |= private_document(column)
    elif column.kind == "category" or column.kind == "ordinal":
        document["levels"] = [
            level.text if level.text == level.label else {level.text: level.label}
            for level in column.levels
        ]
    else:
        scale: Scale = column.kind

        def text(value: Fraction | None) -> str:
            assert value is not None
            return value_text(value, scale)

        document |= {"min": text(column.minimum), "max": text(column.maximum)}
        if column.choice is not None:
            document |= private_document(column)
        elif "edges" in keys:
            document["edges"] = [text(edge) for edge in column.edges]
        elif "bins" in keys:
            document["bins"] = keys["bins"].text() if scale == "date" else str(column.bins)
        if column.decimals is not None:
            document["decimals"] = str(column.decimals)
        if column.format:
            document["format"] = column.format
    return document | {
        **({"role": column.role} if column.role else {}),
        "missing": column.missing,
        "missing_values": list(column.missing_values),
        "out_of_range": column.out_of_range,
        "description": column.description,
    }


def _rule_document(rule: Node) -> list[dict[str, object]]:
    """Return a rule as a list: the order of its columns says which one may be set to missing."""
    return [
        {name: _plain(condition)}
        for name, condition in rule.ordered_entries(example="- {age: 3}").items()
    ]


def _plain(node: Node) -> object:
    if isinstance(node.content, tuple):
        return [_plain(item) for item in node.content]
    if isinstance(node.content, Mapping):
        return {key: _plain(value) for key, value in node.content.items()}
    return node.content
