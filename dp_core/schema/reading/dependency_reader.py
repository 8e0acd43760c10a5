"""Columns that follow others: `follows`, with a `map` of levels or the `edges` of a number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from dp_core.documents.node import Node
from dp_core.documents.typed_text import shown
from dp_core.errors import nearest
from dp_core.schema.bin_edges import read_value, value_text
from dp_core.schema.definition import MISSING_LABEL, Column, DependentColumn
from dp_core.schema.dependencies import scale_of
from dp_core.schema.reading.code_list_reader import read_pairs
from dp_core.schema.reading.level_reader import (
    check_public,
    level_names,
    missing_code,
    read_level,
)

KEYS = ("follows", "map", "edges")
"""Keys of a following column beside those of its type."""


def without_rule(node: Node) -> Node:
    """Return the definition of a following column without what says how it follows."""
    assert isinstance(node.content, Mapping)
    content = {key: place for key, place in node.content.items() if key not in KEYS}
    content.pop(
        "out_of_range", None
    )  # a dependent column has one of its own, see `DependentColumn`
    return Node(content, node.source, node.line, node.key)


def follows(node: Node) -> bool:
    """Return whether a column is defined as one that follows another."""
    return isinstance(node.content, Mapping) and "follows" in node.content


def in_order(dependents: Mapping[str, Node], known: Sequence[str]) -> tuple[str, ...]:
    """Return the names of following columns, each after what it follows.

    Args:
        dependents: Definitions of the dependent columns, by name.
        known: Names of the others.

    Raises:
        BadInput: if what is followed does not exist, or a column follows itself by a detour.
    """
    sources: dict[str, str] = {}
    for name, node in dependents.items():
        place = node.entries()["follows"]
        source = place.text(example="industry")
        if source not in dependents and source not in known:
            raise place.error(
                f"there is no column {shown(source)} to follow."
                f"{nearest(source, [*known, *dependents])}"
            )
        sources[name] = source
    done: list[str] = []
    for name, node in dependents.items():
        line: list[str] = []
        while name in sources and name not in done:
            if name in line:
                raise node.entries()["follows"].error(
                    f"{shown(name)} follows itself, by way of"
                    f" {' and '.join(shown(one) for one in line)}."
                )
            line.append(name)
            name = sources[name]
        done += reversed(line)
    return tuple(done)


def read_dependent(
    column: Column, node: Node, source: Column, folder: Path | None
) -> DependentColumn:
    """Return a following column.

    Args:
        column: Its type, levels and missing values; where the definition does not say so, whether
            it can be missing is decided by what it follows.
        node: Its definition.
        source: Of what it follows.
        folder: Of the schema file, for the name of a map.

    Raises:
        BadInput: if the rule does not give every value of the source one level.
    """
    keys = node.entries()
    for one in (column, source):
        check_public(keys["follows"], one, "no public rule can name them")
    if "missing" not in keys:
        column = replace(column, missing=source.missing)
    elif column.missing == "reject" and source.missing_code is not None:
        raise keys["missing"].error(
            f"{source.name!r} can be missing, and then so is what follows it; write level."
        )
    last = () if source.missing_code is None else (missing_code(keys["follows"], column),)
    if not source.levels:
        if "map" in keys:
            raise keys["map"].error(
                f"{source.name!r} is no category; write `edges`, where the next level begins."
            )
        cuts = _cuts(node, keys, column, source)
        codes = (*range(len(cuts) + 1), *last)
        return DependentColumn(column=column, source=source.name, codes=codes, cuts=cuts)
    if "edges" in keys:
        raise keys["edges"].error(f"{source.name!r} has levels; write a `map` of them.")
    codes = (*_mapped(node, keys, column, source, folder), *last)
    return DependentColumn(column=column, source=source.name, codes=codes)


def dependent_document(dependent: DependentColumn, source: Column) -> dict[str, object]:
    """Return how a column follows, as a schema would state it, by content."""
    if dependent.cuts:
        edges = [value_text(cut, scale_of(source)) for cut in dependent.cuts]
        return {"follows": dependent.source, "edges": edges}
    texts = [level.text for level in dependent.column.levels]
    return {
        "follows": dependent.source,
        "map": [
            {level.text: texts[code] if code < len(texts) else MISSING_LABEL}
            for level, code in zip(source.levels, dependent.codes, strict=False)
        ],
    }


def _mapped(
    node: Node, keys: Mapping[str, Node], column: Column, source: Column, folder: Path | None
) -> tuple[int, ...]:
    """Return the code for each level of the source."""
    own = column.texts()
    names = own, level_names(column)[1]
    if "map" in keys:
        given = read_pairs(keys["map"], folder, (source.name, column.name))
        place = keys["map"]
    elif source.codes is not None and source.codes == column.codes:
        # One list, another depth: the hierarchy is the map.
        place = keys["codes"]
        given = {text: replace(place, content=text) for text in source.texts() if text in own}
    else:
        raise node.error(
            f"the key 'map' is missing; say which level of {column.name!r} each level of"
            f" {source.name!r} becomes."
        )
    used: set[str] = set()
    found = []
    members = source.stands_for or tuple((level.text,) for level in source.levels)
    for level, texts in zip(source.levels, members, strict=True):
        by_text: dict[int, str] = {}
        for text in texts:
            name = next((key for key in (text, level.text, level.label) if key in given), None)
            if name is None:
                raise place.error(f"{shown(text)} of {source.name!r} is not mapped.")
            used.add(name)
            word = given[name].text(example="a level")
            by_text.setdefault(read_level(given[name], word, column, names), text)
        if len(by_text) > 1:
            one, other, *_ = by_text.values()
            raise place.error(
                f"{shown(one)} and {shown(other)} are one level of {source.name!r}"
                f" ({shown(level.label)}) and are mapped to two levels; group them more finely."
            )
        found.append(next(iter(by_text)))
    accepted = source.texts()
    for name, value in given.items():
        known = {word for level in source.levels for word in (level.text, level.label)}
        if name not in used and name not in known and name not in accepted:
            raise value.error(
                f"{shown(name)} is not a level of {source.name!r}.{nearest(name, known)}"
            )
    return tuple(found)


def _cuts(
    node: Node, keys: Mapping[str, Node], column: Column, source: Column
) -> tuple[Fraction, ...]:
    levels = len(column.levels)
    if levels < 2:
        raise node.error("has one level only, which every row would have; leave the column out.")
    if "edges" not in keys:
        raise node.error(
            f"the key 'edges' is missing; name the bin edges of {source.name!r} where the next"
            f" level of {column.name!r} begins."
        )
    items = keys["edges"].items(example="[15, 65]")
    scale = scale_of(source)
    values = [read_value(item, scale) for item in items]
    if len(values) == levels + 1 and (values[0], values[-1]) == (
        source.edges[0],
        source.edges[-1],
    ):
        items, values = items[1:-1], values[1:-1]
    if len(values) != levels - 1:
        raise keys["edges"].error(
            f"{levels} levels have {levels - 1} edges between them, not {len(values)}."
        )
    for item, value, before in zip(items, values, [None, *values], strict=False):
        if before is not None and value <= before:
            raise item.error("edges must rise.")
        if value not in source.edges[1:-1]:
            near = sorted(source.edges[1:-1], key=lambda edge: abs(edge - value))[:2]
            known = " and ".join(value_text(edge, scale) for edge in sorted(near))
            raise item.error(
                f"{value_text(value, scale)} is no bin edge of {source.name!r}"
                f"{f'; near it are {known}' if known else ''}."
            )
    return tuple(values)
