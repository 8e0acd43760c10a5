"""Reads `within`: each level of a column lies in one level of a column of larger areas."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from dp_core.errors import nearest
from dp_core.schema.definition import Column, Schema
from dp_core.schema.reading.dependency_reader import mapped
from dp_core.schema.reading.level_reader import check_public
from dp_core.tables.nested_columns import NestedColumns
from dp_core.text.documents.faults import Faults
from dp_core.text.documents.node import Node
from dp_core.text.documents.typed_text import shown

KEYS = ("within", "map")
"""Keys of a column that lies within another, besides those of its type."""

_EXAMPLE = "within: county"


def lies_within(node: Node) -> bool:
    """Return whether the definition of a column has the key `within`."""
    return isinstance(node.content, Mapping) and "within" in node.content


def without_place(node: Node) -> Node:
    """Return the definition of a column without the keys that say where it lies."""
    assert isinstance(node.content, Mapping)
    content = {key: place for key, place in node.content.items() if key not in KEYS}
    return Node(content, node.source, node.line, node.key)


def read_nested(
    definitions: Mapping[str, Node],
    columns: Sequence[Column],
    folder: Path | None,
    faults: Faults,
    bad: Collection[str],
) -> NestedColumns | None:
    """Return the columns that lie within one another, or None if there are none.

    Args:
        definitions: Definitions of all columns, by name.
        columns: The columns that are modelled.
        folder: Folder of the schema file, where maps are found; None for a plain mapping.
        faults: Notes each fault.
        bad: Columns with faults of their own; nothing that names them is judged.
    """
    for node in definitions.values():
        if lies_within(node) and "follows" in node.entries():
            faults.of(None, _refuse_both, node.entries()["within"])
    known = {column.name: column for column in columns}
    places = {
        name: node.entries()["within"]
        for name, node in definitions.items()
        if lies_within(node) and name in known
    }
    above: dict[str, str] = {}
    for name, place in places.items():
        upper = faults.of(None, _read_above, place, known[name], known, bad)
        if upper is not None:
            above[name] = upper
    if not above or len(above) < len(places):
        return None
    chain = faults.of(None, _in_a_line, above, places)
    if chain is None:
        return None
    parents = [
        faults.of(None, _read_parents, definitions[lower], known[upper], known[lower], folder)
        for upper, lower in pairwise(chain)
    ]
    found = tuple(each for each in parents if each is not None)
    return NestedColumns(chain, found) if len(found) == len(parents) else None


def nested_document(schema: Schema, name: str) -> dict[str, object]:
    """Return where a column lies as a schema states it, with the map written out."""
    nested = schema.nested
    upper = None if nested is None else nested.above(name)
    if nested is None or upper is None:
        return {}
    texts = [level.text for level in schema.column(upper).levels]
    own = schema.column(name).levels
    return {
        "within": upper,
        "map": [
            {level.text: texts[code]}
            for level, code in zip(own, nested.map(upper, name).tolist(), strict=True)
        ],
    }


def check_rule(schema: Schema, text: str, names: Collection[str], node: Node) -> None:
    """Refuse a rule that names a column in which others lie.

    Args:
        schema: The schema.
        text: The rule.
        names: The columns that it names.
        node: The item of the document that states it.

    Raises:
        BadInput: if the rule does so.
    """
    if schema.nested is None:
        return
    for name in schema.nested.upper:
        if name in names:
            raise node.error(
                f"the rule `{text}` names {name!r}, in which {schema.nested.lowest!r} lies;"
                f" state it for {schema.nested.lowest!r}, which decides {name!r}."
            )


def _read_above(
    place: Node, column: Column, known: Mapping[str, Column], bad: Collection[str]
) -> str | None:
    upper = place.text(example="county")
    if upper in bad:
        return None
    if upper == column.name:
        raise place.error(f"{upper!r} cannot lie within itself; name the column of larger areas.")
    if upper not in known:
        raise place.error(
            f"there is no column {shown(upper)} with levels of its own in which this can lie."
            f"{nearest(upper, known)}"
        )
    for one in (column, known[upper]):
        check_public(place, one, "no public map can name them")
        if not one.levels:
            raise place.error(
                f"{one.name!r} is not a category or an ordinal; only columns with levels lie within"
                " one another."
            )
        if one.missing_code is not None:
            raise place.error(
                f"{one.name!r} can be missing, but every row needs an area; add a level for unknown"
                " places, and write `missing: reject`."
            )
    return upper


def _refuse_both(place: Node) -> None:
    raise place.error(
        "a column that follows another one is computed from it, so it cannot have `within`; remove"
        " `within` or `follows`."
    )


def _in_a_line(above: Mapping[str, str], places: Mapping[str, Node]) -> tuple[str, ...]:
    """Return the columns from the largest areas to the smallest.

    Raises:
        BadInput: if a column lies within itself, or the columns are not in one line.
    """
    for name in above:
        seen = [name]
        while seen[-1] in above and above[seen[-1]] not in seen:
            seen.append(above[seen[-1]])
        if above.get(seen[-1]) == name:
            raise places[name].error(f"{name!r} lies within itself; remove one `within`.")
    lowest = [name for name in above if name not in above.values()]
    line = [lowest[0]]
    while line[-1] in above:
        line.append(above[line[-1]])
    apart = [name for name in above if name not in line]
    if apart:
        raise places[apart[0]].error(
            f"{apart[0]!r} and {lowest[0]!r} are in different hierarchies; a schema can have only"
            f" one, such as {' > '.join(reversed(line))}. Remove this `within`."
        )
    return tuple(reversed(line))


def _read_parents(node: Node, upper: Column, lower: Column, folder: Path | None) -> tuple[int, ...]:
    keys = node.entries()
    if "map" not in keys and (lower.codes is None or lower.codes != upper.codes):
        raise keys["within"].error(
            f"the key 'map' is missing; map each level of {lower.name!r} to the level of"
            f" {upper.name!r} in which it lies."
        )
    given = keys["map"].content if "map" in keys else None
    names = {*given} if isinstance(given, Mapping) else set()
    if names and names <= _words(upper) and not names & _words(lower):
        raise keys["map"].error(
            f"maps the levels of {upper.name!r}; instead, map each level of {lower.name!r} to the"
            f" level of {upper.name!r} in which it lies."
        )
    found = mapped(node, keys, upper, lower, folder)
    empty = np.flatnonzero(np.bincount(found, minlength=len(upper.levels)) == 0)
    if empty.size:
        level = upper.levels[int(empty[0])]
        place = keys.get("map", keys["within"])
        raise place.error(
            f"no level of {lower.name!r} lies in {shown(level.text)} of {upper.name!r}; correct the"
            f" map, or remove this level of {upper.name!r}."
        )
    return found


def _words(column: Column) -> set[str]:
    """Return the texts and labels of a column's levels."""
    return {word for level in column.levels for word in (level.text, level.label)}
